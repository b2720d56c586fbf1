// SPDX-License-Identifier: Apache-2.0
// The adoption of one network: look, plan, and carry out the plan.

import { includes, parseAddress, parseCidr } from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import { readInvocation } from '../../cni/invocation.ts'
import { setUpNetwork } from '../../commands/attach/shared-port.ts'
import type { CallContext } from '../../commands/call/context.ts'
import { settleKilledCalls } from '../../commands/teardown/attachments.ts'
import { readConfig } from '../../config/config.ts'
import type { InterfaceNetConf } from '../../config/net-conf.ts'
import { driverOf } from '../../drivers/drivers.ts'
import { buildSpec } from '../../drivers/specs.ts'
import { hostPortSpec } from '../../features/host-ports.ts'
import type { AttachmentSpec, BandwidthSpec } from '../../model/attachment.ts'
import type { ObservedLink } from '../../model/observed.ts'
import { confOfAdd, leaseOf } from '../../plan/recovery/from-cache.ts'
import { cachedAddresses } from '../../plan/upstream/libcni-cache.ts'
import { iptablesRemovals, nftRemovals, upstreamNames } from '../../plan/upstream/upstream-rules.ts'
import { networkFiles } from '../../system/files/state.ts'
import { defaultDataDir } from '../../system/upstream/host-local-leases.ts'
import { readUpstreamRules, type UpstreamRules } from '../../system/upstream/remove-rules.ts'
import { requestConf } from '../node/list.ts'
import type { Target } from './adopt.ts'
import { clearLeaks, findLeaks, type Leak, subnetsOf } from './leaks.ts'
import { type Found, keyOf, type LivePod, type Looking, lookAtNetwork } from './look.ts'
import { type Entry, forgetPod, networkOf, ownerOf, recordPod, serve, type Taking } from './take.ts'

interface NetworkPlan {
  readonly target: Target
  readonly dataDir: string
  readonly takings: readonly Taking[]
  /** Pods with a record that still have rules of the upstream chain, because an earlier run was killed. */
  readonly unfinished: readonly Taking[]
  readonly leaks: readonly Leak[]
  readonly entries: readonly Entry[]
}

export async function planNetwork(context: CallContext, target: Target, looking: Looking): Promise<NetworkPlan> {
  const network = target.list.name
  const rules = await readUpstreamRules(context.run)
  const [unseen] = rules.unseen
  if (unseen !== undefined)
    throw new CniError('firewalls-not-seen', `cannot look for rules of the upstream plugins: ${unseen}`)
  const found = await lookAtNetwork(context.run, network, looking)
  const { dataDir, subnets } = ipamOf(target)
  const { links, progress } = looking
  const sorted = found.map((each) => sort(each, { target, links, rules }))
  const { leaks, unlisted, failure } = await findLeaks(context.run, {
    network,
    dataDir,
    subnets,
    found,
    rules,
    progress,
  })
  return {
    target,
    dataDir,
    takings: sorted.flatMap(({ taking, isRecorded }) => (taking !== undefined && !isRecorded ? [taking] : [])),
    unfinished: sorted.flatMap(({ taking, isRecorded }) => (taking !== undefined && isRecorded ? [taking] : [])),
    leaks,
    entries: [
      ...sorted.flatMap(({ entry }) => (entry.status === 'gone' ? [] : [entry])),
      ...leaks.map(leakEntry),
      ...unlisted.map((pod): Entry => ({ ...leakEntry(pod), status: 'cannot', detail: "no entry in libcni's cache" })),
      ...(failure === undefined ? [] : [networkEntry(network, `no look for leaks: ${failure.message}`)]),
    ],
  }
}

/** An entry about no container: what cannot be done for the network. */
export function networkEntry(network: string, detail: string): Entry {
  return { network, status: 'cannot', containerId: '', ifName: '', addresses: [], detail }
}

/** Carries out the plan. Returns its lines with their results. */
export async function applyNetwork(
  context: CallContext,
  plan: NetworkPlan,
  looking: Looking,
): Promise<readonly Entry[]> {
  const entries = new Map(plan.entries.map((entry) => [keyText(entry), entry]))
  const settle: Settle = (entry, failure, success) => {
    const old = entries.get(keyText(entry))
    if (old === undefined) return
    const outcome = failure ? { status: 'cannot' as const, detail: failure.message } : { status: success }
    entries.set(keyText(entry), { ...old, ...outcome })
  }
  await settleKilledCalls(context, networkFiles(plan.target.list.name))
  await takeOver(context, plan, settle)
  const leaks = await stillLeaks(context, plan, looking)
  const [failure] = await clearLeaks(context.run, leaks, plan.dataDir)
  for (const leak of leaks) settle(leakEntry(leak), failure, 'cleared')
  return [...entries.values()]
}

/** The leaks of the plan that are leaks still: an address may have gone to a pod since. */
async function stillLeaks(context: CallContext, { target, leaks }: NetworkPlan, looking: Looking) {
  if (leaks.length === 0) return []
  const planned = new Set(leaks.map(keyText))
  const again = await planNetwork(context, target, looking)
  return again.leaks.filter((leak) => planned.has(keyText(leak)))
}

/** Records the result of an entry: the failure, or the status `success`. */
type Settle = (entry: Entry, failure: Error | undefined, success: Entry['status']) => void

async function takeOver(context: CallContext, plan: NetworkPlan, settle: Settle): Promise<void> {
  const network = networkOf([...plan.takings, ...plan.unfinished])
  if (network === undefined) return
  const settlePod = ({ live }: Taking, failure?: Error) => settle(podEntry(live.cached, 'adopt'), failure, 'adopted')
  const recorded: Taking[] = []
  for (const taking of plan.takings) {
    try {
      await recordPod(context, taking, network)
      recorded.push(taking)
    } catch (error) {
      settlePod(taking, error as Error)
    }
  }
  const served = [...plan.unfinished, ...recorded]
  if (served.length === 0) return
  try {
    await setUpNetwork(context, { files: networkFiles(network.name), network })
  } catch (error) {
    for (const taking of recorded) await forgetPod(context, taking)
    for (const taking of served) settlePod(taking, error as Error)
    return
  }
  const [failure] = await serve(context, served)
  for (const taking of served) settlePod(taking, failure)
}

interface Sorted {
  readonly entry: Entry
  readonly taking?: Taking
  readonly isRecorded?: true
}

function sort(
  found: Found,
  at: { target: Target; links: ReadonlyMap<string, ObservedLink>; rules: UpstreamRules },
): Sorted {
  const { cached } = found
  switch (found.kind) {
    case 'gone':
      return { entry: podEntry(cached, 'gone') }
    case 'unclear':
      return { entry: { ...podEntry(cached, 'cannot'), detail: found.why } }
    case 'ours':
      return sortOurs(found, at)
    case 'live':
      return sortLive(found.live, at)
    default:
      return found satisfies never
  }
}

function sortLive(
  live: LivePod,
  { target, links }: { target: Target; links: ReadonlyMap<string, ObservedLink> },
): Sorted {
  const entry = { ...podEntry(live.cached, 'adopt'), hostLink: live.host.name }
  try {
    return { entry, taking: { live, ...adoptionOf(target, live, links) } }
  } catch (error) {
    return { entry: { ...entry, status: 'cannot', detail: (error as Error).message } }
  }
}

/**
 * The line of a pod with a record. Rules of the upstream chain that still name the pod make its adoption unfinished.
 */
function sortOurs(
  { cached, record }: Extract<Found, { kind: 'ours' }>,
  { target, links, rules }: { target: Target; links: ReadonlyMap<string, ObservedLink>; rules: UpstreamRules },
): Sorted {
  const entry = { ...podEntry(cached, 'ours'), hostLink: record.spec?.host?.name ?? '' }
  const host = links.get(entry.hostLink)
  const { spec } = record
  if (record.adopted === undefined || spec?.pod === undefined || host === undefined) return { entry }
  if (!hasRules(rules, ownerOf({ spec }))) return { entry }
  const pod = { ...host, name: spec.pod.name, mac: spec.pod.mac, mtu: spec.pod.mtu ?? host.mtu }
  const live = { cached, netns: record.netns, host, pod }
  try {
    const { conf } = adoptionOf(target, live, links)
    const left: Entry = { ...entry, status: 'adopt', detail: 'has a record; rules of the upstream plugins remain' }
    return { entry: left, taking: { live, conf, spec }, isRecorded: true }
  } catch {
    return { entry }
  }
}

function hasRules(rules: UpstreamRules, owner: ReturnType<typeof ownerOf>): boolean {
  return (
    rules.iptables.some(({ saved }) => iptablesRemovals(saved, [owner]) !== '') ||
    rules.nft.some((listed) => Object.values(nftRemovals(listed, [owner])).some((found) => found.length > 0))
  )
}

/** The directory of host-local's reservations and its ranges, by the configuration without a runtime's additions. */
function ipamOf({ list, plugin }: Target): { dataDir: string; subnets: readonly string[] } {
  try {
    const env = { CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'x', CNI_NETNS: '/run/netns/x', CNI_IFNAME: 'eth0' }
    const conf = readConfig(JSON.stringify(requestConf(list, plugin, {})), readInvocation(env))
    return { dataDir: conf.ipam.kind === 'pool' ? conf.ipam.dataDir : defaultDataDir, subnets: subnetsOf(conf) }
  } catch {
    // Only the runtime knows the ranges (capability ipRanges).
    return { dataDir: defaultDataDir, subnets: [] }
  }
}

function podEntry(cached: Found['cached'], status: Entry['status']): Entry {
  const { network, containerId, ifName, netns } = cached
  return { network, status, containerId, ifName, addresses: cachedAddresses(cached), netns }
}

function leakEntry({ network, containerId, ifName, addresses, what }: Leak): Entry {
  return { network, status: 'leak', containerId, ifName, addresses, detail: what.join(', ') }
}

function keyText({ containerId, ifName, addresses }: Pick<Entry, 'containerId' | 'ifName' | 'addresses'>): string {
  return containerId === '' ? addresses.join(' ') : `${containerId} ${ifName}`
}

// The attachment of an upstream pod as trestle's ADD would have made it, with the pod's real names and MACs. Pure.

/** The configuration of an adopted pod, as ADD would have read it, and the attachment of that configuration. */
export interface Adoption {
  readonly conf: InterfaceNetConf
  readonly spec: AttachmentSpec
}

/**
 * The attachment of a live pod under the network's configuration. Throws CniError when the configuration is invalid,
 * has another mode, other ranges than the pod's address, or another bridge.
 */
function adoptionOf(target: Target, live: LivePod, links: ReadonlyMap<string, ObservedLink>): Adoption {
  const { cached, host, pod } = live
  const conf = confOf(target, live)
  requireInRanges(conf, cachedAddresses(cached))
  const key = keyOf(cached)
  const made = buildSpec({ key, conf, lease: leaseOf(cached), mtu: host.mtu })
  requireSameBridge(made, host)
  const { bandwidth: shaped, ...rest } = made
  const link = driverOf(made).isRouted ? host.name : (made.hostPorts?.link ?? '')
  const hostPorts = hostPortSpec(conf, made.ips, link)
  const bandwidth = shaped && bandwidthOf(shaped, { live, links })
  return {
    conf,
    spec: {
      ...rest,
      host: { name: host.name, mac: host.mac },
      pod: { name: pod.name, mac: pod.mac, ...(pod.mtu === host.mtu ? {} : { mtu: pod.mtu }) },
      ...(made.port?.onlyMac === undefined ? {} : { port: { ...made.port, onlyMac: pod.mac } }),
      ...(hostPorts === undefined ? {} : { hostPorts }),
      ...(bandwidth === undefined ? {} : { bandwidth }),
    },
  }
}

/** The configuration that ADD would read, with the runtime's additions from the time of the pod's ADD. */
function confOf({ list, plugin, isChained }: Target, { cached }: LivePod): InterfaceNetConf {
  if (isChained) throw notAdopted('chained')
  const conf = confOfAdd(requestConf(list, plugin, { capabilityArgs: cached.capabilityArgs }), cached)
  if ('isGateway' in conf) return conf
  throw notAdopted(String(conf.mode))
}

function notAdopted(mode: string): CniError {
  return new CniError('mode-not-adopted', `the mode "${mode}" of the configuration makes no interface`)
}

/** The network's gateways, masquerade and accepts are by its ranges: a pod of another range would have none of them. */
function requireInRanges(conf: InterfaceNetConf, addresses: readonly string[]): void {
  if (conf.ipam.kind !== 'pool') return
  const subnets = subnetsOf(conf)
  const ranges = subnets.flatMap((subnet) => parseCidr(subnet) ?? [])
  const isOutside = (text: string) => {
    const address = parseAddress(text)
    return address === undefined || !ranges.some((range) => includes(range, address))
  }
  const outside = addresses.find(isOutside)
  if (outside === undefined) return
  const message = `${outside} is in no range of the configuration (${subnets.join(', ')})`
  throw new CniError('requested-outside-ranges', message)
}

function requireSameBridge(made: AttachmentSpec, host: ObservedLink): void {
  const wanted = made.port?.bridge
  if (wanted === host.master) return
  const where = host.master === undefined ? 'on no bridge' : `on the bridge ${host.master}`
  const asked = wanted === undefined ? 'no bridge' : wanted
  throw new CniError('bridge-not-configured', `${host.name} is ${where}, and the configuration says ${asked}`)
}

/**
 * The limits that the pod has now: without upstream's ifb device no egress limit is recorded, or CHECK would miss it.
 */
function bandwidthOf(
  made: BandwidthSpec,
  { live, links }: { live: LivePod; links: ReadonlyMap<string, ObservedLink> },
): BandwidthSpec | undefined {
  const ifb = links.get(upstreamNames(keyOf(live.cached)).ifb)
  const { egress, ...rest } = made
  const shaped = egress === undefined || ifb === undefined ? undefined : { ...egress, ifb: ifb.name, ifbMac: ifb.mac }
  if (rest.ingress === undefined && shaped === undefined) return undefined
  return { ...rest, link: live.host.name, ...(shaped === undefined ? {} : { egress: shaped }) }
}
