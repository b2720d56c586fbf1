// SPDX-License-Identifier: Apache-2.0
// Collects what no pod has: judges, and removes what is garbage. `trestle gc` does so with attachments of dead pods, an
// ADD that needs them with reservations, GC and `trestle gc` with links and elements of ours in the kernel. What may be
// in use is left alone, and told.

import { lstatSync, realpathSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { bareAddress, includes, parseAddress, parseCidr } from '../../cni/address.ts'
import { CniError, orElse, toCniError } from '../../cni/error.ts'
import type { NetConf } from '../../config/net-conf.ts'
import type { AttachmentKey } from '../../model/attachment.ts'
import { networkDirName } from '../../model/names.ts'
import type { ObservedLink } from '../../model/observed.ts'
import { elementOps } from '../../model/op.ts'
import { type AttachmentRecord, sameKey } from '../../model/record.ts'
import { isGlobal, orphanElements } from '../../plan/recovery/from-kernel.ts'
import {
  type AttachmentFacts,
  type AttachmentVerdict,
  isLinkOfPod,
  judgeAttachment,
  judgeOrphan,
  judgeReservation,
  type Orphan,
  type OrphanVerdict,
  orphansOf,
  type Reservation,
  type ReservationVerdict,
  recordReservations,
  rediscoveredReservations,
  youngestMs,
} from '../../plan/recovery/verdicts.ts'
import { cachedAddresses, isMainOurs, isPartOurs } from '../../plan/upstream/libcni-cache.ts'
import { namesIn } from '../../system/files/files.ts'
import {
  chainedFiles,
  directoryNameOf,
  networkDirectories,
  networkFiles,
  requireStateIfThere,
} from '../../system/files/state.ts'
import { executeAll } from '../../system/kernel/execute.ts'
import { hostStateOf } from '../../system/kernel/host-namespace.ts'
import { closeNetns, identityOfNetns, netnsPaths, netnsState, otherNamespaces } from '../../system/kernel/netns.ts'
import { observeHost, observePod, observeTables, routedAddresses } from '../../system/kernel/observe.ts'
import { endKilledCalls } from '../../system/process/call-processes.ts'
import { isOlder } from '../../system/process/process-identity.ts'
import { withLock } from '../../system/store/lock.ts'
import {
  allRecords,
  findRecords,
  knownNetwork,
  pendingRecords,
  type StoredRecord,
  unreadableRoles,
} from '../../system/store/records.ts'
import { reservationFile, reservationHolder, reservationLock, reservationsIn } from '../../system/store/reservations.ts'
import { allCachedAttachments } from '../../system/upstream/read-libcni-cache.ts'
import { withoutSpec } from '../call/attachment-records.ts'
import { type CallContext, contextOfLooks, openIfThere } from '../call/context.ts'
import {
  isDead,
  isLeaseOfKilledAdd,
  podState,
  reclaimReservations,
  settleKilledCalls,
  teardownAll,
  teardownWithoutRecord,
} from '../teardown/attachments.ts'
import { removeWhenEmpty } from '../teardown/remove-network.ts'
import { heal, rediscover } from './recover.ts'

/** Container ids that the runtime lists, or undefined when no runtime could be asked. */
export type Listed = ReadonlySet<string> | undefined

/** What happened to an attachment that was to be collected. */
interface Collected extends AttachmentVerdict {
  readonly failures: readonly string[]
}

/**
 * A namespace that a runtime is just making or removing is a plain file for a moment: how often it is looked at, and
 * when again.
 */
const mostLooks = 10
const pauseMs = 100

/**
 * Judges every finished attachment. Throws CniError 5 when namespaces cannot be told from plain files
 * here: in another mount namespace every pod would look dead. Beside a namespace that is seen, a plain file is one that
 * somebody left: its attachment is reported.
 */
export async function judgeAll(context: CallContext, listed: Listed): Promise<readonly AttachmentVerdict[]> {
  requireStateIfThere()
  for (let looks = 1; ; looks++) {
    const facts = look(context, listed)
    const unseen = facts.filter(isUnseen)
    if (unseen.length > 0 && looks < mostLooks) {
      await sleep(pauseMs)
      continue
    }
    const hidden = unseen.filter(({ record }) => netnsState(record.netns) === 'unknown')
    const seen = new Set(facts.flatMap(({ netns, record }) => (netns === 'live' ? [directoryOf(record)] : [])))
    const unsure = hidden.find(({ record }) => !seen.has(directoryOf(record)))
    if (unsure !== undefined) throw notVisible(unsure.record)
    return facts.map(judgeAttachment)
  }
}

function look(context: CallContext, listed: Listed): readonly AttachmentFacts[] {
  const records = allRecords().filter(({ isPending }) => !isPending)
  return records.map(({ record }) => ({
    record,
    netns: podState(record),
    host: hostStateOf(record.writer, context.identity),
    isListed: listed?.has(record.key.containerId),
    isOld: isOlder(record.writer, Date.parse(record.createdAt), youngestMs),
  }))
}

/** Runtimes write /var/run/netns and /run/netns for one directory. */
function directoryOf({ netns }: AttachmentRecord): string {
  const directory = dirname(netns.path)
  return orElse(() => realpathSync(directory), directory)
}

/** Whether its namespace is a plain file, or has a link and no path. */
function isUnseen({ netns, record, host }: AttachmentFacts): boolean {
  return netns === 'unknown' && record.netns.path !== '' && host === 'here'
}

/** Takes down what is judged garbage, and settles what killed calls left. `tell`: gets what is under way. */
export async function collect(
  context: CallContext,
  verdicts: readonly AttachmentVerdict[],
  progress: (text: string) => void,
): Promise<readonly Collected[]> {
  await endKilledCalls(true)
  const collected: Collected[] = []
  const garbage = verdicts.filter(({ verdict }) => verdict === 'collect')
  for (const [at, each] of garbage.entries()) {
    progress(`collecting ${at + 1} of ${garbage.length}: ${each.record.key.containerId}`)
    const stored = { file: '', isPending: false, record: each.record }
    const failures = (await teardownAll(context, networkFiles(each.record.key.network), [stored])).flat()
    collected.push({ ...each, failures: failures.map((failure) => failure.message) })
  }
  for (const files of networkDirectories()) {
    progress(`settling what killed calls left in ${files.directory}`)
    await settleKilledCalls(context, files, { keepsLeases: true })
    for (const { record } of pendingRecords(files)) if (isLeaseOfKilledAdd(record)) tellOfLease(record)
    await removeWhenEmpty(context, files)
  }
  return collected
}

function tellOfLease({ key, delegatedIpam, writer }: AttachmentRecord): void {
  const whose = `${key.ifName} of container ${key.containerId} (network ${key.network}, process ${writer.pid})`
  const why = `the IPAM plugin ${delegatedIpam} has its lease, and the next ADD or DEL of the network gives it back`
  process.stderr.write(`trestle: what an ADD made of ${whose} stays: ${why}\n`)
}

function notVisible(record: AttachmentRecord): CniError {
  return new CniError('netns-not-visible', `cannot see network namespaces from here: ${record.netns.path}`, {
    details: 'it is no namespace file in this mount namespace; run gc where the runtime runs (nsenter -t 1 -m)',
  })
}

// Reservations that no record has.

const lockWaitMs = 5000

/** Who needs reservations: an ADD, which does not wait to take over what a dead pod had. */
interface Need {
  /** The directory of the network whose addresses it needs; absent: it needs the node's host ports. */
  readonly network?: string
  /** The network's pods have links of ours. */
  readonly isMain?: boolean
}

/**
 * Judges every reservation of every network and every host port. One process, and more for each pod without a record.
 * Records are read before reservations, since a DEL forgets its own after it has given them back, and after them, since
 * an ADD writes its own first.
 */
export async function judgeReservations(
  context: CallContext,
  listed: Listed,
  need?: Need,
): Promise<readonly ReservationVerdict[]> {
  const before = allRecords()
  const reserved = kept()
  const { found, unsure } = await rediscover(context)
  const stored = [...before, ...allRecords()]
  const claimed = new Set(stored.flatMap(({ record }) => recordReservations(record)).map(textOf))
  const lost = new Set(unsure.map(({ network }) => networkDirName(network)))
  const alive = new Set(found.flatMap(rediscoveredReservations).map(textOf))
  const isShared = stored.some(({ record }) => hostStateOf(record.writer, context.identity) === 'elsewhere')
  const hasLostPorts = lost.size > 0 || networkDirectories().some((files) => isThere(chainedFiles(files).network))
  return reserved.map(({ reservation, holder }) => {
    const { network } = reservation
    const file = reservationFile(reservation)
    const isHolderDead = holder !== undefined && isDead({ file, isPending: false, record: holder }, context)
    return judgeReservation({
      reservation,
      holder,
      isClaimed: claimed.has(textOf(reservation)),
      holderHas: whatIsOf(holder, stored),
      isHolderDead,
      isListed: holder && listed?.has(holder.key.containerId),
      isOld: (need !== undefined && isHolderDead) || isOldFile(context, file, holder),
      // What cannot be read may be of a pod of the other host, whose links are not seen from here.
      mayBeOfUnknownPod:
        isShared ||
        alive.has(textOf(reservation)) ||
        (network === undefined ? hasLostPorts : lost.has(network) || isForOthers(network, stored, need)),
    })
  })
}

/** Gives back the orphans among them. Returns what failed. */
export async function collectReservations(
  context: CallContext,
  verdicts: readonly ReservationVerdict[],
): Promise<readonly string[]> {
  const failures: string[] = []
  for (const { reservation, holder } of verdicts.filter(({ verdict }) => verdict === 'collect')) {
    try {
      const isLost = holder !== undefined && !allRecords().some(({ record }) => sameKey(record.key, holder.key))
      if (isLost) await reclaimReservations(context, networkFiles(holder.key.network), holder)
      else await drop(context, { reservation, holder })
    } catch (error) {
      failures.push((error as Error).message)
    }
  }
  return failures
}

/**
 * Of an ADD that finds its pool full, or its host port taken by what cannot be read: gives back the orphans of what it
 * needs, as `trestle gc` would. What live pods without a record have is theirs again before that. Nothing is looked at
 * where every reservation has its record. What fails is reported on stderr.
 */
export async function reclaimOrphans(context: CallContext, need: Need): Promise<void> {
  if (!reservationsIn(need.network).some(isWithoutRecord)) return
  try {
    await heal(contextOfLooks(context))
    const verdicts = await judgeReservations(contextOfLooks(context), undefined, need)
    const meant = verdicts.filter(({ reservation }) => reservation.network === need.network)
    for (const failure of await collectReservations(context, meant))
      process.stderr.write(`trestle: an orphan stays: ${failure}\n`)
  } catch (error) {
    process.stderr.write(`trestle: cannot tell orphans from what is in use: ${(error as Error).message}\n`)
  }
}

function isWithoutRecord(reservation: Reservation): boolean {
  const holder = reservationHolder(reservation)
  return holder === undefined || findRecords(networkFiles(holder.key.network), holder.key).length === 0
}

/** One that changed hands since it was judged is left alone: that of an ADD is in no record at first. */
async function drop(
  { identity }: CallContext,
  judged: Pick<ReservationVerdict, 'reservation' | 'holder'>,
): Promise<void> {
  const { reservation, holder } = judged
  const lock = {
    file: reservationLock(reservation),
    purpose: 'collect a reservation',
    owner: identity,
    waitMs: lockWaitMs,
    isDispensable: true,
  } as const
  await withLock(lock, () => {
    const claimed = allRecords()
      .flatMap(({ record }) => recordReservations(record))
      .map(textOf)
    const isSame = isDeepStrictEqual(ownHolder(reservation), holder)
    if (isSame && !claimed.includes(textOf(reservation)))
      rmSync(reservationFile(reservation), { force: true, recursive: true })
  })
}

/** Addresses of every network, and host ports. */
function kept() {
  const networks = [...networkDirectories().map(directoryNameOf), undefined]
  return networks.flatMap(reservationsIn).map((reservation) => ({ reservation, holder: ownHolder(reservation) }))
}

/** The intent record of another network is nobody's here. */
function ownHolder(reservation: Reservation): AttachmentRecord | undefined {
  const holder = reservationHolder(reservation)
  const isOther = reservation.network !== undefined && networkDirName(holder?.key.network ?? '') !== reservation.network
  return isOther ? undefined : holder
}

function whatIsOf(holder: AttachmentRecord | undefined, stored: readonly StoredRecord[]) {
  const records = stored.filter(({ record }) => holder !== undefined && sameKey(record.key, holder.key))
  if (records.length === 0) return 'nothing'
  return records.some(({ isPending, record }) => isPending || record.spec === undefined) ? 'pending' : 'others'
}

/**
 * A network that serves other plugins, whose links are not ours, or of which nothing is known any more, unless the ADD
 * that needs it makes links of ours for it. Records that cannot be read are known by the names of their files.
 */
function isForOthers(network: string, stored: readonly StoredRecord[], need: Need | undefined): boolean {
  const isServing = ({ record: { key } }: StoredRecord) =>
    key.role === 'ipam' && networkDirName(key.network) === network
  const files = networkFiles(network)
  const unreadable = unreadableRoles(files)
  if (stored.some(isServing) || unreadable.includes('ipam')) return true
  const isMade = need?.isMain === true && need.network === network
  return !isMade && !unreadable.includes('main') && knownNetwork(files) === undefined
}

/**
 * Whether a reservation is old enough for gc: by the holder's identity, else by the time of the file, since whoever
 * damaged it did that later.
 */
export function isOldFile({ identity }: CallContext, file: string, holder: AttachmentRecord | undefined): boolean {
  const writtenMs = lstatSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Number.NaN
  if (holder === undefined) return Math.abs(Date.now() - writtenMs) > youngestMs
  return (
    hostStateOf(holder.writer, identity) === 'ended' || isOlder(holder.writer, Date.parse(holder.createdAt), youngestMs)
  )
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined
}

function textOf({ network, name }: Reservation): string {
  return `${network ?? ''} ${name}`
}

// Links of the host and elements of our tables that no record names.

/** Judges all of them. Three processes; more where elements name addresses that no record has. */
export async function judgeOrphans(context: CallContext, listed: Listed): Promise<readonly OrphanVerdict[]> {
  const { links, orphans } = await findOrphans(context)
  const used = await usedAddresses(context, links, orphans)
  return orphans.map((orphan) => {
    const isUsed = used === 'unknown' ? parseAddress(orphan.name) !== undefined : used.has(orphan.name)
    const mayBeOfUnknownPod = isUsed || orphans.some(isLinkOfPod)
    return judgeOrphan(orphan, {
      links,
      isListed: orphan.key && listed?.has(orphan.key.containerId),
      mayBeOfUnknownPod,
    })
  })
}

/**
 * The addresses among the orphans that a pod behind another plugin may have: those that the host has a route to, or a
 * namespace has which no record is of. Unknown where such a namespace cannot be looked into, or is behind a link of the
 * host and shows no address, as with gVisor.
 */
async function usedAddresses(
  context: CallContext,
  links: ReadonlyMap<string, ObservedLink>,
  orphans: readonly Orphan[],
): Promise<ReadonlySet<string> | 'unknown'> {
  const named = orphans.flatMap(({ kind, name }) => (kind === 'elements' && parseAddress(name) ? [name] : []))
  if (named.length === 0) return new Set()
  const recorded = new Set(allRecords().map(({ record }) => record.netns.inode))
  const namespaces = await otherNamespaces(context.run)
  if (namespaces === undefined) return 'unknown'
  const ids = [...links.values()].flatMap(({ peerNetnsId }) => peerNetnsId ?? [])
  const paths = await netnsPaths(context.run, ids)
  const linked = new Set(ids.map((id) => identityOfNetns(paths.get(id) ?? '').inode))
  const used = new Set(await routedAddresses(context.run, named))
  for (const [inode, path] of namespaces) {
    if (recorded.has(inode)) continue
    const addresses = await addressesIn(context, path)
    // It may have ended since it was listed.
    if (identityOfNetns(path).inode !== inode) continue
    if (addresses === undefined || (addresses.length === 0 && linked.has(inode))) return 'unknown'
    for (const address of addresses) used.add(address)
  }
  return used
}

/** The addresses of a namespace; undefined where it cannot be looked into. */
async function addressesIn(context: CallContext, path: string): Promise<readonly string[] | undefined> {
  const netns = openIfThere(context, path)
  if (netns === undefined) return undefined
  try {
    const { links } = await observePod(context.run, netns.fd)
    const all = [...links.values()].flatMap(({ name, addresses }) => (name === 'lo' ? [] : addresses))
    return all.filter(isGlobal).map(bareAddress)
  } finally {
    closeNetns(netns)
  }
}

/**
 * What pods without a record that may live have on the host: their links, and rules for the addresses that a live pod
 * behind another plugin has by libcni's cache. Three processes.
 */
export async function partsOfUnrecorded(context: CallContext): Promise<readonly Orphan[]> {
  const { orphans } = await findOrphans(context)
  const behindOthers = allCachedAttachments().filter((cached) => isPartOurs(cached) && !isMainOurs(cached))
  const remembered = behindOthers.filter(({ netns }) => netnsState(identityOfNetns(netns)) === 'live')
  const addresses = remembered.flatMap(cachedAddresses)
  return orphans.filter((orphan) => isLinkOfPod(orphan) || addresses.includes(orphan.name))
}

/** Removes those that are to be collected, and are orphans still. Returns what failed. */
export async function collectOrphans(
  context: CallContext,
  verdicts: readonly OrphanVerdict[],
): Promise<readonly string[]> {
  const judged = verdicts.filter(({ verdict }) => verdict === 'collect').map(({ orphan }) => orphan)
  if (judged.length === 0) return []
  const { orphans } = await findOrphans(context)
  const names = new Set(orphans.map(({ name }) => name))
  const failures = await remove(
    context,
    judged.filter(({ name }) => names.has(name)),
  )
  return failures.map(({ message }) => message)
}

/**
 * Removes a network's orphans that `isListed` does not know, for GC; of its elements those of its ranges, and of links
 * that are gone, while no pod may have lost its record. Returns what failed.
 */
export async function removeUnlisted(
  context: CallContext,
  conf: NetConf,
  isListed: (id: { containerId: string; ifName: string }) => boolean,
): Promise<readonly Error[]> {
  try {
    const { orphans } = await findOrphans(context)
    const orphaned = orphans.filter(({ key }) => key?.network === conf.name && !isListed(key))
    const mayBeOfUnknownPod = orphans.some((orphan) => isLinkOfPod(orphan) && !orphaned.includes(orphan))
    const elements = orphans.filter(({ kind, name }) => kind === 'elements' && isOwn(conf, name))
    return await remove(context, [...orphaned, ...(mayBeOfUnknownPod ? [] : elements)])
  } catch (error) {
    return [toCniError(error)]
  }
}

/** The attachments whose links no record names. Two processes. */
export async function keysWithoutRecord(context: CallContext, network: string): Promise<readonly AttachmentKey[]> {
  const { orphans } = await findOrphans(context)
  return orphans.flatMap(({ key }) => (key?.network === network ? [key] : []))
}

/** A name that is no address is a link's that is gone: nobody's. */
function isOwn({ ipam }: NetConf, name: string): boolean {
  const address = parseAddress(name)
  if (address === undefined) return true
  const subnets = ipam.kind === 'pool' ? ipam.rangeSets.flat().flatMap(({ subnet }) => parseCidr(subnet) ?? []) : []
  return subnets.some((subnet) => includes(subnet, address))
}

/**
 * Records are read before the look, since a DEL forgets its own after the links are gone, and after it, since an ADD
 * writes its own before it makes any.
 */
async function findOrphans(context: CallContext) {
  const before = known()
  const [{ links }, table] = await Promise.all([observeHost(context.run), observeTables(context.cleanup)])
  const after = known()
  const records = [...before.records, ...after.records]
  const reserved = new Set([...before.reserved, ...after.reserved])
  return { links, orphans: orphansOf({ links, table, records, reserved }) }
}

function known() {
  const records = allRecords().map(({ record }) => record)
  return { records, reserved: networkDirectories().flatMap(({ addresses }) => namesIn(addresses)) }
}

async function remove(context: CallContext, orphans: readonly Orphan[]): Promise<readonly Error[]> {
  const failures: Error[] = []
  for (const orphan of orphans) failures.push(...(await removeOne(context, orphan)))
  return failures
}

/** A main attachment goes as by DEL of a lost record: what is reserved for it goes, too. */
async function removeOne(context: CallContext, { kind, name, key }: Orphan): Promise<readonly Error[]> {
  if (kind === 'link' && key?.role === 'main') {
    return await teardownWithoutRecord(context, networkFiles(key.network), withoutSpec(context, key))
  }
  const by = { run: context.cleanup }
  if (kind === 'link') {
    return await executeAll(by, [{ in: 'host', kind: 'link.del', dev: name, why: `remove the orphan ${name}` }])
  }
  const isAddress = parseAddress(name) !== undefined
  const owner = { portNames: [], addresses: isAddress ? [name] : [], link: isAddress ? '' : name }
  return await executeAll(by, elementOps(orphanElements(await observeTables(context.cleanup), owner), 'nft.del'))
}
