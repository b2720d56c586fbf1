// SPDX-License-Identifier: Apache-2.0
// The operations a plan is made of. An operation is frozen, complete data: it needs no other
// operation's answer, and `why` is the phrase an error or `trestle plan` shows for it.

import type { Route } from '../cni/net-conf.ts'

/** Where an operation acts: the runtime's network namespace, or the pod's. */
export type Place = 'host' | 'pod'

/** What an operation does. Names are the kernel's and the tools'. */
export type OpKind =
  | {
      readonly kind: 'veth.add'
      readonly name: string
      readonly mac: string
      readonly mtu: number
      readonly peer: string
      readonly peerMac: string
      readonly master?: string
    }
  | { readonly kind: 'bridge.add'; readonly name: string; readonly mac: string; readonly mtu: number }
  | { readonly kind: 'link.up'; readonly dev: string }
  | { readonly kind: 'link.alias'; readonly dev: string; readonly alias: string }
  | { readonly kind: 'link.promisc'; readonly dev: string }
  | { readonly kind: 'link.del'; readonly dev: string }
  | { readonly kind: 'port.master'; readonly dev: string; readonly master: string }
  | { readonly kind: 'port.flags'; readonly dev: string; readonly hairpin: boolean; readonly isolated: boolean }
  | { readonly kind: 'addr.replace'; readonly dev: string; readonly cidr: string; readonly dad: boolean }
  | { readonly kind: 'addr.del'; readonly dev: string; readonly cidr: string }
  | { readonly kind: 'route.add'; readonly dev: string; readonly route: Route; readonly onlyIfNone: boolean }
  | { readonly kind: 'route.del'; readonly dev: string; readonly route: Route }
  | { readonly kind: 'route.show-default'; readonly family: 4 | 6 }
  | { readonly kind: 'neigh.announce'; readonly dev: string; readonly address: string }
  | { readonly kind: 'sysctl.write'; readonly key: string; readonly value: string }
  | { readonly kind: 'forwarding.on'; readonly family: 4 | 6 }
  | { readonly kind: 'nft.base' }
  | { readonly kind: 'nft.base.show' }
  | { readonly kind: 'nft.flush'; readonly set: SetName }
  | { readonly kind: 'nft.add'; readonly set: SetName; readonly element: string }
  | { readonly kind: 'nft.del'; readonly set: SetName; readonly element: string }

/** The sets and maps of our nft table (ruleset.ts). */
export type SetName =
  | `${'masq' | 'keep' | 'hairpin' | 'self' | 'ports' | 'anyports' | 'masqall'}${4 | 6}`
  | 'loopback'
  | 'fenced'
  | 'fencedpair'

/** An operation of a plan. `why` completes "could not …". */
export type Op = OpKind & { readonly in: Place; readonly why: string }

/**
 * The operation that takes `op` back, or undefined where there is nothing to take back: an earlier
 * undo covers it (what is in the pod goes with the veth), or what it made is shared with others.
 */
export function undo(op: Op): Op | undefined {
  switch (op.kind) {
    case 'veth.add':
      return { in: 'host', kind: 'link.del', dev: op.name, why: `remove the host end ${op.name}` }
    case 'bridge.add':
    case 'link.up':
    case 'link.alias':
    case 'link.promisc':
    case 'link.del':
    case 'port.master':
    case 'port.flags':
    case 'addr.replace':
    case 'addr.del':
    case 'route.add':
    case 'route.del':
    case 'route.show-default':
    case 'neigh.announce':
    case 'sysctl.write':
    case 'forwarding.on':
    case 'nft.base':
    case 'nft.base.show':
    case 'nft.flush':
    case 'nft.add':
    case 'nft.del':
      return undefined
    default:
      return op satisfies never
  }
}
