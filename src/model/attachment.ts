// SPDX-License-Identifier: Apache-2.0
// What trestle makes for one attachment and for one network, decided completely: nothing in here
// has to be looked up again to build it, to check it, to restore it or to take it down (docs/design.md, "Attachments").

import type { Dns, Route } from '../cni/result.ts'

/** What this call's attachment is. `ipam`: another plugin delegated to us (docs/design.md, "Attachments"). */
export type Role = 'main' | 'chained' | 'ipam'

/** How the pod is connected (docs/design.md, "Attachments"). */
export type Mode = 'bridge' | 'ptp' | 'macvlan' | 'host-device' | 'loopback' | 'chained'

/** Who an attachment is: the key of everything we own (docs/design.md, "Attachments"). */
export interface AttachmentKey {
  readonly network: string
  readonly containerId: string
  readonly ifName: string
  readonly role: Role
}

/** One address of the pod. `address` is a CIDR with the host part kept. */
export interface PodAddress {
  readonly address: string
  readonly gateway?: string
}

/** One end of the veth pair. `mac` in lower case with colons. `mtu` where it is not the attachment's. */
export interface LinkEnd {
  readonly name: string
  readonly mac: string
  readonly mtu?: number
}

/** VLANs of a port: `access` untagged, `trunk` tagged; the bridge's default VLAN 1 goes unless kept. */
export interface PortVlans {
  readonly access: number
  readonly trunk: readonly number[]
  readonly keepDefault: boolean
}

/** The veth's end on a bridge. */
export interface BridgePort {
  readonly bridge: string
  readonly hairpin: boolean
  readonly isolated: boolean
  readonly vlans?: PortVlans
  /** The only MAC that may come in by this port (macspoofchk). */
  readonly onlyMac?: string
}

/** A host port of the pod. `hostIp` absent: every address of the node of that family. */
export interface HostPort {
  readonly family: 4 | 6
  readonly protocol: 'tcp' | 'udp' | 'sctp'
  readonly hostIp?: string
  readonly hostPort: number
  readonly podIp: string
  readonly containerPort: number
}

/**
 * The pod's host ports. `link`: what packets to the pod leave the host by; `snat`, `masqAll` as the upstream portmap.
 */
export interface HostPortSpec {
  readonly link: string
  readonly snat: boolean
  readonly masqAll: boolean
  /** Matches that a packet must pass to be translated, by family (port-conditions.ts). Absent: none. */
  readonly conditionsV4?: readonly string[]
  readonly conditionsV6?: readonly string[]
  readonly ports: readonly HostPort[]
}

/** A token bucket. */
export interface Shaper {
  readonly rateBits: number
  readonly burstBytes: number
}

/** Limits of the pod's traffic, seen from the pod. `link`: the host end. */
export interface BandwidthSpec {
  readonly link: string
  readonly mtu: number
  readonly ingress?: Shaper
  readonly egress?: Shaper & {
    readonly ifb: string
    readonly ifbMac: string
    /** Absent: it was made without. */
    readonly ifbAlias?: string
  }
}

/** Settings of the pod's interface and namespace. Sysctl keys are paths below /proc/sys. */
export interface TuningSpec {
  readonly sysctl: Readonly<Record<string, string>>
  readonly promisc: boolean
  readonly txQLen?: number
  readonly allmulti?: boolean
  /** Of an interface that is not ours; ours is made with them. */
  readonly mac?: string
  readonly mtu?: number
  /** What the settings above were before, of an interface that is not ours: DEL puts it back. */
  readonly before?: LinkSettings
}

/** Settings of a link as the upstream tuning plugin knows them. */
export interface LinkSettings {
  readonly mac?: string
  readonly mtu?: number
  readonly promisc?: boolean
  readonly allmulti?: boolean
  readonly txQLen?: number
}

/** Source-based routing, a rule and a table for each address. `from`: a host CIDR. */
export interface SbrSpec {
  readonly sources: readonly { readonly from: string; readonly table: number; readonly routes: readonly PodRoute[] }[]
  /** Routes that were taken out of the main table (chained). */
  readonly moved: readonly PodRoute[]
}

/** What a chained attachment acts on. `dev`: in the pod; `hostLink`: the other end, where it is a veth. */
export interface ChainedSpec {
  readonly dev: string
  readonly hostLink?: string
  /** The bridge port was isolated by us. */
  readonly isolated?: true
  /** ingressPolicy of a link that is on no bridge. */
  readonly ingressPolicy?: 'same-bridge' | 'isolated'
}

/** A macvlan on a link of the host. */
export interface MacvlanSpec {
  readonly master: string
  readonly mode: 'bridge' | 'private' | 'vepa' | 'passthru'
}

/**
 * A link of the host that is the pod's interface, as it was before. `asked`: the value by which the configuration named
 * it. `driver`: of a device for a program in the pod, which is no link.
 */
export interface DeviceSpec {
  readonly name: string
  readonly asked: string
  readonly mac: string
  readonly mtu: number
  readonly up: boolean
  readonly kind?: string
  readonly alias?: string
  readonly driver?: string
}

/** A route of the pod; `src`, `onlink` and `protocol` as in ip-route(8). `protocol` absent: boot. */
export type PodRoute = Route & { readonly src?: string; readonly onlink?: true; readonly protocol?: string }

/** Everything of one attachment. `mtu` in bytes. */
export interface AttachmentSpec {
  readonly key: AttachmentKey
  readonly mode: Mode
  readonly mtu: number
  readonly host?: LinkEnd
  readonly pod?: LinkEnd
  readonly port?: BridgePort
  readonly ips: readonly PodAddress[]
  readonly routes: readonly PodRoute[]
  /** Default routes that are added only where the pod has none of that family yet. */
  readonly defaultRoutes: readonly PodRoute[]
  /** Leave the pod's end down and without addresses (disableContainerInterface). */
  readonly podLinkDown: boolean
  /** IPv6 duplicate address detection stays on (enabledad). */
  readonly dad: boolean
  readonly dns?: Dns
  /** Masquerade what the pod sends to itself through a translation. */
  readonly selfHairpin: boolean
  /** ingressPolicy of a routed pod's own link; that of a bridge is the network's. */
  readonly ingressPolicy?: 'same-bridge' | 'isolated'
  readonly hostPorts?: HostPortSpec
  readonly bandwidth?: BandwidthSpec
  readonly tuning?: TuningSpec
  readonly sbr?: SbrSpec
  readonly chained?: ChainedSpec
  readonly macvlan?: MacvlanSpec
  readonly device?: DeviceSpec
  /** The addresses are reserved in our own pool. */
  readonly isPool: boolean
  /** Seconds before an address of this attachment may be given out again. */
  readonly cooldownS: number
}

/** The bridge of a network. `addresses`: gateway CIDRs on it. */
export interface BridgeSpec {
  readonly name: string
  readonly mac: string
  readonly mtu: number
  readonly addresses: readonly string[]
  readonly forceAddress: boolean
  readonly promisc: boolean
  readonly vlanFiltering: boolean
  /** The link that has the gateway addresses, where it is not the bridge: the gateway is on a VLAN. */
  readonly gateway?: VlanGateway
}

/** A veth of the host with its other end in the bridge on one VLAN, as upstream makes it. */
export interface VlanGateway {
  readonly name: string
  readonly mac: string
  readonly peer: string
  readonly vlan: number
}

/** A gateway CIDR on a bridge. */
export interface FormerGateway {
  readonly bridge: string
  readonly address: string
}

/** What the attachments of one network share. Canonical, so that equal specs are equal as JSON text. */
export interface NetworkSpec {
  readonly name: string
  readonly bridge?: BridgeSpec
  /** Families to forward. */
  readonly forwarding: readonly (4 | 6)[]
  /** Source subnets that are masqueraded, and destinations that never are. */
  readonly masquerade?: { readonly subnets: readonly string[]; readonly noMasquerade: readonly string[] }
  /** Subnets of one bridge: what is translated and routed back to it, from one of them to another, is masqueraded. */
  readonly hairpin?: readonly string[]
  /** ingressPolicy of the bridge, where it is not open. */
  readonly ingressPolicy?: 'same-bridge' | 'isolated'
  /** The bridge that it is on, where that is not ours. */
  readonly ingressPolicyLink?: string
  /** The bridge whose packets other firewalls are to let pass (features/firewall.ts). */
  readonly hostAccept?: string
  /** The same for routed pods, which have no bridge: their subnets. */
  readonly acceptSubnets?: readonly string[]
  /** The gateways of routed pods, with their ranges' prefix length. Those of a bridge are its addresses. */
  readonly ranges?: readonly string[]
  /** Addresses in the ranges that others have (range-overlap.ts), as the setup found them: no pod gets one. */
  readonly excluded?: readonly string[]
  /** Gateways of earlier ranges that trestle put on bridges, and that are still there. */
  readonly formerGateways?: readonly FormerGateway[]
  /** New connections to the pods' subnets `to`, from those and from `from`. */
  readonly acceptNew?: { readonly to: readonly string[]; readonly from: readonly string[] } | 'none'
  /** The bit of the packet mark, where the configuration names one (features/firewall.ts). */
  readonly acceptMarkBit?: number
  /** firewalld's zone for bridge or subnets, where it is not `trusted`. */
  readonly firewalldZone?: string
  readonly removeWhenEmpty: boolean
}

// What IPAM answers, whoever did it: the abbreviated result of CNI spec 1.1.0, section 5.

/** Addresses for one attachment. `address` is a CIDR, host part kept. */
export interface Lease {
  readonly ips: readonly PodAddress[]
  readonly routes: readonly Route[]
  readonly dns?: Dns
}

/** The lease of a network without IPAM: layer 2 only. */
export const noLease: Lease = { ips: [], routes: [] }
