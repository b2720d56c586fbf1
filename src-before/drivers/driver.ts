// SPDX-License-Identifier: Apache-2.0
// The interface of drivers. A driver makes, undoes and compares one mode, in a file of its own; drivers.ts has them.

import type { CniError } from '../cni/error.ts'
import type { DeviceQuery, InterfaceNetConf } from '../config/net-conf.ts'
import type {
  AttachmentKey,
  AttachmentSpec,
  BridgePort,
  BridgeSpec,
  LinkEnd,
  NetworkSpec,
  PodAddress,
  PodRoute,
} from '../model/attachment.ts'
import type { ObservedLink } from '../model/observed.ts'
import type { Op } from '../model/op.ts'

type OpsOf = (spec: AttachmentSpec) => readonly Op[]

/** Operations of an attachment, from its spec alone; empty where the spec has nothing to make. CHECK compares them. */
export interface Driver {
  /** Every pod has a link of the host to itself, and routes by its gateway; else the kernel adds the subnet's route. */
  readonly isRouted: boolean
  /** The host's side: links, and their bridge. */
  readonly hostOps?: OpsOf
  /** The part of `hostOps` that needs addresses: for an interface that was made before them (delegated IPAM). */
  readonly leasedHostOps?: OpsOf
  /** Gives the new interface its name in the pod, where it is made under another name. */
  readonly nameOps?: OpsOf
  readonly podOps: OpsOf
  /** Removes from the pod what does not go with a link of the host. */
  readonly podTeardownOps?: OpsOf
  /** Brings a link of the host home from the pod, where a program, or the end of the namespace, may rename it. */
  readonly homecoming?: (spec: AttachmentSpec, around: Around) => Homecoming
  /**
   * The spec of an attachment without a record by its interface, as much of it as the removal needs; undefined where
   * that is none of this mode. For modes that have it in the pod alone.
   */
  readonly specSeen?: (key: AttachmentKey, link: ObservedLink | undefined) => AttachmentSpec | undefined
  /** Nothing of the interface is on the host. */
  readonly isInPodAlone?: true
  /** The meaning of what the kernel refused, where the mode knows one that no look and no repair changes. */
  readonly refusalOf?: (spec: AttachmentSpec, refused: Refused) => CniError | undefined
}

/** An operation that failed. `reason`: as its tool told. */
export interface Refused {
  readonly op: Op
  readonly reason: string | undefined
  readonly error: Error
}

/** What the machine tells before anything is decided. `mtu` in bytes, already chosen for "auto". */
export interface Surroundings {
  readonly mtu: number
  readonly machineId: string
}

/** Routes of the pod. `defaultRoutes`: added only where the pod has no default route of that family yet. */
export interface Routes {
  readonly routes: readonly PodRoute[]
  readonly defaultRoutes: readonly PodRoute[]
}

/** A link of the host that a mode needs, and that is none of ours. `link`: absent where there is none. */
export interface Device {
  readonly name: string
  readonly link?: ObservedLink
  readonly isWireless: boolean
  /** A default route of the host goes through it. */
  readonly isUplink?: boolean
  /** Links of the host that are on it: VLANs, macvlans. */
  readonly carries?: readonly string[]
  /** The names, where several links are meant. */
  readonly several?: readonly string[]
  /** A link that has its name as an alias: it came back from a pod under another one. */
  readonly strayed?: string
  /** The device is with a driver for programs, and no link. */
  readonly driver?: string
}

/** The links of both namespaces. `pod`: absent where its namespace is gone. */
export interface Around {
  readonly host: ReadonlyMap<string, ObservedLink>
  readonly pod?: ReadonlyMap<string, ObservedLink> | undefined
}

/**
 * How a link of the host gets home from the pod: operations there first. `missing`: where it is in neither, in words;
 * `isAwaited`: the kernel is to bring it; `isHeld`: it is in the pod, and the host has no room for it.
 */
export interface Homecoming {
  readonly ops: readonly Op[]
  readonly missing?: string
  readonly isAwaited?: boolean
  readonly isHeld?: boolean
}

/** Decisions that are the same in every mode that makes an interface. `given`: the routes of the lease. */
export interface Decided {
  readonly key: AttachmentKey
  readonly mac: string
  readonly ips: readonly PodAddress[]
  readonly given: Routes
  /** Where the mode has one: it was looked at. */
  readonly device: Device | undefined
}

/** A mode's part of the attachment's spec (model/attachment.ts). */
export interface OwnParts {
  /** Where it is not the MAC or MTU of every mode. */
  readonly mac?: string
  readonly mtu?: number
  readonly host?: LinkEnd
  readonly port?: BridgePort
  /** Routes that the kernel adds with the addresses, and sbr has to take over. */
  readonly subnetRoutes: readonly PodRoute[]
  readonly routes: Routes
  /** The link by which packets to the pod leave the host, if they do. */
  readonly hostLink?: string
  /** Absent: where its host ports need it. */
  readonly selfHairpin?: boolean
  readonly ingressPolicy?: AttachmentSpec['ingressPolicy']
  /** The parts of the spec that this mode alone has. */
  readonly only?: Partial<AttachmentSpec>
}

/** A driver that makes an interface. Methods: drivers.ts gives each driver configurations of its own mode only. */
export interface InterfaceDriver<Conf extends InterfaceNetConf> extends Driver {
  /** The link of the host that the interface needs; it is looked at first. */
  deviceOf?(conf: Conf): DeviceQuery | undefined
  /** Throws CniError 7 where the configuration and the addresses do not go together. */
  partsOf(conf: Conf, decided: Decided): OwnParts
  /** The place of the network's gateways, to compare its ranges with the host's. `ips` as in `networkOf`. */
  gatewaySide(conf: Conf, ips: readonly PodAddress[]): GatewaySide
  /** The shared part of the network's attachments. `ips`: of this attachment, for IPAM that names no subnets. */
  networkOf(conf: Conf, ips: readonly PodAddress[], surroundings: Surroundings): NetworkSpec
}

/** A network as far as its ranges go: where its gateways are. */
export type GatewaySide = Pick<NetworkSpec, 'name' | 'ranges'> & {
  readonly bridge?: Pick<BridgeSpec, 'name' | 'addresses' | 'gateway'>
}
