// SPDX-License-Identifier: Apache-2.0
// What the upstream chain left of pods that are gone: reservations, rules and devices that speak of a
// container which no live namespace, no cache entry with one and no record of ours stands for.

import { bareAddress, includes, parseAddress, parseCidr } from '../../cni/model/address.ts'
import type { NetConf } from '../../cni/model/net-conf.ts'
import { acceptedAddresses, iptablesPods } from '../../plan/upstream/iptables-rules.ts'
import { cachedAddresses } from '../../plan/upstream/libcni-cache.ts'
import { nftPods } from '../../plan/upstream/nft-rules.ts'
import { type NamedPod, upstreamNames } from '../../plan/upstream/owner-names.ts'
import { upstreamLeases } from '../../system/ipam/upstream-leases.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import type { Run } from '../../system/process/runner.ts'
import { allRecords } from '../../system/store/records.ts'
import { forgetUpstream } from '../../system/upstream/attachment.ts'
import { removeUpstreamRules, type UpstreamRules } from '../../system/upstream/rules.ts'
import type { Progress } from '../shell/output.ts'
import { addressesInUse, type Found } from './look.ts'

/** What is left of one container. `containerId` empty: accepts of the firewall plugin for addresses that nobody has. */
export interface Leak {
  readonly network: string
  readonly containerId: string
  readonly ifName: string
  readonly addresses: readonly string[]
  /** Those of the firewall plugin's accepts that go with it. */
  readonly accepts: readonly string[]
  readonly what: readonly string[]
}

/** The network whose leaks are looked for. `subnets`: its ranges, as CIDRs. */
interface LeakSearch {
  readonly network: string
  readonly dataDir: string
  readonly subnets: readonly string[]
  readonly found: readonly Found[]
  readonly rules: UpstreamRules
  readonly progress: Progress
}

/** The ranges of a configuration. */
export function subnetsOf(conf: Pick<NetConf, 'ipam'>): readonly string[] {
  return conf.ipam.kind === 'pool' ? conf.ipam.rangeSets.flat().map(({ subnet }) => subnet) : []
}

/** Everything left in the network of pods that are gone. A pod whose addresses are in some namespace is not gone. */
export async function findLeaks(run: Run, search: LeakSearch): Promise<readonly Leak[]> {
  const { network, found, rules } = search
  const alive = new Set([
    ...found.filter(({ kind }) => kind !== 'gone').map(({ cached }) => cached.containerId),
    ...allRecords().map(({ record }) => record.key.containerId),
  ])
  const gone = found.filter(({ kind }) => kind === 'gone')
  const named = [
    ...rules.iptables.flatMap(({ saved }) => iptablesPods(saved)),
    ...rules.nft.flatMap((listed) => nftPods(listed, network)),
  ]
  const candidates = collect(
    search,
    named.filter((pod) => pod.network === network),
  ).filter(({ containerId }) => !alive.has(containerId))
  const orphan = orphanAccepts(search, alive)
  if (candidates.length === 0 && orphan.length === 0) return []
  const used = await addressesInUse(run, search.progress)
  const isUsed = (address: string) => used.has(address)
  const known = new Set(gone.map(({ cached }) => cached.containerId))
  const leaks = candidates.filter((leak) => known.has(leak.containerId) || !leak.addresses.some(isUsed))
  return withAccepts(
    network,
    leaks,
    orphan.filter((address) => !isUsed(address)),
  )
}

/** Clears them. Returns what failed; then the reservations stay, and a later run finds them again. */
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

/** One entry for each container and interface that a reservation or a rule speaks of. */
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

/** Each accept with the container that had its address; the others as an entry of their own. */
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

/** Addresses of the network that the firewall plugin's rules accept and no live container has. */
function orphanAccepts(
  { subnets, rules, found, network, dataDir }: LeakSearch,
  alive: ReadonlySet<string>,
): readonly string[] {
  const held = new Set([
    ...found.filter(({ kind }) => kind !== 'gone').flatMap(({ cached }) => cachedAddresses(cached)),
    ...allRecords().flatMap(({ record }) => (record.spec?.ips ?? []).map(({ address }) => bareAddress(address))),
    ...upstreamLeases(dataDir, network)
      .filter(({ containerId }) => alive.has(containerId))
      .map(({ address }) => address),
  ])
  const accepted = rules.iptables.flatMap(({ saved }) => acceptedAddresses(saved))
  return accepted.filter((address) => !held.has(address) && subnets.some((subnet) => isIn(address, subnet)))
}

function isIn(address: string, subnet: string): boolean {
  const cidr = parseCidr(subnet)
  const parsed = parseAddress(address)
  return cidr !== undefined && parsed !== undefined && cidr.family === parsed.family && includes(cidr, parsed)
}
