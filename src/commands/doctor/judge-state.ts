// SPDX-License-Identifier: Apache-2.0
// Differences between state and kernel, and leftovers of dead pods.

import { describeHolder } from '../../../src-before/model/record.ts'
import { isPodLinkName } from '../../drivers/names.ts'
import { counted, type Finding, type Found, findingOf } from '../findings.ts'
import type { Difference, PodName, StateFacts } from './facts.ts'
import { shellWord } from './judge-kernel.ts'

const mostNamed = 4

/** `withoutIpv6`: links with IPv6 off. */
export function judgeState(state: StateFacts | undefined, withoutIpv6: readonly string[]): readonly Finding[] {
  if (state === undefined) return []
  return [
    ...differences(state, withoutIpv6),
    ...ofPods(state),
    ...orphansAndPending(state),
    ...ports(state),
    ...mtus(state),
  ].map(findingOf)
}

/** The finding for a difference; forwarding is in judge-kernel.ts. */
function checkOf({ kind, dev, found }: Difference, bridges: ReadonlySet<string>): Found['id'] | undefined {
  if (kind === 'forwarding') return undefined
  if (kind.startsWith('element.') || kind.startsWith('table.')) return 'rules-missing'
  if (kind.startsWith('bucket.') || kind.startsWith('redirect.') || kind === 'ifb.add') return 'limit-missing'
  if (kind === 'sysctl.set') return 'setting-differs'
  // A missing link is reported by the operation that makes it.
  if (kind === 'alias') return found.includes(`${dev} is missing`) ? undefined : 'alias-missing'
  if (kind === 'route.add') return 'route-missing'
  return bridges.has(dev) || kind === 'bridge.add' ? 'bridge-differs' : 'port-differs'
}

/** One finding a diagnosis: a flush, or a missing bridge, is one cause of many differences. */
function differences({ differences: found, accepts, lacks }: StateFacts, without: readonly string[]): readonly Found[] {
  // With IPv6 off the addresses are missing: the kernel findings report that.
  const isReported = ({ kind, dev, found: texts }: Difference) =>
    kind.startsWith('address.') && without.includes(dev) && texts.every((text) => /^[\da-f]*:/.test(text))
  const all = found.filter((each) => !isReported(each))
  const bridges = new Set(
    all
      .filter(({ kind, dev }) => kind === 'bridge.add' || (kind.startsWith('address.') && !isPodLinkName(dev)))
      .map(({ dev }) => dev),
  )
  const gone = new Set(all.filter(({ kind }) => kind === 'bridge.add').map(({ dev }) => dev))
  // A missing bridge explains its ports, settings and routes.
  const portsOfGone = new Set(all.filter(({ master }) => gone.has(master ?? '')).map(({ dev }) => dev))
  const isOfGone = (each: Difference) => checkOf(each, bridges) === 'port-differs' && portsOfGone.has(each.dev)
  const byCheck = Map.groupBy(
    all.filter((each) => !isOfGone(each)),
    (each) => checkOf(each, bridges),
  )
  if (gone.size > 0) byCheck.delete('setting-differs')
  // A link that is down explains its missing routes.
  const devsOf = (id: Found['id']) => (byCheck.get(id) ?? []).map(({ dev }) => dev)
  if (devsOf('route-missing').every((dev) => devsOf('port-differs').includes(dev))) byCheck.delete('route-missing')
  const ofChecks = [...byCheck].flatMap(([id, those]): readonly Found[] => {
    if (id === undefined) return []
    const texts = [...new Set(those.flatMap((each) => each.found))]
    const devs = [...new Set(those.map(({ dev }) => dev).filter((dev) => dev !== ''))]
    // A sysctl has no link: its text names the key.
    const on = id === 'rules-missing' ? 'nftables' : devs.length === 0 ? 'this node' : few(devs)
    return [{ id, on, message: few(texts) }]
  })
  return [
    ...ofChecks,
    ...(lacks.length > 0 ? [{ id: 'state-lacks', on: 'this node', message: few(lacks) } as const] : []),
    ...(accepts.length > 0 ? [{ id: 'accept-missing', on: 'another firewall', message: few(accepts) } as const] : []),
  ]
}

function ofPods({ lost, pods, partial, pendingCleanups }: StateFacts): readonly Found[] {
  const isLost = ({ pod }: PodName) => lost.some((other) => other.pod === pod)
  const taken = pods.filter((each) => !isLost(each) && each.isTaken)
  return [
    ...lost.map((name): Found => {
      return { id: 'interface-lost', on: name.pod, message: 'its interface is gone', ...anew(name) }
    }),
    // A missing host link explains differences inside the pod.
    ...pods
      .filter((each) => !isLost(each) && !each.isTaken)
      .map((each): Found => ({ id: 'pod-differs', on: each.pod, message: few(each.found), ...anew(each) })),
    ...(taken.length > 0
      ? [{ id: 'addresses-inside', on: 'sandboxes', message: few(taken.map(({ pod }) => pod)) } as const]
      : []),
    ...(partial.length > 0 ? [{ id: 'record-partial', on: 'pods', message: few(partial) } as const] : []),
    ...pendingCleanups.map((record): Found => {
      return { id: 'pending-cleanup', on: describeHolder(record), message: few(record.pendingCleanup ?? []) }
    }),
  ]
}

/** kubelet replaces a stopped sandbox, and the pod stays. */
function anew({ sandbox }: PodName): Pick<Found, 'run'> {
  return sandbox === undefined ? {} : { run: `crictl stopp ${shellWord(sandbox)}` }
}

function orphansAndPending({ garbage, damaged, pendingCleanups }: StateFacts): readonly Found[] {
  const pending = new Set(pendingCleanups.map(({ key }) => key.containerId.slice(0, 13)))
  const textsOf = (part: string) =>
    garbage
      .filter((each) => each.part === part && each.verdict === 'collect')
      .filter(({ text }) => part !== 'attachments' || ![...pending].some((id) => text.includes(id)))
      .map(({ text, why }) => `${text}: ${why}`)
  const [dead, lost] = [textsOf('attachments'), textsOf('reservations')]
  const unsure = garbage.filter(({ verdict }) => verdict === 'report').map(({ text, why }) => `${text}: ${why}`)
  const some = (id: Found['id'], on: string, texts: readonly string[]): readonly Found[] =>
    texts.length === 0 ? [] : [{ id, on, message: few(texts) }]
  return [
    ...some('dead-attachments', counted(dead.length, 'attachment'), dead),
    ...some('reservations-leaked', counted(lost.length, 'reservation'), lost),
    ...some('orphans', 'the kernel', textsOf('orphans')),
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

function mtus({ mtus: all, uplinkMtu }: StateFacts): readonly Found[] {
  const larger = all.filter(({ mtu }) => uplinkMtu !== undefined && mtu > uplinkMtu)
  if (larger.length === 0) return []
  const most = Math.max(...larger.map(({ mtu }) => mtu))
  const message = `pods have an MTU of up to ${most} bytes, the way out one of ${uplinkMtu}`
  return [{ id: 'mtu-larger', on: few(larger.map(({ pod }) => pod)), message }]
}

/** The first texts, and the number of the rest. */
export function few(texts: readonly string[]): string {
  const more = texts.length - mostNamed
  return [...texts.slice(0, mostNamed), ...(more > 0 ? [`and ${more} more`] : [])].join('; ')
}
