// SPDX-License-Identifier: Apache-2.0
// desired − observed. An operation is also a statement about the kernel; `lacking` says in which
// ways it does not hold. CHECK prints that, repair runs those operations, DEL and GC ask it whether
// there is anything left to take away (docs/design.md, "One difference").

import { forwardingKey } from '../../drivers/network.ts'
import type { PodRoute } from '../../model/attachment.ts'
import type { Observed, ObservedNamespace, ObservedQueue, ObservedRoute } from '../../model/observed.ts'
import type { Op } from '../../model/op.ts'
import { mainTable } from '../../model/rtnetlink.ts'
import { linkDifference, podEndDifference } from './link-difference.ts'
import { tableDifference } from './table-difference.ts'
import { valueDifference } from './value-difference.ts'

/** An operation whose effect is not there, and each way in which it is not, for people. */
export interface Difference {
  readonly op: Op
  readonly found: readonly string[]
}

/** The operations that do not hold, with what was found instead. */
export function difference(ops: readonly Op[], observed: Observed): readonly Difference[] {
  return ops.flatMap((op) => {
    const found = opDifference(op, observed)
    return found.length === 0 ? [] : [{ op, found }]
  })
}

/** What does not hold inside the pod: of operations there, and of its end of a link that is made on the host. */
export function podDifference(ops: readonly Op[], observed: Observed): readonly string[] {
  return ops.flatMap((op) => {
    if (op.kind === 'veth.add' || op.kind === 'macvlan.add') return podEndDifference(op, observed)
    return op.in === 'pod' ? opDifference(op, observed) : []
  })
}

/** In which ways `op` does not hold; empty when it does, or when its place was not looked at. */
function opDifference(op: Op, observed: Observed): readonly string[] {
  const place = op.in === 'host' ? observed.host : observed.pod
  if (place === undefined) return []
  switch (op.kind) {
    case 'hostroute.replace':
      return hostRouteDifference(op.dst, op.dev, place)
    case 'route.add':
      return routeDifference(op.route, op.dev, place)
    case 'rule.add':
    case 'rule.del':
      return ruleDifference(op, place)
    case 'sysctl.pod':
      return podSysctlDifference(op.key, op.value, observed)
    case 'sysctl.write':
      return sysctlDifference(op.key, op.value, observed)
    case 'forwarding.on':
      return sysctlDifference(forwardingKey(op.family), '1', observed)
    case 'qdisc.tbf':
    case 'qdisc.ingress':
    case 'filter.redirect':
      return queueDifference(op, observed.queues)
    case 'nft.base':
    case 'nft.chain':
    case 'nft.chain.del':
    case 'nft.add':
    case 'nft.del':
      return tableDifference(op, observed)
    case 'qdisc.del':
    case 'route.del':
    case 'route.show-default':
    case 'neigh.announce':
    case 'neigh.announce6':
    case 'nft.base.show':
    case 'nft.table.del':
    case 'nft.flush':
      return []
    default:
      return linkDifference(op, place, observed)
  }
}

function hostRouteDifference(dst: string, dev: string, place: ObservedNamespace): readonly string[] {
  const there = (place.routes.get(mainTable) ?? []).some((route) => route.dst === dst && route.dev === dev)
  return there ? [] : [`host route to ${dst} dev ${dev} is missing`]
}

function ruleDifference(
  op: Extract<Op, { kind: 'rule.add' | 'rule.del' }>,
  place: ObservedNamespace,
): readonly string[] {
  if (place.rules === undefined) return []
  const isThere = place.rules.some((rule) => rule.from === op.from && rule.table === op.table)
  if (isThere === (op.kind === 'rule.add')) return []
  return [`rule from ${op.from} table ${op.table} is ${isThere ? 'still there' : 'missing'}`]
}

function podSysctlDifference(key: string, value: string, observed: Observed): readonly string[] {
  if (observed.podSysctls === undefined) return []
  // The kernel prints several values with tabs between them.
  const now = observed.podSysctls.get(key)?.trim().replace(/\s+/g, ' ')
  return valueDifference(`${key.replaceAll('/', '.')} in the pod`, now ?? 'absent', value.trim().replace(/\s+/g, ' '))
}

function routeDifference(route: PodRoute, dev: string, place: ObservedNamespace): readonly string[] {
  // A later plugin that routes by source moves routes to a table of its own, and the result does not tell.
  const routes = route.table === undefined ? [...place.routes.values()].flat() : (place.routes.get(route.table) ?? [])
  const there = routes.filter((other) => other.dst === route.dst && other.dev === dev)
  const via = route.gw === undefined ? '' : ` via ${route.gw}`
  if (there.some((other) => matches(other, route))) return []
  return [`route to ${route.dst}${via} dev ${dev} is ${there.length === 0 ? 'missing' : 'different'}`]
}

function matches(there: ObservedRoute, route: PodRoute): boolean {
  const keys = ['gw', 'priority', 'mtu', 'advmss'] as const
  return keys.every((key) => route[key] === undefined || route[key] === there[key])
}

function sysctlDifference(key: string, value: string, observed: Observed): readonly string[] {
  const now = observed.sysctls.get(key)
  const isWithout = now === undefined && value === '0' && isOfLinkThere(key, observed.host)
  if (!observed.sysctls.has(key) || isWithout) return []
  return valueDifference(key.replaceAll('/', '.'), now ?? 'absent', value)
}

/**
 * A link without IPv6 (an MTU below 1280, or none on the node) has none of its settings, and takes no advertisement.
 */
function isOfLinkThere(key: string, host: ObservedNamespace): boolean {
  return key.startsWith('net/ipv6/conf/') && host.links.has(key.split('/')[3] ?? '')
}

type QueueOp = Extract<Op, { kind: 'filter.redirect' | 'qdisc.tbf' | 'qdisc.ingress' }>

/** tc rounds rates to bytes and bursts to its clock's ticks (tc/tc_core.c): a hundredth is no difference. */
const tolerance = 0.01
/**
 * Nor is a bucket that fills so much sooner: tc cuts the time to whole microseconds when it sets and when it shows it.
 */
const cutS = 2e-6

/** What differs, for people; empty when all holds or queues were not looked at. */
export function queueDifference(
  op: QueueOp,
  queues: ReadonlyMap<string, ObservedQueue> | undefined,
): readonly string[] {
  if (queues === undefined) return []
  const queue = queues.get(op.dev)
  switch (op.kind) {
    case 'qdisc.ingress':
      return queue?.hasIngress ? [] : [`ingress qdisc is missing on ${op.dev}`]
    case 'filter.redirect':
      return queue?.redirectTo === op.to ? [] : [`filter to ${op.to} is missing on ${op.dev}`]
    case 'qdisc.tbf':
      if (queue?.rateBits === undefined) return [`bandwidth limit is missing on ${op.dev}`]
      return [
        ...(isNear(queue.rateBits, op.rateBits)
          ? []
          : [`bandwidth limit on ${op.dev} is ${queue.rateBits} bit/s, not ${op.rateBits}`]),
        ...(isNear(queue.burstBytes ?? 0, op.burstBytes, (op.rateBits / 8) * cutS)
          ? []
          : [`burst on ${op.dev} is ${queue.burstBytes ?? 0} bytes, not ${op.burstBytes}`]),
      ]
    default:
      return op satisfies never
  }
}

function isNear(is: number, wanted: number, margin = 8): boolean {
  return Math.abs(is - wanted) <= Math.max(wanted * tolerance, margin, 8)
}
