// SPDX-License-Identifier: Apache-2.0
// Takes live pods over. trestle's rules are in place before upstream's rules go, so a packet always meets one of both;
// an established connection keeps its translation (conntrack).

import { bareAddress } from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import { newRecord } from '../../commands/attach/intent.ts'
import type { CallContext } from '../../commands/call/context.ts'
import { afterRuleOps } from '../../drivers/attach.ts'
import { buildNetworkSpec, mergeNetworks, subnetSourceOf } from '../../drivers/specs.ts'
import type { NetworkSpec } from '../../model/attachment.ts'
import { aliasOf } from '../../model/names.ts'
import type { Op } from '../../model/op.ts'
import { describeHolder, sameKey } from '../../model/record.ts'
import type { UpstreamOwner } from '../../plan/upstream/upstream-rules.ts'
import { networkFiles, requireState } from '../../system/files/state.ts'
import { executeAll } from '../../system/kernel/execute.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { holderOf, releaseAddresses, reserveAddress } from '../../system/store/addresses.ts'
import { portTaken, releasePorts, reservePorts } from '../../system/store/ports.ts'
import { forget, pendingFile, readNetwork, writeAdopted, writeIntent } from '../../system/store/records.ts'
import { defaultDataDir } from '../../system/upstream/host-local-leases.ts'
import { removeUpstreamRules } from '../../system/upstream/remove-rules.ts'
import { tableText } from '../shell/table.ts'
import type { LivePod } from './look.ts'
import type { Adoption } from './network.ts'

/** A live pod with its future configuration and attachment. */
export interface Taking extends Adoption {
  readonly live: LivePod
}

/** Reserves a pod's addresses and ports and writes its record. Throws CniError when another pod has one of them. */
export async function recordPod(context: CallContext, taking: Taking, network: NetworkSpec): Promise<void> {
  requireState()
  const { spec, conf, live } = taking
  const files = networkFiles(conf.name)
  const intent = newRecord({ context, conf, key: spec.key }, live.netns)
  const record = {
    ...intent,
    askedBy: 'adoption' as const,
    adopted: { dataDir: conf.ipam.kind === 'pool' ? conf.ipam.dataDir : defaultDataDir },
  }
  if (!writeIntent(files, record)) throw new CniError('attachment-busy', 'another call is working on this attachment')
  try {
    reserveAddresses(taking)
    // Never takes a reservation from another pod: a person has to look first.
    const others = { settle: async () => false, reclaim: async () => {} }
    const ports = spec.hostPorts?.ports ?? []
    const own = await reservePorts({ intentFile: pendingFile(files, spec.key), key: spec.key, ...others }, ports)
    const shared = ports.find((port) => !own.includes(port))
    if (shared !== undefined) throw portTaken(shared, spec.key)
    writeAdopted(files, { ...record, spec, network })
  } catch (error) {
    await forgetPod(context, taking)
    throw error
  }
}

/** Removes a pod's record and reservations of trestle. The upstream chain's own stay. */
export async function forgetPod(context: CallContext, { spec, conf }: Taking): Promise<void> {
  const files = networkFiles(conf.name)
  const of = { key: spec.key, owner: context.identity }
  await releasePorts(of, undefined)
  await releaseAddresses(files, of, { cooldownS: 0 })
  forget(files, spec.key)
}

/**
 * The network with the bridge, rules and ranges that all these pods need together: with the capability ipRanges each
 * pod has ranges of its own.
 */
export function networkOf(takings: readonly Taking[]): NetworkSpec | undefined {
  const [first] = takings
  if (first === undefined) return undefined
  const files = networkFiles(first.conf.name)
  return takings.reduce<NetworkSpec | undefined>((known, { conf, spec }, at) => {
    const now = buildNetworkSpec(conf, spec.ips, { mtu: spec.mtu, machineId: machineId() })
    const source = subnetSourceOf(conf)
    return mergeNetworks(known, now, at > 0 && source === 'configured' ? 'leases' : source)
  }, readNetwork(files))
}

/** Marks links, and removes upstream's masquerade and port rules: trestle's are in place. Returns the failures. */
export async function serve(context: CallContext, takings: readonly Taking[]): Promise<readonly Error[]> {
  const failures = await executeAll({ run: context.run }, takings.flatMap(markOps))
  return [...failures, ...(await removeUpstreamRules(context.run, takings.map(ownerOf)))]
}

/** The firewall plugin's accepts stay until the pod's DEL, since under a DROP policy the pod may depend on them. */
export function ownerOf({ spec }: Pick<Taking, 'spec'>): UpstreamOwner {
  const addresses = spec.ips.map(({ address }) => bareAddress(address))
  return { ...spec.key, addresses, accepts: [] }
}

/** Sets the aliases that name the owner of each link, and the sysctl for host ports on 127.0.0.1. */
function markOps({ spec }: Taking): readonly Op[] {
  const { ifb, ifbAlias } = spec.bandwidth?.egress ?? {}
  return [...aliasOps(spec.host?.name, aliasOf(spec.key)), ...aliasOps(ifb, ifbAlias), ...afterRuleOps(spec)]
}

function aliasOps(dev: string | undefined, alias: string | undefined): readonly Op[] {
  if (dev === undefined || alias === undefined) return []
  return [{ in: 'host', kind: 'link.alias', dev, alias, noLinkLocal: false, why: `mark ${dev} as ours` }]
}

function reserveAddresses({ spec, conf }: Taking): void {
  if (!spec.isPool) return
  const files = networkFiles(conf.name)
  for (const { address } of spec.ips) {
    const bare = bareAddress(address)
    if (reserveAddress(files, pendingFile(files, spec.key), bare)) continue
    const holder = holderOf(files, bare)
    if (holder !== undefined && sameKey(holder.key, spec.key)) continue
    const whose = holder === undefined ? 'another pod' : describeHolder(holder)
    throw new CniError('address-reserved', `${bare} is reserved by ${whose}`)
  }
}

// A line of `trestle adopt`, and the table of all lines.

/**
 * `ours`: the pod has a record. `gone`: the pod's namespace is gone. `leak`: a leak of a dead pod. `cannot`: the pod
 * stays with upstream, for the reason in `detail`.
 */
type EntryStatus = 'ours' | 'adopt' | 'adopted' | 'cannot' | 'gone' | 'leak' | 'cleared'

export interface Entry {
  readonly network: string
  readonly status: EntryStatus
  readonly containerId: string
  readonly ifName: string
  readonly addresses: readonly string[]
  readonly netns?: string
  readonly hostLink?: string
  readonly detail?: string
}

const words: Readonly<Record<EntryStatus, string>> = {
  ours: 'recorded',
  adopt: 'to adopt',
  adopted: 'adopted',
  cannot: 'CANNOT',
  gone: 'gone',
  leak: 'to clear',
  cleared: 'cleared',
}

export function entryTable(entries: readonly Entry[]): string {
  const heading = ['STATUS', 'NETWORK', 'CONTAINER', 'IFNAME', 'ADDRESSES', 'HOST LINK', 'DETAIL']
  return tableText(heading, entries.map(cellsOf))
}

export function entryCounts(entries: readonly Entry[]): string {
  const counts = Map.groupBy(entries, ({ status }) => status)
  const parts = [...counts].map(([status, all]) => `${all.length} ${words[status].toLowerCase()}`)
  return parts.length === 0 ? 'nothing to adopt and nothing to clear\n' : `${parts.join(', ')}\n`
}

function cellsOf(entry: Entry): readonly string[] {
  const { status, network, containerId, ifName, addresses, hostLink = '', detail = '' } = entry
  return [words[status], network, containerId.slice(0, 20), ifName, addresses.join(','), hostLink, detail]
}
