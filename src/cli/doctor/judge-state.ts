// SPDX-License-Identifier: Apache-2.0
// What state says and the kernel does not have, and what dead pods left.

import { isPodLinkName } from '../../plan/model/names.ts'
import { describeHolder } from '../../plan/model/record.ts'
import { orphanText } from '../../plan/recovery/kernel-orphans.ts'
import { reservationText } from '../../plan/recovery/orphan-reservations.ts'
import { counted, type Finding, type Found } from '../shell/findings.ts'
import type { Difference, PodName, StateFacts } from './facts.ts'
import { shellWord } from './judge-kernel.ts'
import { findingOf } from './shared.ts'

/** So many of one kind are named. */
const mostNamed = 4

/** Everything about state. `withoutIpv6`: links on which IPv6 was found to be off. */
export function judgeState(state: StateFacts | undefined, withoutIpv6: readonly string[]): readonly Finding[] {
  if (state === undefined) return []
  return [
    ...differences(state, withoutIpv6),
    ...ofPods(state),
    ...orphansAndPending(state),
    ...ports(state),
    ...caught(state),
    ...mtus(state),
  ].map(findingOf)
}

/** The check that a difference belongs to; forwarding is the kernel's (judge-kernel.ts). */
function checkOf({ kind, dev, found }: Difference, bridges: ReadonlySet<string>): Found['id'] | undefined {
  if (kind === 'forwarding.on') return undefined
  if (kind.startsWith('nft.')) return 'rules-missing'
  if (kind.startsWith('qdisc.') || kind.startsWith('filter.') || kind === 'ifb.add') return 'limit-missing'
  if (kind === 'sysctl.write') return 'setting-differs'
  // What makes a link that is gone says so.
  if (kind === 'link.alias') return found.includes(`${dev} is missing`) ? undefined : 'alias-missing'
  if (kind === 'hostroute.replace') return 'route-missing'
  return bridges.has(dev) || kind === 'bridge.add' ? 'bridge-differs' : 'port-differs'
}

/** One finding a check: what a flush or a bridge that is gone takes with it is one cause. */
function differences({ differences: found, accepts, state }: StateFacts, without: readonly string[]): readonly Found[] {
  // Where IPv6 is off its addresses are missing: that is found already.
  const isReported = ({ kind, dev, found: texts }: Difference) =>
    kind.startsWith('addr.') && without.includes(dev) && texts.every((text) => /^[\da-f]*:/.test(text))
  const all = found.filter((each) => !isReported(each))
  const bridges = new Set(
    all
      .filter(({ kind, dev }) => kind === 'bridge.add' || (kind.startsWith('addr.') && !isPodLinkName(dev)))
      .map(({ dev }) => dev),
  )
  const gone = new Set(all.filter(({ kind }) => kind === 'bridge.add').map(({ dev }) => dev))
  const byCheck = new Map<Found['id'], Difference[]>()
  for (const each of all) {
    const id = checkOf(each, bridges)
    if (id !== undefined) byCheck.set(id, [...(byCheck.get(id) ?? []), each])
  }
  // A bridge that is gone takes its ports, its settings and its routes with it.
  if (gone.size > 0) for (const id of ['port-differs', 'setting-differs'] as const) byCheck.delete(id)
  // A link that is down takes its routes with it.
  const devsOf = (id: Found['id']) => (byCheck.get(id) ?? []).map(({ dev }) => dev)
  if (devsOf('route-missing').every((dev) => devsOf('port-differs').includes(dev))) byCheck.delete('route-missing')
  const ofChecks = [...byCheck].map(([id, those]): Found => {
    const texts = [...new Set(those.flatMap((each) => each.found))]
    const devs = [...new Set(those.map(({ dev }) => dev).filter((dev) => dev !== ''))]
    // A sysctl has no link of its own: its text names the key.
    const on = id === 'rules-missing' ? 'nftables' : devs.length === 0 ? 'this node' : few(devs)
    return { id, on, message: few(texts) }
  })
  return [
    ...ofChecks,
    ...(accepts.length > 0 ? [{ id: 'accept-missing', on: 'another firewall', message: few(accepts) } as const] : []),
    ...(state.length > 0 ? [{ id: 'state-lacks', on: '/run/trestle', message: few(state) } as const] : []),
  ]
}

function ofPods({ lost, pods, partial, elsewhere, pendingCleanups }: StateFacts): readonly Found[] {
  const isLost = ({ pod }: PodName) => lost.some((other) => other.pod === pod)
  return [
    ...lost.map((name): Found => {
      return { id: 'interface-lost', on: name.pod, message: 'its interface on the node is gone', ...anew(name) }
    }),
    // What is gone from the node is gone from the pod, too.
    ...pods
      .filter((each) => !isLost(each))
      .map((each): Found => ({ id: 'pod-differs', on: each.pod, message: few(each.found), ...anew(each) })),
    ...(partial.length > 0
      ? [{ id: 'record-partial', on: 'state', message: few(partial.map(({ pod }) => pod)) } as const]
      : []),
    ...(elsewhere.length > 0 ? [{ id: 'other-host', on: 'state', message: few(elsewhere) } as const] : []),
    ...pendingCleanups.map((record): Found => {
      return { id: 'pending-cleanup', on: describeHolder(record), message: few(record.pendingCleanup ?? []) }
    }),
  ]
}

/** kubelet makes a sandbox that was stopped anew, the pod stays. */
function anew({ sandbox }: PodName): Pick<Found, 'run'> {
  return sandbox === undefined ? {} : { run: `crictl stopp ${shellWord(sandbox)}` }
}

function orphansAndPending({
  attachments,
  reservations,
  orphans,
  inTheWay,
  damaged,
  pendingCleanups,
}: StateFacts): readonly Found[] {
  const pending = new Set(pendingCleanups.map(({ key }) => key.containerId))
  const dead = attachments.filter(
    ({ verdict, record }) => verdict === 'collect' && !pending.has(record.key.containerId),
  )
  const lost = reservations.filter(({ verdict }) => verdict === 'collect')
  const links = orphans.filter(({ verdict }) => verdict === 'collect')
  const unsure = [
    ...attachments.filter(isReport).map(({ record, why }) => `${describeHolder(record)}: ${why}`),
    ...reservations.filter(isReport).map(({ reservation, why }) => `${reservationText(reservation)}: ${why}`),
    ...orphans.filter(isReport).map(({ orphan, why }) => `${orphanText(orphan)}: ${why}`),
  ]
  const some = (id: Found['id'], on: string, texts: readonly string[]): readonly Found[] =>
    texts.length === 0 ? [] : [{ id, on, message: few(texts) }]
  return [
    ...some(
      'dead-attachments',
      counted(dead.length, 'attachment'),
      dead.map((each) => `${describeHolder(each.record)}: ${each.why}`),
    ),
    ...some(
      'reservations-leaked',
      counted(lost.length, 'reservation'),
      lost.map((each) => `${reservationText(each.reservation)}: ${each.why}`),
    ),
    ...some(
      'orphans',
      'the kernel',
      links.map(({ orphan, why }) => `${orphanText(orphan)}: ${why}`),
    ),
    ...some(
      'reservations-leaked',
      'state',
      inTheWay.map((path) => `${path} is no directory`),
    ),
    ...some('unsure', 'leftovers', unsure),
    ...some('state-damaged', '/run/trestle/damaged', damaged),
  ]
}

function ports({ ports: taken }: StateFacts): readonly Found[] {
  const once = taken.filter(({ port }, at) => taken.findIndex((other) => other.port === port) === at)
  return once.map(({ port, listener, pod }) => {
    const number = /\d+/.exec(port)?.[0] ?? ''
    const message = `it goes to ${pod}, and a process of the node listens on ${listener}`
    const cure = `\`ss -lnp sport = :${number}\` names the process: give one of them another port`
    return { id: 'port-taken', on: port, message, cure }
  })
}

function caught({ caught: services }: StateFacts): readonly Found[] {
  return [...Map.groupBy(services, ({ port }) => port)].map(([port, all]) => {
    const pods = [...new Set(all.map(({ pod }) => pod))]
    const message = `it goes to ${pods.join(', ')}, also where it is for ${few(all.map(({ service }) => service))}`
    return { id: 'ipvs-service-caught', on: port, message }
  })
}

function mtus({ mtus: all, uplinkMtu }: StateFacts): readonly Found[] {
  const larger = all.filter(({ mtu }) => uplinkMtu !== undefined && mtu > uplinkMtu)
  if (larger.length === 0) return []
  const most = Math.max(...larger.map(({ mtu }) => mtu))
  const message = `pods have an MTU of up to ${most} bytes, the way out one of ${uplinkMtu}`
  return [{ id: 'mtu-larger', on: few(larger.map(({ pod }) => pod)), message }]
}

function isReport({ verdict }: { readonly verdict: string }): boolean {
  return verdict === 'report'
}

/** Some of them, and how many more. */
export function few(texts: readonly string[]): string {
  const more = texts.length - mostNamed
  return [...texts.slice(0, mostNamed), ...(more > 0 ? [`and ${more} more`] : [])].join('; ')
}
