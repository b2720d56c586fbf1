// SPDX-License-Identifier: Apache-2.0
// Which addresses a live pod on a bridge has whose link shows none, of a family or at all: gVisor takes them off the
// link, KubeVirt puts them on another one, and its guest takes the MAC too.

import {
  type Address,
  type Cidr,
  familyOf,
  firstOf,
  formatAddress,
  includes,
  parseAddress,
  parseCidr,
} from '../../cni/address.ts'
import { macOfAddress } from '../../model/names.ts'
import type { ObservedTable } from '../../model/observed.ts'
import { addressesByPort, type SeenPod } from './from-kernel.ts'

/**
 * A live pod. `known`: its addresses by surer sources; `prefixes`: of its network; `beside`: addresses of links of its
 * namespace that lead nowhere else.
 */
export interface PartlyKnown extends SeenPod {
  readonly known: readonly string[]
  readonly prefixes: readonly string[]
  readonly beside: readonly string[]
}

/** `neighbours`: the host's, addresses by MAC; `learned`: the MACs that bridges have seen behind each of their ports. */
interface Tellers {
  readonly table: ObservedTable
  readonly neighbours: ReadonlyMap<string, readonly string[]>
  readonly learned: ReadonlyMap<string, readonly string[]>
}

/** The prefixes of a family of which no address is known. */
export function lackingPrefixes({ known, prefixes }: Pick<PartlyKnown, 'known' | 'prefixes'>): readonly string[] {
  return prefixes.filter((prefix) => !known.some((address) => familyOf(address) === familyOf(prefix)))
}

/** With the addresses of missing families that the surest source of each tells. */
export function withTold<Pod extends PartlyKnown>(given: readonly Pod[], tellers: Tellers): readonly Pod[] {
  const { table, neighbours, learned } = tellers
  const macsOf = ({ link, end }: Pod) => [end.mac, ...(learned.get(link.name) ?? [])]
  const byMac = (pod: Pod, addresses: ReadonlyMap<string, readonly string[]>) =>
    macsOf(pod).flatMap((mac) => addresses.get(mac) ?? [])
  const pods = given.map((pod) => withMissing(pod, pod.beside))
  const lacking = pods.filter((pod) => lackingPrefixes(pod).length > 0)
  const made = addressesByMac(new Set(lacking.flatMap(macsOf)), new Set(lacking.flatMap(({ prefixes }) => prefixes)))
  return pods.map((pod) => {
    const byItsMac = withMissing(pod, byMac(pod, made))
    const byPort = withMissing(byItsMac, addressesByPort(table, byItsMac.known))
    const byNeighbours = withMissing(byPort, byMac(pod, neighbours))
    return withMissing(byNeighbours, addressesByPort(table, byNeighbours.known))
  })
}

/** With those of the addresses that are of a missing family, with prefix length. */
function withMissing<Pod extends PartlyKnown>(pod: Pod, told: readonly string[]): Pod {
  const prefixes = lackingPrefixes(pod).flatMap((prefix) => parseCidr(prefix) ?? [])
  const missing = [...new Set(told)].flatMap((text) => {
    const address = parseAddress(text)
    const around = address && prefixes.find((prefix) => includes(prefix, address))
    return around === undefined ? [] : [`${text}/${around.prefixLength}`]
  })
  return { ...pod, known: [...pod.known, ...missing] }
}

/** How many addresses of an IPv6 prefix are tried: a pool gives them out from the first one on. */
const mostTried = 1 << 16

/** The addresses that MACs were made of: of IPv4 they can be read off, of IPv6 there is a digest. */
function addressesByMac(macs: ReadonlySet<string>, among: ReadonlySet<string>) {
  const prefixes = [...among].flatMap((prefix) => parseCidr(prefix) ?? [])
  const found = new Map<string, readonly string[]>()
  const left = new Set(macs)
  for (const address of candidates(macs, prefixes)) {
    if (left.size === 0) break
    if (!prefixes.some((prefix) => includes(prefix, address))) continue
    const mac = macOfAddress(address)
    if (left.delete(mac)) found.set(mac, [formatAddress(address)])
  }
  return found
}

function* candidates(macs: ReadonlySet<string>, prefixes: readonly Cidr[]): Generator<Address> {
  for (const mac of macs) yield { family: 4, value: BigInt(`0x0${mac.replaceAll(':', '').slice(4)}`) }
  for (const first of prefixes.filter(({ family }) => family === 6).map(firstOf))
    for (let at = 1; at <= mostTried; at++) yield { family: 6, value: first.value + BigInt(at) }
}
