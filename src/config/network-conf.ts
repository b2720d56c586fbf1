// SPDX-License-Identifier: Apache-2.0
// The network configuration as the rest of trestle sees it: one type for each mode, every value checked, every default
// filled in, every address in canonical text.

import type { CniVersion, Dns, Result, Route } from '../cni/results.ts'

/** A range of a pool: both ends inclusive and inside `subnet`. */
export interface Range {
  readonly subnet: string
  readonly rangeStart: string
  readonly rangeEnd: string
  readonly gateway: string
}

/** In-process allocation: ipam.type `trestle` or `host-local`, or `podcidr`. */
export interface PoolIpam {
  readonly kind: 'pool'
  /** A pod gets one address of each set. */
  readonly rangeSets: readonly (readonly Range[])[]
  /** Addresses asked for: CNI_ARGS IP, then args.cni.ips, then runtimeConfig.ips. */
  readonly requested: readonly string[]
  /** Prefixes that are never chosen. */
  readonly exclude: readonly string[]
  readonly routes: readonly Route[]
  readonly resolvConf?: string
  /** Where the reference host-local plugin keeps its reservations. */
  readonly dataDir: string
}

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

export interface BridgeKeys {
  readonly name: string
  readonly forceAddress: boolean
  readonly hairpinMode: boolean
  readonly promiscMode: boolean
  /** 0: none. */
  readonly vlan: number
  /** Tagged VLANs, sorted; undefined where the key is absent. */
  readonly vlanTrunk?: readonly number[]
  readonly preserveDefaultVlan: boolean
  readonly macspoofchk: boolean
  readonly portIsolation: boolean
}

/** How a configuration names a link of the host. `master` without a value: the link of the default route. */
export interface DeviceQuery {
  readonly key: 'master' | 'device' | 'hwaddr' | 'kernelpath' | 'pciBusID' | 'deviceID'
  readonly value?: string
}

export type MacvlanMode = 'bridge' | 'private' | 'vepa' | 'passthru'

/** A host port (runtimeConfig.portMappings). `hostIP` absent: every address of the node. */
export interface PortMapping {
  readonly hostPort: number
  readonly containerPort: number
  readonly protocol: 'tcp' | 'udp' | 'sctp'
  readonly hostIP?: string
}

/** Bits a second and bits. Absent: not limited. */
export interface BandwidthConf {
  readonly ingressRate?: number
  readonly ingressBurst?: number
  readonly egressRate?: number
  readonly egressBurst?: number
}

export type IngressPolicy = 'same-bridge' | 'isolated'

export interface FirewallConf {
  /** Absent: open. */
  readonly ingressPolicy?: IngressPolicy
  readonly hostAccept: boolean
}

export interface TuningConf {
  /** Paths below /proc/sys and their values. */
  readonly sysctl: Readonly<Record<string, string>>
  readonly mac?: string
  readonly promisc: boolean
  readonly mtu?: number
  readonly txQLen?: number
  readonly allmulti?: boolean
}

export interface SbrConf {
  readonly table?: number
  readonly gateways: readonly string[]
  readonly addSourceHints: boolean
}

interface CommonConf {
  readonly cniVersion: CniVersion
  readonly name: string
  readonly type: string
  readonly ipam: IpamConf
  /** GC: the attachments to keep. Absent: nothing is removed. null: ocicni's list of a network that it does not know. */
  readonly validAttachments?: readonly { readonly containerId: string; readonly ifName: string }[] | null
  readonly pod?: PodNames
  /** The configuration as it came, for delegated plugins. */
  readonly stdin: string
}

/** From CNI_ARGS, for records and messages only. */
export interface PodNames {
  readonly namespace: string
  readonly name: string
  readonly uid?: string
}

/** Every mode but the role of IPAM: the features act on an interface whoever made it. */
interface FeatureConf extends CommonConf {
  readonly ipMasq: boolean
  readonly nonMasqueradeCidrs: readonly string[]
  readonly mtu: 'auto' | number
  readonly removeWhenEmpty: boolean
  readonly allowOverlap: boolean
  /** Replaces the DNS of IPAM in the result. */
  readonly dns?: Dns
  /** The MAC asked for: CNI_ARGS, then args.cni, then runtimeConfig. */
  readonly mac?: string
  readonly portMappings: readonly PortMapping[]
  /** `snat`, `masqAll`: as the reference portmap plugin. */
  readonly portmap: { readonly snat: boolean; readonly masqAll: boolean }
  readonly firewall?: FirewallConf
  readonly bandwidth?: BandwidthConf
  readonly tuning?: TuningConf
  readonly sbr?: SbrConf
  /** What a runtime may send for a pod of this list. */
  readonly capabilities: readonly string[]
  readonly prevResult?: Result
}

/** Modes that make an interface. */
interface MakingConf extends FeatureConf {
  readonly role: 'main'
  readonly isGateway: boolean
  readonly isDefaultGateway: boolean
  readonly enabledad: boolean
  readonly disableContainerInterface: boolean
}

export type BridgeConf = MakingConf & { readonly mode: 'bridge'; readonly bridge: BridgeKeys }
export type PtpConf = MakingConf & { readonly mode: 'ptp' }
export type MacvlanConf = MakingConf & {
  readonly mode: 'macvlan'
  readonly master?: string
  readonly macvlanMode: MacvlanMode
}
/** `device` absent: the runtime names it with each ADD. */
export type HostDeviceConf = MakingConf & { readonly mode: 'host-device'; readonly device?: DeviceQuery }
export type LoopbackConf = FeatureConf & { readonly role: 'main'; readonly mode: 'loopback' }
export type ChainedConf = FeatureConf & { readonly role: 'chained'; readonly mode: 'chained' }
/** Another plugin delegates to us: addresses and no interface. */
export type IpamRoleConf = CommonConf & { readonly role: 'ipam'; readonly mode: 'ipam' }

export type InterfaceConf = BridgeConf | PtpConf | MacvlanConf | HostDeviceConf
export type OwnConf = InterfaceConf | LoopbackConf | ChainedConf
export type NetworkConf = OwnConf | IpamRoleConf
export type Mode = OwnConf['mode']

/** What DEL needs of a configuration: whatever else is wrong with it cannot make a DEL fail. */
export interface DelConf {
  readonly cniVersion: CniVersion
  readonly name: string
  /** `main` where the configuration leaves it open: the record knows. */
  readonly role: 'main' | 'chained' | 'ipam'
  readonly isLoopback: boolean
  /** Modes whose interface the host shows nothing of: without a record only a look into the pod finds it. */
  readonly inPod?: { readonly mode: 'macvlan' | 'host-device'; readonly device?: string }
  readonly delegatedIpam?: string
  /** Of the reference host-local plugin. */
  readonly dataDir: string
  readonly stdin: string
}
