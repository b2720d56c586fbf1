// SPDX-License-Identifier: Apache-2.0
// The spec: everything that is decided about one attachment and about its network, as plain data. Whatever acts, undoes,
// checks, restores or prints is a function of it. A record on disk is a spec with who wrote it and when.

import type { Dns, Route } from '../cni/results.ts'
import type { IngressPolicy, MacvlanMode, Mode } from '../config/network-conf.ts'
import type { Element } from '../kernel/nft-table.ts'

export type Role = 'main' | 'chained' | 'ipam'

/** What an attachment is called: names and MACs derive from it. */
export interface AttachmentId {
  readonly network: string
  readonly containerId: string
  readonly ifName: string
  readonly role: Role
}

/** An address of the pod with its prefix length, and the gateway of its subnet. */
export interface PodAddress {
  readonly address: string
  readonly gateway?: string
}

/** What IPAM gave: ours, `static`, or a delegated plugin. */
export interface Lease {
  readonly addresses: readonly PodAddress[]
  readonly routes: readonly Route[]
  readonly dns?: Dns
}

/** A route of the pod. `onlink`: the gateway is taken as a neighbour although no subnet says so. */
export interface PodRoute extends Route {
  readonly src?: string
  readonly onlink?: true
  readonly protocol?: string
}

export interface LinkEnd {
  readonly name: string
  readonly mac: string
  readonly mtu: number
}

/** The gateway of a VLAN: a veth whose other end is a port of the bridge in that VLAN. */
export interface VlanGateway {
  readonly name: string
  readonly mac: string
  readonly peer: string
  readonly vlan: number
}

export interface BridgeSpec extends LinkEnd {
  /** Gateway addresses with prefix length; on the VLAN's gateway link where there is one. */
  readonly addresses: readonly string[]
  readonly forceAddress: boolean
  readonly promisc: boolean
  readonly vlanFiltering: boolean
  readonly vlanGateway?: VlanGateway
  /** Another program made it: its MAC and MTU stay, and it is never removed. */
  readonly isForeign: boolean
}

/** What the attachments of a network share. Main and chained attachments of one list are two networks in this sense. */
export interface NetworkSpec {
  readonly name: string
  readonly role: 'main' | 'chained'
  readonly mode: Mode
  /** Subnets of the pods. `isLearned`: they come with leases or the runtime, and are only ever added. */
  readonly ranges: readonly string[]
  readonly isLearned: boolean
  /** Gateways that pods are given, with prefix length. */
  readonly gateways: readonly string[]
  readonly vlan: number
  readonly bridge?: BridgeSpec
  readonly forwarding: readonly (4 | 6)[]
  readonly allowOverlap: boolean
  /** Sources that are masqueraded, and destinations that keep the pod's address. */
  readonly masquerade?: { readonly sources: readonly string[]; readonly keep: readonly string[] }
  /** Subnets whose pods are masqueraded towards each other where a packet to them was translated. */
  readonly hairpin: readonly string[]
  /** Chained: the link that pods share, where it is not the bridge. */
  readonly hairpinLink?: string
  /** `links`: the bridge and its VLAN gateway; none where each pod has its own link. */
  readonly ingressPolicy?: { readonly policy: IngressPolicy; readonly links: readonly string[] }
  /** hostAccept: packets of these links and subnets pass other firewalls, and new connections from `from`. */
  readonly accept?: {
    readonly links: readonly string[]
    readonly subnets: readonly string[]
    readonly to: readonly string[]
    readonly from: readonly string[]
  }
  readonly removeWhenEmpty: boolean
  /** In place of those that follow from the rest: of a network that was found again, until its next ADD. */
  readonly givenElements?: readonly Element[]
}

export interface PortVlans {
  /** 0: the trunk alone; untagged traffic is on VLAN 1 then. */
  readonly access: number
  readonly trunk: readonly number[]
  readonly keepDefault: boolean
}

/** The host end as a port of a bridge. `onlyMac`: macspoofchk. */
export interface BridgePort {
  readonly bridge: string
  readonly hairpin: boolean
  readonly isolated: boolean
  readonly vlans?: PortVlans
  readonly onlyMac?: string
}

/** A host port. `hostIp` absent: every address of the node. */
export interface HostPort {
  readonly family: 4 | 6
  readonly protocol: 'tcp' | 'udp' | 'sctp'
  readonly hostPort: number
  readonly hostIp?: string
  readonly podIp: string
  readonly containerPort: number
}

export interface HostPorts {
  /** The link by which packets to the pod leave the host. */
  readonly link: string
  /** The link is this pod's alone. */
  readonly isOwnLink: boolean
  readonly snat: boolean
  readonly masqAll: boolean
  readonly ports: readonly HostPort[]
}

/** A token bucket. */
export interface Shaper {
  readonly rateBits: number
  readonly burstBytes: number
}

export interface BandwidthSpec {
  readonly link: string
  readonly mtu: number
  /** Into the pod: on the host end. */
  readonly ingress?: Shaper
  /** Out of the pod: on an ifb. */
  readonly egress?: Shaper & { readonly ifb: string; readonly ifbMac: string }
}

/** Link settings. MAC and MTU of an interface that trestle makes are part of making it. */
export interface LinkSettings {
  readonly mac?: string
  readonly mtu?: number
  readonly promisc?: boolean
  readonly allmulti?: boolean
  readonly txQLen?: number
}

export interface TuningSpec {
  readonly sysctl: Readonly<Record<string, string>>
  readonly settings: LinkSettings
  /** Of an interface that is not ours: what DEL puts back. */
  readonly before?: LinkSettings
}

/** Routing by source. `moved`: routes of a chained interface that leave the main table. */
export interface SbrSpec {
  readonly sources: readonly { readonly from: string; readonly table: number; readonly routes: readonly PodRoute[] }[]
  readonly moved: readonly PodRoute[]
}

/** A link of the host that is the pod's interface, as it was before. `driver`: of a device without a link (DPDK). */
export interface DeviceSpec {
  readonly name: string
  readonly mac: string
  readonly mtu: number
  readonly up: boolean
  readonly kind?: string
  readonly alias?: string
  readonly driver?: string
}

/** The interface that another plugin made, and its end on the host. */
export interface ChainedSpec {
  readonly hostLink?: string
  readonly hostIndex?: number
  /** `ingressPolicy: isolated` sets the isolation of its bridge port. */
  readonly isolatesPort?: boolean
}

/** All decisions about one attachment. */
export interface Spec {
  readonly id: AttachmentId
  readonly mode: Mode | 'ipam'
  /** Absent for the role of IPAM. */
  readonly network?: NetworkSpec
  readonly host?: LinkEnd
  readonly pod?: LinkEnd
  readonly addresses: readonly PodAddress[]
  readonly routes: readonly PodRoute[]
  /** Added only where the pod has no default route of the family. */
  readonly defaultRoutes: readonly PodRoute[]
  /** IPv6 duplicate address detection is on. */
  readonly hasDad: boolean
  /** The interface stays down and has no addresses (disableContainerInterface). */
  readonly isLeftDown: boolean
  /** The MAC follows an address of ours, so neighbours that know it know no other one. */
  readonly hasAddressMac: boolean
  readonly port?: BridgePort
  readonly macvlan?: { readonly master: string; readonly mode: MacvlanMode }
  readonly device?: DeviceSpec
  readonly chained?: ChainedSpec
  readonly hostPorts?: HostPorts
  /** The pod may reach itself through a translation. */
  readonly reachesItself: boolean
  /** ingressPolicy on a link of the pod's own. */
  readonly fencedLink?: string
  /** Chained: addresses without a subnet are masqueraded one by one. */
  readonly masquerade?: { readonly addresses: readonly string[]; readonly keep: readonly string[] }
  readonly bandwidth?: BandwidthSpec
  readonly tuning?: TuningSpec
  readonly sbr?: SbrSpec
  readonly dns?: Dns
  /** In place of those that follow from the rest: found by their comments, or all that is to be removed. */
  readonly givenElements?: readonly Element[]
}

/** What a network shares that shares nothing. */
export const emptyNetwork = {
  role: 'main',
  ranges: [],
  isLearned: true,
  gateways: [],
  vlan: 0,
  forwarding: [],
  hairpin: [],
} as const satisfies Partial<NetworkSpec>

/** A spec with nothing in it but whose it is. */
export function emptySpec(id: AttachmentId, mode: Spec['mode']): Spec {
  return {
    id,
    mode,
    addresses: [],
    routes: [],
    defaultRoutes: [],
    hasDad: false,
    isLeftDown: true,
    hasAddressMac: false,
    reachesItself: false,
  }
}

export function sameId(a: AttachmentId, b: AttachmentId): boolean {
  return a.network === b.network && a.containerId === b.containerId && a.ifName === b.ifName && a.role === b.role
}

/** What a network is called: its main and chained attachments share different things. */
export function isSameNetwork(a: Pick<NetworkSpec, 'name' | 'role'>, b: Pick<NetworkSpec, 'name' | 'role'>): boolean {
  return a.name === b.name && a.role === b.role
}
