// SPDX-License-Identifier: Apache-2.0
// One change to the kernel, as data, and at the same time a statement about the kernel: one list of operations serves
// ADD, CHECK, restore and plan. The words of each kind for its tool are in ip-words.ts, queues.ts and elements.ts, and
// in which ways one does not hold in differences.ts.

import type { MacvlanMode } from '../config/network-conf.ts'
import type { LinkEnd, PodRoute } from '../drivers/spec.ts'
import { type Element, type TableFamily, tableName } from './nft-table.ts'

/** `why` is the error message when it fails, and what `trestle plan` prints: "could not <why>". */
interface About {
  readonly place: 'host' | 'pod'
  readonly why: string
  /**
   * A failure that is none: `absent`, what is to be removed is gone; `exists`, what is to be added is there already and
   * stays as it is.
   */
  readonly tolerate?: 'absent' | 'exists'
}

export interface LinkAttributes {
  readonly up?: boolean
  readonly name?: string
  readonly mac?: string
  readonly mtu?: number
  readonly alias?: string
  readonly promisc?: boolean
  readonly allmulti?: boolean
  readonly txQLen?: number
  /** No link-local address by the kernel. */
  readonly withoutLinkLocal?: true
  readonly master?: string
  readonly group?: number
  /** Moves the link there. */
  readonly netns?: 'host' | 'pod'
  /** Of a bridge port. */
  readonly hairpin?: boolean
  readonly isolated?: boolean
}

type PeerEnd = LinkEnd & { readonly isInPod: boolean }

/** Of `ip`, and of `bridge` for VLANs. */
export type IpOp =
  | (LinkEnd & { readonly kind: 'veth.add'; readonly master?: string; readonly peer: PeerEnd })
  | (LinkEnd & { readonly kind: 'bridge.add'; readonly vlanFiltering: boolean })
  | (LinkEnd & { readonly kind: 'ifb.add' })
  | (LinkEnd & {
      readonly kind: 'macvlan.add'
      readonly master: string
      readonly mode: MacvlanMode
      readonly group: number
    })
  | { readonly kind: 'link.set'; readonly dev: string; readonly set: LinkAttributes }
  | { readonly kind: 'link.delete'; readonly dev: string }
  /** `devs`: the links in it. */
  | { readonly kind: 'group.delete'; readonly group: number; readonly devs: readonly string[] }
  /** Shows the link, for the proof that it is still the same one. `mac`: its MAC. */
  | { readonly kind: 'link.show'; readonly dev: string; readonly mac?: string }
  /** A port's VLAN. `pvid`: untagged, and what untagged frames are put into. */
  | { readonly kind: 'vlan.add'; readonly dev: string; readonly vid: number; readonly pvid: boolean }
  | { readonly kind: 'vlan.delete'; readonly dev: string; readonly vid: number }
  | {
      readonly kind: 'address.add'
      readonly dev: string
      readonly cidr: string
      readonly dad: boolean
      readonly noPrefixRoute: boolean
    }
  | { readonly kind: 'address.delete'; readonly dev: string; readonly cidr: string }
  /** `how`: beside others to the same destination, only where there is none, or in place of one. */
  | {
      readonly kind: 'route.add'
      readonly dev: string
      readonly route: PodRoute
      readonly how: 'append' | 'add' | 'replace'
    }
  | { readonly kind: 'route.delete'; readonly dev: string; readonly route: PodRoute }
  | { readonly kind: 'defaults.show'; readonly family: 4 | 6 }
  | { readonly kind: 'rule.add'; readonly from: string; readonly table: number }
  | { readonly kind: 'rule.delete'; readonly from: string; readonly table: number }
  /** Tells the neighbours the pod's address. `mac`: of the IPv6 way. */
  | { readonly kind: 'announce'; readonly dev: string; readonly address: string }
  | { readonly kind: 'announce6'; readonly dev: string; readonly mac: string }

export type QueueOp =
  | { readonly kind: 'bucket.set'; readonly dev: string; readonly rateBits: number; readonly burstBytes: number }
  | { readonly kind: 'redirect.set'; readonly dev: string; readonly to: string }
  | { readonly kind: 'queue.delete'; readonly dev: string; readonly at: 'root' | 'ingress' }

/**
 * `when`, on the host: before anything else, or last, after the rules that guard the setting. In the pod: before the
 * addresses, or last. `key`: `net/ipv4/ip_forward`.
 */
export type SysctlOp = {
  readonly kind: 'sysctl.set'
  readonly key: string
  readonly value: string
  readonly when: 'first' | 'last'
}

export type RuleOp =
  | { readonly kind: 'element.add'; readonly element: Element }
  | { readonly kind: 'element.delete'; readonly element: Element }
  /** Declares the table and writes its rules again. `isEmptied`: all of its elements go. `hasAccept`: rules of hostAccept. */
  | {
      readonly kind: 'table.set'
      readonly table: TableFamily
      readonly isEmptied: boolean
      readonly hasAccept: boolean
    }
  | { readonly kind: 'table.delete'; readonly table: TableFamily }
  /** Shows the table's rules, for the proof that they are there. */
  | { readonly kind: 'table.show'; readonly table: TableFamily }

export type Op = About & (IpOp | QueueOp | SysctlOp | RuleOp)

export type OpOf<Kind extends Op['kind']> = Extract<Op, { kind: Kind }>

export function setLink(
  place: Op['place'],
  dev: string,
  set: LinkAttributes,
  why: string,
  tolerate?: Op['tolerate'],
): OpOf<'link.set'> {
  return { place, kind: 'link.set', dev, set, why, ...(tolerate ? { tolerate } : {}) }
}

export function removeLink(dev: string, why = `remove ${dev}`): Op {
  return { place: 'host', kind: 'link.delete', dev, tolerate: 'absent', why }
}

/** A gateway of ours: without duplicate address detection. */
export function addHostAddress(dev: string, cidr: string): Op {
  const why = `add ${cidr} to ${dev}`
  return { place: 'host', kind: 'address.add', dev, cidr, dad: false, noPrefixRoute: false, why }
}

export function setSysctl(place: Op['place'], key: string, value: string, when: SysctlOp['when'], why: string): Op {
  return { place, kind: 'sysctl.set', key, value, when, why }
}

/** `isEmptied`: all of its elements go. */
export function setTable(table: TableFamily, hasAccept: boolean, isEmptied: boolean): Op {
  const why = `set up the nft table ${table} ${tableName}`
  return { place: 'host', kind: 'table.set', table, isEmptied, hasAccept, why }
}

export function deleteTable(table: TableFamily): Op {
  const why = `remove the nft table ${table} ${tableName}`
  return { place: 'host', kind: 'table.delete', table, tolerate: 'absent', why }
}

/** Elements as operations. */
export function elementOps(
  elements: readonly Element[],
  kind: 'element.add' | 'element.delete' = 'element.add',
): readonly Op[] {
  const [verb, where] = kind === 'element.add' ? ['add', 'to'] : ['remove', 'from']
  return elements.map((element) => {
    const target = element.value === undefined ? '' : ` -> ${element.value.join(' ')}`
    const why = `${verb} ${element.key.join(' ')}${target} ${where} nft set ${element.set}`
    return { place: 'host', kind, element, why }
  })
}

/** The sysctl that switches forwarding on for a family. */
export function forwardingKey(family: 4 | 6): string {
  return family === 4 ? 'net/ipv4/ip_forward' : 'net/ipv6/conf/all/forwarding'
}

/** Numbers of routing (include/uapi/linux/rtnetlink.h). */
export const mainTable = 254
export const linkScope = 253
