// SPDX-License-Identifier: Apache-2.0
// What the facts of an ADD decide: its spec, its network, and whether anything has to be looked at for it.

import { isDeepStrictEqual } from 'node:util'
import type { Route } from '../../cni/model/route.ts'
import type { AttachmentSpec, NetworkSpec } from '../model/attachment.ts'
import { type Lease, noLease } from '../model/lease.ts'
import type { Op } from '../model/op.ts'
import { buildNetworkSpec, buildSpec, mergeNetworks } from '../modes/build-spec.ts'
import { interfaceConf } from '../modes/drivers.ts'
import type { AddFacts, Known } from './facts.ts'
import type { Outcome, PlanRun } from './stage.ts'

type RouteOp = Extract<Op, { kind: 'route.add' }>

/** The addresses as far as they are known: those of a delegated plugin come once the interface is made. */
export function leaseOf({ learnt }: AddFacts): Lease {
  return learnt.delegated ?? learnt.lease ?? noLease
}

/** Whether the interface waits for the addresses of a delegated plugin. Its sysctls are set with them, once. */
export function isWithoutLease({ conf, learnt }: AddFacts): boolean {
  return conf.ipam.kind === 'delegated' && learnt.delegated === undefined
}

/**
 * A function of facts that keeps its latest value, and what it was made from: an order asks a dozen times for what
 * changes once or twice.
 */
function keepingLatest<T>(compute: (facts: AddFacts) => T, from: (facts: AddFacts) => readonly unknown[]) {
  let latest: { readonly from: readonly unknown[]; readonly value: T } | undefined
  return (facts: AddFacts): T => {
    const now = from(facts)
    if (latest === undefined || now.some((each, at) => each !== latest?.from[at]))
      latest = { from: now, value: compute(facts) }
    return latest.value
  }
}

/** The attachment as far as it is known. Throws CniError 7 as the mode says. */
export const specOf = keepingLatest(buildSpecOf, ({ key, conf, mtu, learnt }) => [
  key,
  conf,
  mtu,
  learnt.lease,
  learnt.delegated,
  learnt.usedTables,
  learnt.master,
])

/** The network as it is to be: as configured, with what was learnt of it before. */
export const wantedNetwork = keepingLatest(mergeNetworkOf, (facts) => [
  specOf(facts),
  facts.conf,
  facts.machineId,
  facts.learnt.known,
  facts.learnt.ranges,
])

function buildSpecOf(facts: AddFacts): AttachmentSpec {
  const { key, mtu, learnt } = facts
  const conf = interfaceConf(facts.conf)
  const { usedTables = new Set<number>(), master } = learnt
  const spec = buildSpec({ key, conf, lease: leaseOf(facts), mtu, usedTables, master })
  if (!isWithoutLease(facts) || spec.tuning === undefined) return spec
  return { ...spec, tuning: { ...spec.tuning, sysctl: {} } }
}

function mergeNetworkOf(facts: AddFacts): NetworkSpec {
  const { learnt, machineId } = facts
  const conf = interfaceConf(facts.conf)
  const { network: known, hasBridge = false } = learnt.known ?? {}
  const { ips, mtu } = specOf(facts)
  const excluded = conf.ipam.kind === 'pool' ? (learnt.ranges?.excluded ?? []) : []
  const now = { ...buildNetworkSpec(conf, ips, { mtu, machineId }), ...(excluded.length > 0 ? { excluded } : {}) }
  const merged = mergeNetworks(known, now, conf.ipam.kind === 'pool')
  const { bridge } = merged
  if (bridge === undefined || known?.bridge?.name !== bridge.name || !hasBridge) return merged
  // A bridge keeps the MAC and MTU it was made with, or was found with.
  return { ...merged, bridge: { ...bridge, mac: known.bridge.mac, mtu: known.bridge.mtu } }
}

/** Whether nothing of the network has to be looked at: it was set up like this, and files tell that it is there. */
export function isUsual(facts: AddFacts): boolean {
  const { known } = facts.learnt
  const wanted = wantedNetwork(facts)
  return known !== undefined && isDeepStrictEqual(known.network, wanted) && isInPlace(wanted, known)
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

/** The default routes that were made, and of those the ones that go again. */
interface MadeDefaults {
  readonly kept: readonly Route[]
  /** One of another metric did not stop ours; it was there first. */
  readonly second: readonly RouteOp[]
}

/** What became of the default routes, from the runs of an ADD. */
export function madeDefaults(runs: readonly PlanRun[]): MadeDefaults {
  const outcomes = runs.flatMap((run) => run.outcomes).filter(({ id }) => id === 'pod')
  const made = outcomes.flatMap(madeBy)
  const second = made.filter((op) => outcomes.some(({ shown }) => shown?.routes.includes(op.route.dst)))
  return { kept: made.filter((op) => !second.includes(op)).map((op) => op.route), second }
}

function madeBy({ done }: Outcome): readonly RouteOp[] {
  return done.filter((op) => op.kind === 'route.add').filter((op) => op.onlyIfNone)
}
