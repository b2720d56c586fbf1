// SPDX-License-Identifier: Apache-2.0
// Leaks of the upstream chain: reservations, rules and devices that name a container without a live namespace, without
// a cache entry for one, and without a record of trestle.

import { statSync } from 'node:fs'
import { bareAddress, includes, parseAddress, parseCidr } from '../../cni/address.ts'
import type { NetConf } from '../../config/net-conf.ts'
import { cachedAddresses } from '../../plan/upstream/libcni-cache.ts'
import { type UpstreamOwner, upstreamNames } from '../../plan/upstream/upstream-rules.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import type { Run } from '../../system/process/runner.ts'
import { allRecords } from '../../system/store/records.ts'
import { upstreamLeases } from '../../system/upstream/host-local-leases.ts'
import { cachedAttachments } from '../../system/upstream/read-libcni-cache.ts'
import { removeUpstreamRules, type UpstreamRules } from '../../system/upstream/remove-rules.ts'
import { forgetUpstream } from '../../system/upstream/upstream-attachment.ts'
import type { Progress } from '../shell/output.ts'
import { addressesInUse, type Found } from './look.ts'
import { acceptedAddresses, iptablesPods, type NamedPod, nftPods } from './named-pods.ts'

/**
 * The leaks of one container. `containerId` empty: accepts of the firewall plugin for addresses without a container.
 */
export interface Leak extends UpstreamOwner {
  readonly what: readonly string[]
}

/** The search for leaks in one network. `subnets`: the network's ranges, as CIDRs. */
interface LeakSearch {
  readonly network: string
  readonly dataDir: string
  readonly subnets: readonly string[]
  readonly found: readonly Found[]
  readonly rules: UpstreamRules
  readonly progress: Progress
}

/** The ranges of a configuration, as CIDRs; none when another plugin gives addresses. */
export function subnetsOf(conf: Pick<NetConf, 'ipam'>): readonly string[] {
  return conf.ipam.kind === 'pool' ? conf.ipam.rangeSets.flat().map(({ subnet }) => subnet) : []
}

/**
 * The leaks of a network. `unlisted`: containers with reservations or rules that live, of which libcni's cache has no
 * entry. `failure`: not every namespace could be looked into, so nothing counts as a leak.
 */
interface Leaks {
  readonly leaks: readonly Leak[]
  readonly unlisted: readonly Leak[]
  readonly failure?: Error
}

const none: Leaks = { leaks: [], unlisted: [] }

/** host-local reserves an address before its pod has it, and libcni writes the entry of a pod last. */
const youngestMs = 5 * 60 * 1000

/** All leaks in the network. A pod counts as live while a namespace on this node has one of its addresses. */
export async function findLeaks(run: Run, search: LeakSearch): Promise<Leaks> {
  const { network, found, rules } = search
  const alive = new Set([
    ...found.filter(({ kind }) => kind !== 'gone').map(({ cached }) => cached.containerId),
    ...allRecords().map(({ record }) => record.key.containerId),
  ])
  const named = [
    ...rules.iptables.flatMap(({ saved }) => iptablesPods(saved)),
    ...rules.nft.flatMap((listed) => nftPods(listed, network)),
  ]
  const candidates = collect(
    search,
    named.filter((pod) => pod.network === network),
  ).filter(({ containerId }) => !alive.has(containerId))
  const orphan = orphanAccepts(search, alive)
  if (candidates.length === 0 && orphan.length === 0) return none
  try {
    return judge(search, { candidates, orphan, used: await addressesInUse(run, search.progress) })
  } catch (error) {
    return { ...none, failure: error as Error }
  }
}

/** `used`: the addresses in the namespaces of this node. */
function judge(
  search: LeakSearch,
  { candidates, orphan, used }: { candidates: readonly Leak[]; orphan: readonly string[]; used: ReadonlySet<string> },
): Leaks {
  const { network, found } = search
  const gone = new Set(found.filter(({ kind }) => kind === 'gone').map(({ cached }) => cached.containerId))
  const isGone = ({ containerId }: Leak) => gone.has(containerId)
  const hasNoAddress = ({ addresses }: Leak) => !addresses.some((address) => used.has(address))
  const leaks = candidates.filter((leak) => isGone(leak) || (hasNoAddress(leak) && !isYoung(search, leak)))
  const unused = orphan.filter((address) => !used.has(address))
  const listed = new Set(cachedAttachments(network).map(({ containerId }) => containerId))
  const held = heldAddresses(found)
  const lives = ({ addresses }: Leak) => addresses.some((address) => used.has(address) && !held.has(address))
  return {
    leaks: withAccepts(network, leaks, unused),
    unlisted: candidates.filter((leak) => !listed.has(leak.containerId) && lives(leak)),
  }
}

function isYoung({ dataDir, network }: LeakSearch, { addresses }: Leak): boolean {
  const since = Date.now() - youngestMs
  const madeMs = (address: string) => statSync(`${dataDir}/${network}/${address}`, { throwIfNoEntry: false })?.mtimeMs
  return addresses.some((address) => (madeMs(address) ?? 0) > since)
}

/**
 * Removes the leaks. Returns the failures; after one the reservations stay, so that a later run finds the leaks again.
 */
export async function clearLeaks(run: Run, leaks: readonly Leak[], dataDir: string): Promise<readonly Error[]> {
  const failures = await removeUpstreamRules(run, leaks)
  if (failures.length > 0) return failures
  for (const leak of leaks.filter(({ containerId }) => containerId !== '')) {
    const { ifb } = upstreamNames(leak)
    if (linkExists(ifb)) await run({ file: 'ip', args: ['link', 'del', 'dev', ifb] })
    forgetUpstream(leak, dataDir)
  }
  return []
}

/** One entry for each container and interface that a reservation, a rule or an ifb device names. */
function collect({ network, dataDir, found }: LeakSearch, named: readonly NamedPod[]): readonly Leak[] {
  const leaks = new Map<string, Leak>()
  const add = (pod: { containerId: string; ifName?: string }, what: string, addresses: readonly string[]) => {
    const cached = found.find(({ cached }) => cached.containerId === pod.containerId)?.cached
    const ifName = pod.ifName ?? cached?.ifName ?? 'eth0'
    const key = `${pod.containerId} ${ifName}`
    const old = leaks.get(key)
    const all = [...(old?.addresses ?? (cached === undefined ? [] : cachedAddresses(cached))), ...addresses]
    leaks.set(key, {
      network,
      containerId: pod.containerId,
      ifName,
      addresses: [...new Set(all)],
      accepts: [],
      what: [...new Set([...(old?.what ?? []), what])],
    })
  }
  for (const lease of upstreamLeases(dataDir, network)) add(lease, 'reservation', [lease.address])
  for (const pod of named) add(pod, 'rules', pod.address === undefined ? [] : [pod.address])
  for (const { kind, cached } of found) {
    if (kind === 'gone' && linkExists(upstreamNames(cached).ifb)) add(cached, 'ifb device', [])
  }
  return [...leaks.values()]
}

/** Adds each accept to the leak of the container that had its address; all other accepts become one more leak. */
function withAccepts(network: string, leaks: readonly Leak[], unused: readonly string[]): readonly Leak[] {
  const what = 'accepts of the firewall plugin'
  const found = leaks.map((leak): Leak => {
    const accepts = unused.filter((address) => leak.addresses.includes(address))
    return accepts.length === 0 ? leak : { ...leak, accepts, what: [...leak.what, what] }
  })
  const others = unused.filter((address) => !leaks.some(({ addresses }) => addresses.includes(address)))
  if (others.length === 0) return found
  return [...found, { network, containerId: '', ifName: '', addresses: others, accepts: others, what: [what] }]
}

/** The addresses of pods that libcni's cache or a record names. */
function heldAddresses(found: readonly Found[]): ReadonlySet<string> {
  return new Set([
    ...found.filter(({ kind }) => kind !== 'gone').flatMap(({ cached }) => cachedAddresses(cached)),
    ...allRecords().flatMap(({ record }) => (record.spec?.ips ?? []).map(({ address }) => bareAddress(address))),
  ])
}

/** Addresses of the network that the firewall plugin's rules accept and that no live container has. */
function orphanAccepts(
  { subnets, rules, found, network, dataDir }: LeakSearch,
  alive: ReadonlySet<string>,
): readonly string[] {
  const held = new Set([
    ...heldAddresses(found),
    ...upstreamLeases(dataDir, network)
      .filter(({ containerId }) => alive.has(containerId))
      .map(({ address }) => address),
  ])
  const accepted = rules.iptables.flatMap(({ saved }) => acceptedAddresses(saved))
  const ranges = subnets.flatMap((subnet) => parseCidr(subnet) ?? [])
  return accepted.filter((address) => {
    const parsed = held.has(address) ? undefined : parseAddress(address)
    return parsed !== undefined && ranges.some((range) => includes(range, parsed))
  })
}
