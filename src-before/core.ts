// SPDX-License-Identifier: Apache-2.0
// Everything that the commands and the agent of before ask the core for: records and networks in the shape that they
// know, and what they let it do. It goes with the last of them.

import { isDeepStrictEqual } from 'node:util'
import { CniError as CoreError } from '../src/cni/errors.ts'
import type { Result } from '../src/cni/results.ts'
import { attached } from '../src/commands/uninstall-command.ts'
import { readConfig } from '../src/config/read-config.ts'
import { opsOf } from '../src/drivers/attachment.ts'
import { driverOf, makesInterface } from '../src/drivers/drivers.ts'
import { readAlias } from '../src/drivers/names.ts'
import { readAcceptPlaces } from '../src/features/host-accept.ts'
import type { Cluster } from '../src/features/network-elements.ts'
import { readCluster as readClusterText } from '../src/features/network-elements.ts'
import { capacity, countedAddresses, describeSet } from '../src/ipam/choose.ts'
import { lookAtHost } from '../src/kernel/look.ts'
import { closeNetns, openNetnsIfThere } from '../src/kernel/netns.ts'
import { acceptMark, acceptMarkText } from '../src/kernel/nft-table.ts'
import { podLinkNames } from '../src/kernel/proc.ts'
import type { WrapRun } from '../src/process/machine.ts'
import { readableText, writeText } from '../src/state/files.ts'
import { clusterFile, machineLockFile } from '../src/state/layout.ts'
import { withLock } from '../src/state/lock.ts'
import * as records from '../src/state/records.ts'
import { addressHolder, reservedAddresses } from '../src/state/reservations.ts'
import { compareInPod } from '../src/verbs/check.ts'
import { openContext, openRemovingContext } from '../src/verbs/context.ts'
import { decideNetwork } from '../src/verbs/decide-network.ts'
import { removeShared } from '../src/verbs/remove-network.ts'
import { restoreNetworks } from '../src/verbs/restore.ts'
import { status } from '../src/verbs/status.ts'
import { planUninstall, uninstall } from '../src/verbs/uninstall.ts'
import { orElse } from './cni/error.ts'
import type { NetworkSpec } from './model/attachment.ts'
import type { AttachmentRecord } from './model/record.ts'
import { onHost } from './system/process/programs.ts'

export { type Judged, judgeAll, type Listed, type SweepRequest, sweep } from '../src/commands/gc-command.ts'
export { acceptMark, acceptMarkText, capacity, countedAddresses, describeSet, readAcceptPlaces, reservedAddresses }

/** A context for looks and removals, without a signal that ends it. */
export const contextOfCore = () => openRemovingContext({ wrap: onMachine })

/** In the agent's container nft is the machine's own: another version may misread its tables. */
const onMachine: WrapRun = (run) => (process) => run({ ...process, ...onHost(process) })

interface StoredRecord {
  readonly isPending: boolean
  readonly record: AttachmentRecord
}

export function allRecords(): readonly StoredRecord[] {
  return records.allRecords().map((record) => ({
    isPending: records.findFinished(record.id) === undefined,
    record: asBefore(record),
  }))
}

/** Finds the first record of which `isMeant` is true. */
export function someRecord(isMeant: (stored: StoredRecord) => boolean): boolean {
  return allRecords().some(isMeant)
}

function asBefore({ id, spec, left, delegated, ...rest }: records.AttachmentRecord): AttachmentRecord {
  const { network, addresses = [], pod, host } = spec ?? {}
  const old = spec && { ...spec, key: id, ips: addresses, mtu: pod?.mtu ?? host?.mtu ?? 0 }
  return {
    ...rest,
    key: id,
    ...(old ? { spec: old } : {}),
    ...(network ? { network: networkBefore(network) } : {}),
    ...(left ? { pendingCleanup: left } : {}),
    ...(delegated ? { delegatedIpam: delegated.type } : {}),
  } as unknown as AttachmentRecord
}

export function allNetworks(): readonly NetworkSpec[] {
  return records.knownNetworks().map(networkBefore)
}

function networkBefore({ bridge, masquerade, ...network }: NonNullable<ReturnType<typeof records.readNetwork>>) {
  return {
    ...network,
    ...(bridge ? { bridge: { ...bridge, gateway: bridge.vlanGateway } } : {}),
    ...(masquerade ? { masquerade: { ...masquerade, subnets: masquerade.sources } } : {}),
  } as unknown as NetworkSpec
}

/** The record of before, found again by its key. */
function recordOf({ key }: Pick<AttachmentRecord, 'key'>): records.AttachmentRecord | undefined {
  return records.findRecord(key)
}

export function describe(record: Pick<AttachmentRecord, 'key'>): string {
  const found = recordOf(record)
  return found === undefined
    ? `${record.key.ifName} of container ${record.key.containerId}`
    : records.describeRecord(found)
}

export function isDead(record: Pick<AttachmentRecord, 'key'>): boolean {
  const found = recordOf(record)
  return found !== undefined && records.isDead(found)
}

/** Whether an address of the network is held for a pod that is gone. */
export function isLeaked(network: string, address: string): boolean {
  const holder = addressHolder(network, address)
  return holder !== undefined && records.isDead(records.findRecord(holder.id) ?? holder)
}

/** What differs inside a pod. `result`: of libcni's cache. Throws where the pod cannot be entered. */
export async function differencesInPod(record: AttachmentRecord, result: unknown) {
  const found = recordOf(record)
  const netns = openNetnsIfThere(record.netns.path)
  try {
    if (found?.spec === undefined || netns === undefined) return { found: [], pod: undefined }
    return await compareInPod(found.spec, result as Result | undefined, netns, contextOfCore().machine)
  } finally {
    closeNetns(netns)
  }
}

/** The rules of a pod, in words. */
export function rulesOf(record: AttachmentRecord): readonly string[] {
  const spec = recordOf(record)?.spec
  const ops = spec === undefined ? [] : opsOf(spec)
  return ops.flatMap((op) =>
    op.kind === 'element.add'
      ? [`${op.element.set}: ${op.element.key.join(' ')}${op.element.value ? ` -> ${op.element.value.join(' ')}` : ''}`]
      : [],
  )
}

/** The host's parts that differ; `isApplied`: and makes them again. */
export async function restore(isApplied: boolean) {
  return await restoreNetworks(contextOfCore(), !isApplied)
}

interface Links {
  readonly links: ReadonlyMap<
    string,
    { readonly name: string; readonly kind?: string; readonly alias?: string | undefined }
  >
}

/** Whether a host link has the alias of an attachment. */
export function isOwnLink(name: string, alias: string | undefined): boolean {
  return readAlias(name, alias) !== undefined
}

/** Attachments whose record was lost, by the aliases of host links. `trestle restore` writes these again. */
export function lostRecords({ links }: Links): readonly string[] {
  return [...links.values()].flatMap(({ name, kind, alias }) => {
    const id = kind === 'veth' ? readAlias(name, alias)?.id : undefined
    return id === undefined || records.findRecord(id) !== undefined
      ? []
      : [`the record of ${records.describeRecord({ id } as records.AttachmentRecord)} of network ${id.network}`]
  })
}

/** Attachments of a network that have a link on the host and no record: GC judges them, too. */
export async function unrecorded(network: string) {
  const names = podLinkNames()
  if (names.length === 0) return []
  const { links } = await lookAtHost(contextOfCore().machine, names)
  const ids = [...links.values()].flatMap(({ name, alias }) => readAlias(name, alias)?.id ?? [])
  const lost = ids.filter((id) => id.network === network && records.findRecord(id) === undefined)
  return lost.map((id) => ({ ...id, netns: '' }))
}

/** Live attachments that were found again by alias and comments: their namespace is not known. */
export function partialRecords(): readonly string[] {
  const partial = records.allRecords().filter((record) => record.netns.path === '' && !records.isDead(record))
  return partial.filter(({ spec }) => spec !== undefined).map(records.describeRecord)
}

/** STATUS of a configuration: what keeps it from being ready. */
export async function readinessOf(stdin: string, path: readonly string[]) {
  const args = { ip: [], gateway: [], problems: [] }
  const call = { verb: 'STATUS', containerId: '', netns: '', ifName: '', args, path, ownTypes: ['trestle'] } as const
  try {
    await status(call, readConfig(stdin, call), openContext({ path }))
    return undefined
  } catch (error) {
    if (!(error instanceof CoreError)) throw error
    return { id: error.id, message: error.message, details: error.details ?? '' }
  }
}

/** Why the next ADD of a configuration is refused: its network has pods, and would change under them. */
export function changeRefused(stdin: string): { readonly message: string; readonly details: string } | undefined {
  const args = { ip: [], gateway: [], problems: [] }
  const call = { verb: 'ADD', containerId: '', netns: '', ifName: '', args, path: [], ownTypes: ['trestle'] } as const
  const conf = readConfig(stdin, call)
  if (!makesInterface(conf)) return undefined
  const wanted = driverOf(conf).networkOf(conf, [], { mtu: 1500, machineId: '' })
  const live = records.recordsOf(wanted.name).filter((record) => !records.isDead(record))
  const specs = live.flatMap(({ spec }) => spec ?? [])
  const nothing = { others: [], host: { links: new Map(), routes: [] }, machineId: '' }
  try {
    decideNetwork(wanted, { ...nothing, before: records.readNetwork(wanted), live: specs })
  } catch (error) {
    if (!(error instanceof CoreError)) throw error
    if (error.id === 'network-changed') return { message: error.message, details: error.details ?? '' }
  }
  return undefined
}

// What the agent does.

export function readCluster(): Cluster | undefined {
  return readClusterText(readableText(clusterFile()) ?? '')
}

/** Writes the cluster's ranges down, and the rules again where they are others. */
export async function setCluster(cluster: Cluster): Promise<void> {
  if (isDeepStrictEqual(readCluster(), cluster)) return
  writeText(clusterFile(), JSON.stringify(cluster))
  await restoreNetworks(contextOfCore())
}

/** Removes what a network shares where it has no attachment. Returns the links that went. Throws what failed. */
export async function removeUnused(name: string): Promise<readonly string[]> {
  const context = contextOfCore()
  const lock = { file: machineLockFile(), purpose: `remove network ${name}`, deadline: context.deadline }
  return await withLock(lock, async () => {
    if (records.recordsOf(name).length > 0) return []
    const gone = records.knownNetworks().filter((network) => network.name === name)
    const errors = gone.length === 0 ? [] : await removeShared(gone, context.machine)
    if (errors.length > 0) throw new AggregateError(errors, errors.map(({ message }) => message).join('; '))
    return gone.flatMap(({ bridge }) => bridge?.name ?? [])
  })
}

/** Everything of trestle's own on this node. */
export async function uninstallAll(isApplied: boolean) {
  const plan = await planUninstall(contextOfCore())
  // A pod may have come since the plan was made.
  const live = await attached({ ...plan, records: records.allRecords() }, contextOfCore())
  const errors = isApplied && live.length === 0 ? await uninstall(plan, contextOfCore()) : []
  return { live, removes: plan.removes, stays: plan.stays, failures: errors.map(({ message }) => message) }
}

/** Bridges of networks; undefined while state is unreadable. */
export function ownBridges(): ReadonlySet<string> | undefined {
  return orElse(() => new Set(allNetworks().flatMap(({ bridge }) => bridge?.name ?? [])), undefined)
}
