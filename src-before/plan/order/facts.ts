// SPDX-License-Identifier: Apache-2.0
// What an ADD knows, and what follows from it: the spec of the attachment, and the network as it is to be.

import type { Route } from '../../cni/result.ts'
import type { InterfaceNetConf, OwnNetConf } from '../../config/net-conf.ts'
import type { Device } from '../../drivers/driver.ts'
import { buildNetworkSpec, buildSpec, mergeNetworks, subnetSourceOf } from '../../drivers/specs.ts'
import type { Cluster } from '../../features/cluster.ts'
import {
  type AttachmentKey,
  type AttachmentSpec,
  isSameNetwork,
  type Lease,
  type NetworkSpec,
} from '../../model/attachment.ts'
import type { ObservedNamespace } from '../../model/observed.ts'
import type { Op } from '../../model/op.ts'
import type { PlacedPod } from '../ipam/range-overlap.ts'
import type { Outcome } from './stage.ts'

type RouteOp = Extract<Op, { kind: 'route.add' }>

/** Obstacles on the host to the network's ranges. `abandoned`: links of bridges that make room for the ranges. */
export interface Ranges {
  readonly excluded: readonly string[]
  readonly abandoned: readonly string[]
}

/** The network's state, and its shared parts as files show them. `forwarding`: the families that are forwarded. */
export interface Known {
  readonly network: NetworkSpec | undefined
  readonly hasBridge: boolean
  readonly forwarding: readonly (4 | 6)[]
}

/**
 * The sources of everything shared: networks and live attachments from state, links from the kernel. `host`: absent
 * where there is nothing to look at. `made`: networks as live attachments were made with them, newest first.
 */
export interface NetworkFacts {
  readonly isMade: boolean
  readonly before: NetworkSpec | undefined
  readonly networks: readonly NetworkSpec[]
  readonly made: readonly NetworkSpec[]
  readonly attachments: readonly AttachmentSpec[]
  /** The attachments whose link is there, with its place. */
  readonly pods: readonly PlacedPod[]
  readonly host: ObservedNamespace | undefined
  readonly cluster: Cluster | undefined
  /** Links of several pods that let 127.0.0.1 through for host ports (system/store/localnet.ts). */
  readonly opened: readonly string[]
  readonly links: ReadonlySet<string>
  readonly sysctls: ReadonlyMap<string, string | undefined>
}

/** The beginning of an ADD. `mtu`: of the configuration, "auto" already chosen; `netns`: the path of CNI_NETNS. */
export interface Begun<Conf extends OwnNetConf> {
  readonly key: AttachmentKey
  readonly conf: Conf
  readonly netns: string
  readonly mtu: number
  readonly machineId: string
}

/**
 * An interface to be made. `lease`: addresses; of a delegated plugin once it has given them. `isMade`: the interface
 * is there, without its addresses: the lease of a delegated plugin came after it.
 */
export interface AddFacts extends Begun<InterfaceNetConf> {
  readonly device: Device | undefined
  readonly ranges: Ranges
  readonly usedTables: ReadonlySet<number>
  readonly lease: Lease
  readonly known: Known | undefined
  readonly isMade: boolean
}

/** Whether the interface waits for the addresses of a delegated plugin. Its sysctls are set with them, once. */
function isWithoutLease({ conf, isMade }: Pick<AddFacts, 'conf' | 'isMade'>): boolean {
  return conf.ipam.kind === 'delegated' && !isMade
}

/** The attachment as far as it is known. Throws CniError 7 as the mode says. */
export function specOf(facts: Omit<AddFacts, 'known'>): AttachmentSpec {
  const { key, conf, mtu, lease, usedTables, device } = facts
  const spec = buildSpec({ key, conf, lease, mtu, usedTables, device })
  if (!isWithoutLease(facts) || spec.tuning === undefined) return spec
  return { ...spec, tuning: { ...spec.tuning, sysctl: {} } }
}

/** The network as it is to be: as configured, with what state has of it. */
export function wantedNetwork(facts: AddFacts, { ips, mtu }: AttachmentSpec): NetworkSpec {
  const { conf, known, machineId } = facts
  const excluded = conf.ipam.kind === 'pool' ? facts.ranges.excluded : []
  const now = { ...buildNetworkSpec(conf, ips, { mtu, machineId }), ...(excluded.length > 0 ? { excluded } : {}) }
  const all = mergeNetworks(known?.network, now, subnetSourceOf(conf))
  const merged = isWithoutLease(facts) ? { ...all, ...leasedParts(facts, all) } : all
  const { bridge } = merged
  if (bridge === undefined || known?.network?.bridge?.name !== bridge.name || !known.hasBridge) return merged
  // A bridge keeps the MAC and MTU it was made with, or was found with.
  return { ...merged, bridge: { ...bridge, mac: known.network.bridge.mac, mtu: known.network.bridge.mtu } }
}

/** The parts that earlier leases made: live pods need them also while a delegated plugin has not given this lease. */
function leasedParts({ conf, known }: AddFacts, { bridge }: NetworkSpec): Pick<NetworkSpec, 'masquerade' | 'ranges'> {
  const { masquerade, ranges, bridge: before } = known?.network ?? {}
  if (before?.name !== bridge?.name) return {}
  return { ...(ranges && { ranges }), ...(conf.ipMasq && masquerade && { masquerade }) }
}

/** Whether the network was set up as it is wanted, and files show its shared parts: no process has to look at it. */
export function isSetUp(wanted: NetworkSpec, known: Known): boolean {
  return isSameNetwork(known.network, wanted) && isInPlace(wanted, known)
}

/**
 * Whether the network's bridge is there and forwarding is on. Forwarding is switched on under the machine's lock only:
 * that changes settings of links, and another set-up may be about to change those of its bridge.
 */
export function isInPlace(
  { bridge, forwarding }: NetworkSpec,
  known: Pick<Known, 'hasBridge' | 'forwarding'>,
): boolean {
  return (bridge === undefined || known.hasBridge) && forwarding.every((family) => known.forwarding.includes(family))
}

/** The default routes that were made, and the made ones that are removed again. */
interface MadeDefaults {
  readonly kept: readonly Route[]
  /** The pod had a default route with another metric, which did not stop ours. */
  readonly second: readonly RouteOp[]
}

/** The default routes by the outcome of the stage that made the pod's side. */
export function madeDefaults({ done, shown }: Pick<Outcome, 'done' | 'shown'> = { done: [] }): MadeDefaults {
  const made = done.filter((op) => op.kind === 'route.add').filter((op) => op.onlyIfNone)
  const second = made.filter((op) => shown?.routes.includes(op.route.dst))
  return { kept: made.filter((op) => !second.includes(op)).map((op) => op.route), second }
}
