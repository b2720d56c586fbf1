// SPDX-License-Identifier: Apache-2.0
// What a driver is: it makes the interface of one mode, in a file of its own; drivers.ts has them all. Whatever a mode
// must know elsewhere is a field here.

import type { CniError } from '../cni/errors.ts'
import type { DeviceQuery, InterfaceConf } from '../config/network-conf.ts'
import type { Reason } from '../kernel/messages.ts'
import type { ObservedLink } from '../kernel/observed.ts'
import type { Op } from '../kernel/operation.ts'
import type { AttachmentId, NetworkSpec, PodAddress, PodRoute, Spec } from './spec.ts'

/** What the node says before anything is decided, without a process. */
export interface NodeFacts {
  /** For `mtu: auto`. */
  readonly mtu: number
  readonly machineId: string
}

/** A link of the host that a mode needs and that is none of ours. */
export interface Device {
  readonly name: string
  /** Absent where there is no such link. */
  readonly link?: ObservedLink
  readonly isUplink?: boolean
  /** VLANs and macvlans on it, which would go with it. */
  readonly carries?: readonly string[]
  /** Names, where the configuration means several links. */
  readonly several?: readonly string[]
  /** A driver that leaves the device to a program (DPDK): there is no link. */
  readonly driver?: string
}

/** What is the same in every mode that makes an interface. */
export interface Decided {
  readonly id: AttachmentId
  readonly mac: string
  readonly mtu: number
  readonly addresses: readonly PodAddress[]
  readonly routes: readonly PodRoute[]
  readonly defaultRoutes: readonly PodRoute[]
  readonly device: Device | undefined
}

/** A mode's own part of the spec. */
export type Parts = Partial<
  Pick<Spec, 'host' | 'pod' | 'port' | 'macvlan' | 'device' | 'fencedLink' | 'tuning' | 'isLeftDown'>
> & {
  readonly routes: readonly PodRoute[]
  readonly defaultRoutes: readonly PodRoute[]
  /** The link by which packets to the pod leave the host, if they do, and whether it is the pod's alone. */
  readonly wayToPod?: { readonly link: string; readonly isOwnLink: boolean }
}

/** `Conf`: the configuration of the mode. Methods, so that the table of drivers can give each its own. */
export interface Driver<Conf extends InterfaceConf = InterfaceConf> {
  /** The link of the host that the configuration names; it is looked at first. */
  deviceOf?(conf: Conf): DeviceQuery | undefined
  /** Throws CniError 7 where configuration, addresses and device do not go together. */
  partsOf(conf: Conf, decided: Decided): Parts
  /** What the mode's attachments share on the host. `addresses`: of this one, where IPAM names no subnets. */
  networkOf(conf: Conf, addresses: readonly PodAddress[], node: NodeFacts): NetworkSpec
  /** The host's side of one attachment, in order. */
  hostOps(spec: Spec): readonly Op[]
  /** Gives a new interface its name in the pod, where it is made under another one. */
  nameOps?(spec: Spec): readonly Op[]
  /** The pod's addresses bring no route of their own. */
  readonly isRouted?: true
  /** What does not go with a link of the host: removed in the pod. */
  undoInPod?(spec: Spec): readonly Op[]
  /** Nothing of the mode is on the host. */
  readonly isInPodAlone?: true
  /** What a refusal of the kernel means, where no repair changes it. */
  refusalOf?(
    spec: Spec,
    refused: { readonly op: Op; readonly reason: Reason | undefined; readonly error: CniError },
  ): CniError | undefined
}
