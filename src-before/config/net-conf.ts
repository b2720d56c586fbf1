// SPDX-License-Identifier: Apache-2.0
// The network configuration as the rest of trestle sees it: one type a mode, checked, defaults filled in, every address
// in canonical text. Plain data that can be written as JSON.

import type { CniVersion, Dns, Result, Route } from '../cni/result.ts'
import type { BandwidthConf } from '../features/bandwidth.ts'
import type { FirewallConf } from '../features/firewall.ts'
import type { PortMapping, PortmapConf } from '../features/host-ports.ts'
import type { SbrConf } from '../features/sbr.ts'
import type { TuningConf } from '../features/tuning.ts'
import type { MacvlanSpec, Role } from '../model/attachment.ts'

/** A pool's range, complete: both ends inclusive, all in canonical text and inside `subnet`. */
export interface Range {
  readonly subnet: string
  readonly rangeStart: string
  readonly rangeEnd: string
  readonly gateway: string
}

/** In-process allocation from ranges: ipam.type `trestle` or `host-local`, or `podcidr`. */
export interface PoolIpam {
  readonly kind: 'pool'
  readonly rangeSets: readonly (readonly Range[])[]
  /** Requested addresses without prefix, from CNI_ARGS IP, args.cni.ips and runtimeConfig.ips, in that order. */
  readonly requested: readonly string[]
  readonly exclude: readonly string[]
  readonly cooldownS: number
  readonly routes: readonly Route[]
  readonly resolvConf?: string
  /** Where the upstream host-local keeps its reservations (default /var/lib/cni/networks). */
  readonly dataDir: string
}

/** Addresses given in the configuration: ipam.type `static`. */
export interface StaticIpam {
  readonly kind: 'static'
  readonly addresses: readonly { readonly address: string; readonly gateway?: string }[]
  readonly routes: readonly Route[]
  readonly dns?: Dns
}

export type IpamConf =
  | { readonly kind: 'none' }
  | { readonly kind: 'delegated'; readonly type: string }
  | PoolIpam
  | StaticIpam

/** The bridge and its ports: keys of the upstream bridge plugin (docs/design.md, "Upstream bridge and ptp"). */
export interface BridgeConf {
  readonly name: string
  readonly forceAddress: boolean
  readonly hairpinMode: boolean
  readonly promiscMode: boolean
  readonly vlan: number
  /** Tagged VLAN ids, sorted, without repeats; undefined when the key is absent. */
  readonly vlanTrunk?: readonly number[]
  readonly preserveDefaultVlan: boolean
  readonly macspoofchk: boolean
  readonly portIsolation: boolean
}

/**
 * How a configuration names a link of the host: by which key. `master` without a value: the link of the default route.
 * `deviceID`: of runtimeConfig.
 */
export interface DeviceQuery {
  readonly key: 'master' | 'device' | 'hwaddr' | 'kernelpath' | 'pciBusID' | 'deviceID'
  readonly value?: string
}

/** The keys of the upstream macvlan plugin. `master` absent: the interface with the default route. */
export interface MacvlanConf {
  readonly master?: string
  readonly mode: MacvlanSpec['mode']
}

export interface AttachmentId {
  readonly containerId: string
  readonly ifName: string
}

interface CommonConf {
  readonly cniVersion: CniVersion
  readonly name: string
  readonly type: string
  readonly ipam: IpamConf
  /**
   * GC: the attachments to keep. Absent key: undefined, which removes nothing. libcni writes null for Go's nil slice,
   * as ocicni has for every network that is not the default one: of live pods that says nothing.
   */
  readonly validAttachments?: readonly AttachmentId[] | null
  /** The pod's namespace and name from CNI_ARGS, for records and messages only. */
  readonly pod?: { readonly namespace: string; readonly name: string; readonly uid?: string }
  /** The configuration exactly as it came, for delegated plugins (CNI spec 1.1.0, section 4). */
  readonly stdin: string
}

/** Fields of every mode: the features act on an interface of any plugin. */
export interface FeatureConf extends CommonConf {
  readonly ipMasq: boolean
  readonly nonMasqueradeCidrs: readonly string[]
  readonly mtu: 'auto' | number
  readonly removeWhenEmpty: boolean
  /** The network's ranges may overlap those of other interfaces. */
  readonly allowOverlap: boolean
  /** Replaces the DNS of the IPAM result when given (upstream bridge). */
  readonly dns?: Dns
  /** The pod interface's MAC: CNI_ARGS MAC < args.cni.mac < runtimeConfig.mac. Lower-case, colons. */
  readonly mac?: string
  readonly portMappings: readonly PortMapping[]
  readonly portmap?: PortmapConf
  readonly firewall?: FirewallConf
  readonly bandwidth?: BandwidthConf
  readonly tuning?: TuningConf
  readonly sbr?: SbrConf
  /** The capabilities that are true: what a runtime may send for a pod. Absent: none, or the runtime took the key out. */
  readonly capabilities?: readonly string[]
  readonly prevResult?: Result
}

interface MakingConf extends FeatureConf {
  readonly role: 'main'
  readonly isDefaultGateway: boolean
  readonly enabledad: boolean
  readonly disableContainerInterface: boolean
}

export type BridgeNetConf = MakingConf & {
  readonly mode: 'bridge'
  readonly bridge: BridgeConf
  readonly isGateway: boolean
}
export type PtpNetConf = MakingConf & { readonly mode: 'ptp'; readonly isGateway: boolean }
export type MacvlanNetConf = MakingConf & { readonly mode: 'macvlan'; readonly macvlan: MacvlanConf }
/** `device` absent: the runtime names it with each ADD. */
export type HostDeviceNetConf = MakingConf & { readonly mode: 'host-device'; readonly device?: DeviceQuery }
export type LoopbackNetConf = FeatureConf & { readonly role: 'main'; readonly mode: 'loopback' }
export type ChainedNetConf = FeatureConf & { readonly role: 'chained'; readonly mode: 'chained' }
/** Another plugin delegates to us: addresses, and no interface. */
export type IpamNetConf = CommonConf & { readonly role: 'ipam'; readonly mode: 'ipam' }

export type InterfaceNetConf = BridgeNetConf | PtpNetConf | MacvlanNetConf | HostDeviceNetConf

export type OwnNetConf = InterfaceNetConf | LoopbackNetConf | ChainedNetConf

export type NetConf = OwnNetConf | IpamNetConf

/**
 * What DEL needs of a configuration. DEL depends on container id, interface name and our record
 * only (docs/design.md, "DEL"), so nothing else of the configuration can make it fail.
 */
export interface DelConf {
  readonly cniVersion: CniVersion
  readonly name: string
  readonly type: string
  readonly role: Role
  /** mode is `loopback`: the sandbox's lo and nothing else is meant. */
  readonly isLoopback?: true
  readonly delegatedIpam?: string
  /** It has no key `ipam`, as that of a chained entry. */
  readonly isWithoutIpam?: true
  /** ipam.dataDir when it is a string, for reservations of the upstream host-local. */
  readonly dataDir?: string
  readonly stdin: string
}
