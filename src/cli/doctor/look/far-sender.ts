// SPDX-License-Identifier: Apache-2.0
// An address that stands for everybody beyond the node's own subnets. Pure: the routes are given.

import { familyOf, includes, parseAddress, parseCidr } from '../../../cni/model/address.ts'

/** Of RFC 5737 (TEST-NET-1, 2 and 3): somebody who is nobody. Labs have them on their links all the same. */
const documented = ['203.0.113.77', '198.51.100.77', '192.0.2.77']

/** Below it a route is one for nearly everybody: a VPN has 0.0.0.0/1 and 128.0.0.0/1 in place of a default route. */
const leastPrefix = 8

/** The first octets of unicast addresses, but for those of the loopback (RFC 1122, 3.2.1.3). */
const octets = Array.from({ length: 223 }, (_, at) => at + 1).filter((octet) => octet !== 127)

/**
 * An IPv4 address that only default routes lead to; undefined where there is none. `destinations`: of all routes of the
 * node, as CIDRs.
 */
export function farSender(destinations: readonly string[]): string | undefined {
  const known = destinations
    .filter((dst) => familyOf(dst) === 4)
    .flatMap((dst) => parseCidr(dst) ?? [])
    .filter(({ prefixLength }) => prefixLength >= leastPrefix)
  const candidates = [...documented, ...octets.map((octet) => `${octet}.0.113.77`)]
  return candidates.find((text) => {
    const address = parseAddress(text)
    return address !== undefined && !known.some((cidr) => includes(cidr, address))
  })
}
