// SPDX-License-Identifier: Apache-2.0
// The operations a plan is made of. An operation is frozen, complete data: it needs no other
// operation's answer, and `why` is the phrase an error or `trestle plan` shows for it.

import type { MacvlanSpec, PodRoute } from './attachment.ts'
import type { SetName, TableFamily } from './tables.ts'

/** Where an operation acts: the runtime's network namespace, or the pod's. */
type Place = 'host' | 'pod'

/** A link to be made. */
interface NewLink {
  readonly name: string
  readonly mac: string
  readonly mtu: number
}

export type OpKind =
  | ({
      readonly kind: 'veth.add'
      readonly peer: string
      readonly peerMac: string
      /** Where it is not that of the host end. */
      readonly peerMtu?: number
      readonly master?: string
    } & NewLink)
  /** `dev`: the master; `name`: until it is called `ifName` in the pod. */
  | ({
      readonly kind: 'macvlan.add'
      readonly dev: string
      readonly ifName: string
      readonly group: number
      readonly mode: MacvlanSpec['mode']
    } & NewLink)
  /**
   * Moves a link of the host into the pod, as `name` until it is called `ifName` there. `of`: its kind, where it has
   * one.
   */
  | ({
      readonly kind: 'device.move'
      readonly dev: string
      readonly alias: string
      readonly ifName: string
      readonly of?: string
    } & NewLink)
  /** Moves it back, as `name`. */
  | { readonly kind: 'device.return'; readonly dev: string; readonly name: string; readonly alias: string }
  | ({ readonly kind: 'bridge.add'; readonly vlanFiltering: boolean } & NewLink)
  | ({ readonly kind: 'vlan.gateway'; readonly peer: string } & NewLink)
  | { readonly kind: 'vlan.add'; readonly dev: string; readonly vid: number; readonly tagged: boolean }
  | { readonly kind: 'vlan.del'; readonly dev: string; readonly vid: number }
  | { readonly kind: 'link.up'; readonly dev: string }
  | { readonly kind: 'link.name'; readonly dev: string; readonly name: string }
  | { readonly kind: 'link.down'; readonly dev: string }
  | { readonly kind: 'link.mac'; readonly dev: string; readonly mac: string }
  | { readonly kind: 'link.alias'; readonly dev: string; readonly alias: string; readonly noLinkLocal: boolean }
  | { readonly kind: 'link.no-local'; readonly dev: string }
  | { readonly kind: 'link.promisc'; readonly dev: string; readonly on?: false }
  | { readonly kind: 'link.mtu'; readonly dev: string; readonly mtu: number }
  | { readonly kind: 'link.allmulti'; readonly dev: string; readonly on: boolean }
  | { readonly kind: 'link.txqlen'; readonly dev: string; readonly length: number }
  | { readonly kind: 'link.group'; readonly dev: string; readonly group: number }
  | { readonly kind: 'link.del'; readonly dev: string }
  | { readonly kind: 'group.del'; readonly group: number }
  | ({ readonly kind: 'ifb.add' } & NewLink)
  | { readonly kind: 'port.master'; readonly dev: string; readonly master: string }
  | { readonly kind: 'port.isolation'; readonly dev: string; readonly isolated: boolean }
  | { readonly kind: 'port.flags'; readonly dev: string; readonly hairpin: boolean; readonly isolated: boolean }
  | {
      readonly kind: 'addr.replace'
      readonly dev: string
      readonly cidr: string
      readonly dad: boolean
      readonly noPrefixRoute?: true
    }
  | { readonly kind: 'addr.del'; readonly dev: string; readonly cidr: string }
  | { readonly kind: 'addr.show'; readonly dev: string }
  | { readonly kind: 'link.show'; readonly dev: string }
  | {
      readonly kind: 'route.add'
      readonly dev: string
      readonly route: PodRoute
      readonly onlyIfNone: boolean
      /** Further ones of ours to the destination: beside the first, and not without it. */
      readonly beside?: true
    }
  | { readonly kind: 'route.del'; readonly dev: string; readonly route: PodRoute }
  | { readonly kind: 'route.show-default'; readonly family: 4 | 6 }
  | { readonly kind: 'rule.add'; readonly from: string; readonly table: number }
  | { readonly kind: 'rule.del'; readonly from: string; readonly table: number }
  | { readonly kind: 'hostroute.replace'; readonly dev: string; readonly dst: string }
  | {
      readonly kind: 'qdisc.tbf'
      readonly dev: string
      readonly rateBits: number
      readonly burstBytes: number
      readonly limitBytes: number
    }
  | { readonly kind: 'qdisc.ingress'; readonly dev: string }
  | { readonly kind: 'qdisc.del'; readonly dev: string; readonly at: 'root' | 'ingress' }
  | { readonly kind: 'filter.redirect'; readonly dev: string; readonly to: string }
  | { readonly kind: 'sysctl.pod'; readonly key: string; readonly value: string }
  | { readonly kind: 'neigh.announce'; readonly dev: string; readonly address: string }
  /** All IPv6 addresses of the link: `mac` is the one that it has. */
  | { readonly kind: 'neigh.announce6'; readonly dev: string; readonly mac: string }
  | { readonly kind: 'sysctl.write'; readonly key: string; readonly value: string }
  | { readonly kind: 'forwarding.on'; readonly family: 4 | 6 }
  | { readonly kind: 'nft.base'; readonly table: TableFamily; readonly acceptMark?: number }
  | { readonly kind: 'nft.base.show'; readonly table: TableFamily }
  | { readonly kind: 'nft.table.del'; readonly table: TableFamily }
  /** `conditions`: portmap's, as port-conditions.ts writes them. A packet that meets them all is translated. */
  | {
      readonly kind: 'nft.chain'
      readonly chain: string
      readonly conditions: readonly string[]
      readonly comment: string
    }
  | { readonly kind: 'nft.chain.del'; readonly chain: string }
  | { readonly kind: 'nft.flush'; readonly set: SetName }
  | ({ readonly kind: 'nft.add' } & Element)
  | ({ readonly kind: 'nft.del' } & Element)

/** An operation of a plan. `why` completes "could not …". */
export type Op = OpKind & { readonly in: Place; readonly why: string }

/** An operation that makes a pod's interface, or moves it there. */
export type MakingOp = Extract<Op, { kind: 'veth.add' | 'macvlan.add' | 'device.move' }>

/** Whether the operation makes a pod's interface, or moves it there. */
export function isMaking(op: Op): op is MakingOp {
  return op.kind === 'veth.add' || op.kind === 'macvlan.add' || op.kind === 'device.move'
}

// Elements of the sets and maps of our tables as data, and their operations. Their text is tools/nft.ts's.

/** An element of one of our sets, fields as tables.ts names them: bare values, nothing quoted. `value`: of a map. */
export interface Element {
  readonly set: SetName
  readonly key: readonly string[]
  readonly value?: readonly string[]
}

/** Elements of each set by their keys (`keyText`): a set has a key once. */
export type Elements = ReadonlyMap<SetName, ReadonlyMap<string, Element>>

export function indexElements(elements: readonly Element[]): Elements {
  const index = new Map<SetName, Map<string, Element>>()
  for (const element of elements) {
    const known = index.get(element.set) ?? new Map<string, Element>()
    index.set(element.set, known.set(keyText(element), element))
  }
  return index
}

export function elementsIn(elements: Elements, set: SetName): readonly Element[] {
  return [...(elements.get(set)?.values() ?? [])]
}

export function elementAt(elements: Elements, { set, key }: Pick<Element, 'set' | 'key'>): Element | undefined {
  return elements.get(set)?.get(keyText({ key }))
}

export function hasElement(elements: Elements, element: Element): boolean {
  const there = elementAt(elements, element)
  return there !== undefined && isSameValue(there, element)
}

/**
 * Elements that hold the key of one of `wanted` with another target, or destinations of an address that are not wanted:
 * an interval set refuses one inside another.
 */
export function elementsInTheWay(elements: Elements, wanted: readonly Op[]): readonly Element[] {
  const adds = wanted.filter((op) => op.kind === 'nft.add')
  const others = adds.flatMap((op) => {
    const there = elementAt(elements, op)
    return there === undefined || isSameValue(there, op) ? [] : [there]
  })
  const all = indexElements(adds)
  const former = (['keephost4', 'keephost6'] as const).flatMap((set) => {
    const addresses = new Set(elementsIn(all, set).map(({ key: [address] }) => address))
    const there = elementsIn(elements, set).filter(({ key: [address] }) => addresses.has(address))
    return there.filter((element) => !hasElement(all, element))
  })
  return [...others, ...former]
}

/** Whether a map leads to the same for both. */
function isSameValue({ value: a = [] }: Element, { value: b = [] }: Element): boolean {
  return a.length === b.length && a.every((field, at) => field === b[at])
}

/** A key to look up by: no field has a space in it. */
export function keyText({ key }: Pick<Element, 'key'>): string {
  return key.join(' ')
}

/** An element for people: `tcp 8080 -> 10.0.0.2 80`. */
export function describeElement({ key, value }: Pick<Element, 'key' | 'value'>): string {
  return value === undefined ? key.join(' ') : `${key.join(' ')} -> ${value.join(' ')}`
}

/** Whether the operation is about a table of ours. */
export function isOfRules({ kind }: Op): boolean {
  return kind.startsWith('nft.')
}

/** Operations for elements, with what each is for. */
export function elementOps(elements: readonly Element[], kind: 'nft.add' | 'nft.del' = 'nft.add'): readonly Op[] {
  const [verb, where] = kind === 'nft.add' ? ['add', 'to'] : ['remove', 'from']
  return elements.map((element) => ({
    in: 'host',
    kind,
    ...element,
    why: `${verb} ${describeElement(element)} ${where} nft set ${element.set}`,
  }))
}

// Numbers of routing (include/uapi/linux/rtnetlink.h).

export const mainTable = 254

export const linkScope = 253

/** The sysctl that switches forwarding on for a family, `net/…`. */
export function forwardingKey(family: 4 | 6): string {
  return family === 4 ? 'net/ipv4/ip_forward' : 'net/ipv6/conf/all/forwarding'
}

/** Each operation once, and each bridge: networks that share one may want another MTU of it, and the first one makes it. */
export function withoutRepeats(ops: readonly Op[]): readonly Op[] {
  const seen = new Set<string>()
  return ops.filter((op) => {
    const text = op.kind === 'bridge.add' ? `bridge ${op.name}` : JSON.stringify(op)
    return !seen.has(text) && seen.add(text)
  })
}
