// SPDX-License-Identifier: Apache-2.0
// The pods that rules of the upstream plugins speak of, as their comments and addresses tell.

import { acceptedBy, networkMark, tableOf, type UpstreamNftRules } from '../../plan/upstream/upstream-rules.ts'

/** A pod that rules speak of, as their comments tell it. `ifName`, `address`: where the rule has it. */
export interface NamedPod {
  readonly network: string
  readonly containerId: string
  readonly ifName?: string
  readonly address?: string
}

/** The pods that rules of ipMasq and portmap name in their comments. */
export function iptablesPods(saved: string): readonly NamedPod[] {
  const pattern = /--comment "(?:dnat )?name: \\"([^"\\]+)\\" id: \\"([^"\\]+)\\""/
  const { rules } = tableOf(saved, 'nat')
  return rules.flatMap((rule) => {
    const [, network, containerId] = pattern.exec(rule) ?? []
    if (network === undefined || containerId === undefined) return []
    const address = / -s (\S+)\/(?:32|128) /.exec(rule)?.[1] ?? targetOf(rules, rule)
    return [{ network, containerId, ...(address === undefined ? {} : { address }) }]
  })
}

/** The address that the chain of a rule translates to. */
function targetOf(rules: readonly string[], rule: string): string | undefined {
  const chain = / -j (CNI-DN-\S+)$/.exec(rule)?.[1]
  const inChain = rules.filter((each) => each.startsWith(`-A ${chain} `))
  return inChain.flatMap((each) => / --to-destination \[?([^\]\s]+?)\]?:\d+$/.exec(each)?.[1] ?? [])[0]
}

/** The addresses that rules of the firewall plugin accept, without prefix length. */
export function acceptedAddresses(saved: string): readonly string[] {
  const found = tableOf(saved, 'filter').rules.flatMap((rule) => acceptedBy(rule) ?? [])
  return [...new Set(found)]
}

/** The pods of `network` that ipMasq's rules name; portmap's have the container id only. */
export function nftPods({ rules }: UpstreamNftRules, network: string): readonly NamedPod[] {
  const mark = `${networkMark(network)}-`
  return rules.flatMap(({ table, comment, source }) => {
    if (table !== 'cni_plugins_masquerade' || !comment.startsWith(mark)) return []
    const [, ifName, containerId] = /, if: ([^,]+), id: (\S+)$/.exec(comment) ?? []
    // The plugin cuts comments at 128 bytes: a cut id names nobody.
    if (containerId === undefined || ifName === undefined || Buffer.byteLength(comment) >= 128) return []
    return [{ network, containerId, ifName, ...(source === undefined ? {} : { address: source }) }]
  })
}
