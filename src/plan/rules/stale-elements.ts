// SPDX-License-Identifier: Apache-2.0
// Elements whose record is lost: found in the tables by what is still known of the attachment, and
// removed as they are there. A map refuses a second target for a port, so they would keep the port
// from its next owner.

import type { Element } from '../model/elements.ts'
import { isPodLinkName } from '../model/names.ts'
import type { ObservedTable } from '../model/observed.ts'
import type { Op, SetName } from '../model/op.ts'

/** What is still known of an attachment: names of its host ports' reservations, its addresses, the link of its own. */
export interface Remains {
  readonly portNames: readonly string[]
  readonly addresses: readonly string[]
  readonly link: string
}

const portMaps = ['ports4', 'ports6', 'anyports4', 'anyports6'] as const
const linkSets = ['loopback', 'fenced', 'fencedpair', 'guarded', 'guardedmac'] as const
const gateMaps = ['gates4', 'gates6', 'anygates4', 'anygates6'] as const

/** The elements of an attachment without a record. */
export function remainingElements(table: ObservedTable, remains: Remains): readonly Element[] {
  const keys = new Set(remains.portNames.map(keyOfReservation))
  const ports = portMaps.flatMap((set) =>
    elementsIn(table, set).filter(
      ({ element }) => keys.has(`${set} ${keyOf(element)}`) || remains.addresses.includes(podIpOf(element)),
    ),
  )
  const gateKeys = new Set(ports.map(({ set, element }) => `${set.replace('ports', 'gates')} ${keyOf(element)}`))
  const gates = gateMaps.flatMap((set) =>
    elementsIn(table, set).filter(({ element }) => gateKeys.has(`${set} ${keyOf(element)}`)),
  )
  const masqueraded = new Set(ports.map(({ element }) => masqAllKeyOf(element)))
  // A chained attachment has reserved no address: its ports say whose they are.
  const addresses = new Set([...remains.addresses, ...ports.map(({ element }) => podIpOf(element))])
  const others = (['masqall4', 'masqall6', 'self4', 'self6', ...linkSets] as const).flatMap((set) =>
    elementsIn(table, set).filter(({ element }) => {
      if (set.startsWith('masqall')) return masqueraded.has(element)
      const [first = ''] = element.split(' . ')
      return set.startsWith('self') ? addresses.has(first) : first === remains.link
    }),
  )
  return [...ports, ...gates, ...others].map(quoted)
}

/** What the elements of pods name: addresses, and links that a pod's host end may have the name of. */
export function namedIn(table: ObservedTable): { addresses: ReadonlySet<string>; links: ReadonlySet<string> } {
  const all = (sets: readonly SetName[]) => sets.flatMap((set) => elementsIn(table, set)).map(({ element }) => element)
  const first = (element: string) => element.split(' . ')[0] ?? ''
  const addresses = [...all(portMaps).map(podIpOf), ...all(['self4', 'self6']).map(first)]
  return { addresses: new Set(addresses), links: new Set(all(linkSets).map(first).filter(isPodLinkName)) }
}

/** The names that the host ports which lead to one of `addresses` are reserved under (host-ports.ts). */
export function portNamesTo(table: ObservedTable, addresses: readonly string[]): readonly string[] {
  return portMaps.flatMap((set) => {
    const theirs = elementsIn(table, set).filter(({ element }) => addresses.includes(podIpOf(element)))
    return theirs.map(({ element }) => reservationOf(set, keyOf(element)))
  })
}

/** Elements that hold the key of one of `wanted` with another target. */
export function elementsInTheWay(table: ObservedTable, wanted: readonly Op[]): readonly Element[] {
  return wanted.flatMap((op) => {
    if (op.kind !== 'nft.add' || !op.element.includes(' : ')) return []
    return elementsIn(table, op.set).filter(
      ({ element }) => keyOf(element) === keyOf(op.element) && element !== op.element,
    )
  })
}

function elementsIn(table: ObservedTable, set: SetName): readonly Element[] {
  return [...(table.elements.get(set) ?? [])].map((element) => ({ set, element }))
}

/** nft lists interface names without the quotes that it wants to read. */
function quoted({ set, element }: Element): Element {
  if (!linkSets.some((each) => each === set)) return { set, element }
  const [link, ...more] = element.split(' . ')
  const rest = set === 'fencedpair' ? more.map((other) => `"${other}"`) : more
  return { set, element: [`"${link}"`, ...rest].join(' . ') }
}

/** `tcp:8080:4:any` (host-ports.ts) to `anyports4 tcp . 8080`. */
function keyOfReservation(name: string): string {
  const [protocol, port, family, ...address] = name.split(':')
  const key = `${protocol} . ${port}`
  const ip = address.join(':')
  return ip === 'any' ? `anyports${family} ${key}` : `ports${family} ${ip} . ${key}`
}

/** The other way round. */
function reservationOf(set: (typeof portMaps)[number], key: string): string {
  const [port, protocol, ip = 'any'] = key.split(' . ').reverse()
  return `${protocol}:${port}:${set.slice(-1)}:${ip}`
}

function keyOf(element: string): string {
  return element.split(' : ')[0] ?? ''
}

/** `10.0.0.2 . 80` of a map's element. */
function targetOf(element: string): readonly string[] {
  return element.split(' : ')[1]?.split(' . ') ?? []
}

function podIpOf(element: string): string {
  return targetOf(element)[0] ?? ''
}

/** The pod's address, protocol and container port, as the masqall sets have them. */
function masqAllKeyOf(element: string): string {
  const [ip, port] = targetOf(element)
  return `${ip} . ${keyOf(element).split(' . ').at(-2)} . ${port}`
}
