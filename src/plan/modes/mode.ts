// SPDX-License-Identifier: Apache-2.0
// What trestle asks a mode. A mode is one constant of this type, in a file of its own; modes.ts has them all.

import type { MacvlanConf, NetConf } from '../../cni/model/net-conf.ts'
import type { GatewaySide } from '../ipam/range-overlap.ts'
import type {
  AttachmentKey,
  AttachmentSpec,
  BridgePort,
  LinkEnd,
  MacvlanSpec,
  NetworkSpec,
  PodAddress,
  PodRoute,
} from '../model/attachment.ts'
import type { ObservedLink } from '../model/observed.ts'
import type { Op } from '../model/op.ts'

/** What the machine tells before anything is decided. `mtu` in bytes, already chosen for "auto". */
export interface Surroundings {
  readonly mtu: number
  readonly machineId: string
}

/** Routes of the pod. `defaultRoutes`: added only where the pod has none of that family yet. */
export interface Routes {
  readonly routes: readonly PodRoute[]
  readonly defaultRoutes: readonly PodRoute[]
}

/** The link of the host that a mode puts interfaces on. `link`: absent where there is none of that name. */
export interface Master {
  readonly name: string
  readonly link?: ObservedLink
  readonly isWireless: boolean
}

/** What is decided alike in every mode that makes an interface. `given`: the routes of the lease. */
export interface Decided {
  readonly key: AttachmentKey
  readonly conf: NetConf
  readonly mac: string
  readonly ips: readonly PodAddress[]
  readonly given: Routes
  /** Where the mode has one: it was looked at. */
  readonly master: Master | undefined
}

/** What a mode adds to the attachment's spec (plan/model/attachment.ts). */
export interface OwnParts {
  /** Where it is not what was decided for every mode. */
  readonly mac?: string
  readonly mtu?: number
  readonly host?: LinkEnd
  readonly port?: BridgePort
  /** Which of the routes that the kernel adds with the addresses sbr has to take over. */
  readonly subnetRoutes: readonly PodRoute[]
  readonly routes: Routes
  /** The link of the host that packets to the pod leave by, where they do. */
  readonly hostLink?: string
  /** Absent: where its host ports need it. */
  readonly selfHairpin?: boolean
  readonly ingressPolicy?: AttachmentSpec['ingressPolicy']
  readonly macvlan?: MacvlanSpec
}

/**
 * One mode. `order`: which order its ADD has (plan/order/next.ts); `unreadKeys`: keys of the configuration that have no
 * effect, with dots for levels (`lint`).
 */
export interface ModeRoom extends ModeOps {
  readonly order: 'interface' | 'chained' | 'loopback'
  readonly unreadKeys: readonly string[]
  /** What makes the spec, where the mode makes an interface. */
  readonly makes?: InterfaceMaker
}

/** The operations of an attachment, from its spec alone; empty where the spec has nothing to make. */
export interface ModeOps {
  /**
   * Every pod has a link of the host to itself, and its routes go by its gateway; else the kernel adds the subnet's.
   */
  readonly isRouted: boolean
  /** The host's side: links, and where they belong. */
  readonly hostOps: (spec: AttachmentSpec) => readonly Op[]
  /** What of `hostOps` the addresses tell: for an interface that was made before them (delegated IPAM). */
  readonly leasedHostOps: (spec: AttachmentSpec) => readonly Op[]
  /** What gives the new interface its name in the pod, where it is not made with it. */
  readonly nameOps: (spec: AttachmentSpec) => readonly Op[]
  /** The pod's side, but for sysctls. */
  readonly podOps: (spec: AttachmentSpec) => readonly Op[]
  /** What is in the pod and does not go with a link of the host. */
  readonly podTeardownOps: (spec: AttachmentSpec) => readonly Op[]
}

/** From a configuration to specs. */
export interface InterfaceMaker {
  /**
   * The pods' gateway is on the host: their ranges must be apart from what the host has otherwise, and a node can route
   * them.
   */
  readonly hasHostGateway: boolean
  /** The bridge of the configuration, where the mode has one. */
  readonly bridgeOf: (conf: NetConf) => string | undefined
  /**
   * The configuration of the link that interfaces are put on, where the mode has one; it is looked at before anything
   * is made.
   */
  readonly masterOf: (conf: NetConf) => MacvlanConf | undefined
  /** Throws CniError 7 where the configuration and the addresses do not go together. */
  readonly partsOf: (decided: Decided) => OwnParts
  /** Where the network's gateways are, by which its ranges are compared with the host's. `ips` as in `networkOf`. */
  readonly gatewaySide: (conf: NetConf, ips: readonly PodAddress[]) => GatewaySide
  /** What the network's attachments share. `ips`: this attachment's, for IPAM that names no subnets. */
  readonly networkOf: (conf: NetConf, ips: readonly PodAddress[], surroundings: Surroundings) => NetworkSpec
}
