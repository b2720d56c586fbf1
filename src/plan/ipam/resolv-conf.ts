// SPDX-License-Identifier: Apache-2.0
// The text of a resolv.conf, as the upstream host-local plugin reads it for `ipam.resolvConf`.

import type { Dns } from '../../cni/route.ts'

/**
 * The DNS settings in `text`; a key that does not occur is absent. One nameserver a line, the last
 * `domain` wins, `search` and `options` add up. Lines that start with `#` or `;`, lines with one
 * word and other keywords are passed over. Source: host-local's dns.go, resolv.conf(5).
 */
export function readResolvConf(text: string): Dns {
  const nameservers: string[] = []
  const search: string[] = []
  const options: string[] = []
  let domain: string | undefined
  for (const line of text.split('\n')) {
    const [keyword, ...values] = line.trim().split(/\s+/)
    const [first] = values
    if (keyword === undefined || first === undefined || /^[#;]/.test(keyword)) continue
    if (keyword === 'nameserver') nameservers.push(first)
    else if (keyword === 'domain') domain = first
    else if (keyword === 'search') search.push(...values)
    else if (keyword === 'options') options.push(...values)
  }
  return {
    ...(nameservers.length > 0 && { nameservers }),
    ...(domain !== undefined && { domain }),
    ...(search.length > 0 && { search }),
    ...(options.length > 0 && { options }),
  }
}
