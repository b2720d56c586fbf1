// SPDX-License-Identifier: Apache-2.0
// Elements whose record is lost: found in the tables by what is still known of the attachment, and
// removed as they are there. A map refuses a second target for a port, so they would keep the port
// from its next owner.

import { isPodLinkName } from '../../model/names.ts'
import type { ObservedTable } from '../../model/observed.ts'
import { type Element, elementAt, elementsIn, isSameValue, keyText, type Op } from '../../model/op.ts'
import { type SetName, setSpec } from '../../model/tables.ts'

/** What is still known of an attachment: names of its host ports' reservations, its addresses, the link of its own. */
export interface OrphanOwner {
  readonly portNames: readonly string[]
  readonly addresses: readonly string[]
  readonly link: string
}

const portMaps = ['ports4', 'ports6', 'anyports4', 'anyports6'] as const
const linkSets = ['loopback', 'fenced', 'fencedpair', 'guarded', 'guardedmac'] as const
const selfSets = ['self4', 'self6'] as const
const masqallSets = ['masqall4', 'masqall6'] as const

/** The map of conditions that is asked before a map of host ports. */
const conditionsBefore = {
  ports4: 'gates4',
  ports6: 'gates6',
  anyports4: 'anygates4',
  anyports6: 'anygates6',
} as const satisfies Record<PortMap, SetName>

type PortMap = (typeof portMaps)[number]

/** The elements of an attachment without a record. */
export function orphanElements({ elements }: ObservedTable, owner: OrphanOwner): readonly Element[] {
  const reserved = new Set(owner.portNames)
  const ports = portMaps.flatMap((set) =>
    elementsIn(elements, set)
      .map((element) => ({ ...element, set }))
      .filter((port) => reserved.has(reservationOf(port)) || owner.addresses.includes(podIpOf(port))),
  )
  const conditions = ports.flatMap(({ set, key }) => elementAt(elements, { set: conditionsBefore[set], key }) ?? [])
  const podPorts = new Set(ports.map((port) => keyText({ key: podPortOf(port) })))
  // A chained attachment has reserved no address: its ports say whose they are.
  const addresses = new Set([...owner.addresses, ...ports.map(podIpOf)])
  const inSets = (sets: readonly SetName[], isTheirs: (element: Element) => boolean) =>
    sets.flatMap((set) => elementsIn(elements, set)).filter(isTheirs)
  return [
    ...ports,
    ...conditions,
    ...inSets(masqallSets, (element) => podPorts.has(keyText(element))),
    ...inSets(selfSets, ({ key: [address = ''] }) => addresses.has(address)),
    ...inSets(linkSets, ({ key: [link] }) => link === owner.link),
  ]
}

/** What the elements of pods name: addresses, and links that a pod's host end may have the name of. */
export function namedIn({ elements }: ObservedTable): {
  addresses: ReadonlySet<string>
  links: ReadonlySet<string>
} {
  const firstFields = (sets: readonly SetName[]) =>
    sets.flatMap((set) => elementsIn(elements, set)).map(({ key: [first = ''] }) => first)
  const targets = portMaps.flatMap((set) => elementsIn(elements, set)).map(podIpOf)
  return {
    addresses: new Set([...targets, ...firstFields(selfSets)]),
    links: new Set(firstFields(linkSets).filter(isPodLinkName)),
  }
}

/** The names that the host ports which lead to one of `addresses` are reserved under (host-ports.ts). */
export function portNamesTo({ elements }: ObservedTable, addresses: readonly string[]): readonly string[] {
  return portMaps.flatMap((set) => {
    const theirs = elementsIn(elements, set).filter((element) => addresses.includes(podIpOf(element)))
    return theirs.map(({ key }) => reservationOf({ set, key }))
  })
}

/** Elements that hold the key of one of `wanted` with another target. */
export function elementsInTheWay({ elements }: ObservedTable, wanted: readonly Op[]): readonly Element[] {
  return wanted.flatMap((op) => {
    if (op.kind !== 'nft.add') return []
    const there = elementAt(elements, op)
    return there === undefined || isSameValue(there, op) ? [] : [there]
  })
}

/** The name that a host port is reserved under: `tcp:8080:4:any` (host-ports.ts). */
function reservationOf({ set, key }: { readonly set: PortMap; readonly key: readonly string[] }): string {
  const [port, protocol, ip = 'any'] = key.toReversed()
  return `${protocol}:${port}:${familyOfSet(set)}:${ip}`
}

function familyOfSet(set: PortMap): 4 | 6 {
  return setSpec(set).value?.[0] === 'address6' ? 6 : 4
}

/** Where a host port leads: `['10.0.0.2', '80']`. */
function podIpOf({ value: [podIp = ''] = [] }: Pick<Element, 'value'>): string {
  return podIp
}

/** The pod's address, protocol and container port, as the masqall sets have them. */
function podPortOf({ key, value: [podIp = '', port = ''] = [] }: Element): readonly string[] {
  return [podIp, key.at(-2) ?? '', port]
}
