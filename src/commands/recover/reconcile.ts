// SPDX-License-Identifier: Apache-2.0
// Writes lost state again: a reservation as its attachment's record says, the record and the reservations of a live pod
// as rediscovered (recover.ts). What another attachment has reserved is nobody's to take.

import { existsSync } from 'node:fs'
import { bareAddress } from '../../cni/address.ts'
import { defined } from '../../cni/json.ts'
import type { NetConf } from '../../config/net-conf.ts'
import { isInPodAlone } from '../../drivers/drivers.ts'
import { isPortConflict, reservationName } from '../../features/host-ports.ts'
import type { AttachmentKey, AttachmentSpec, HostPort } from '../../model/attachment.ts'
import { hostLinkName } from '../../model/names.ts'
import { type AttachmentRecord, knownSpec, sameKey } from '../../model/record.ts'
import { portNamesTo } from '../../plan/recovery/orphan-elements.ts'
import {
  type Rediscovered,
  type Reservation,
  recordReservations,
  rediscoveredReservations,
  reservationText,
} from '../../plan/recovery/verdicts.ts'
import { encodeRecord } from '../../plan/state/state-files.ts'
import { createText, type NamesIn, namesIn, readText, replaceText } from '../../system/files/files.ts'
import {
  chainedFiles,
  directoryNameOf,
  type NetworkFiles,
  networkDirectories,
  networkFiles,
  networkParts,
} from '../../system/files/state.ts'
import { hostStateOf } from '../../system/kernel/host-namespace.ts'
import { linkExists, linkNames } from '../../system/kernel/kernel-files.ts'
import { netnsState } from '../../system/kernel/netns.ts'
import { observeTable } from '../../system/kernel/observe.ts'
import { withLock } from '../../system/store/lock.ts'
import { portTaken } from '../../system/store/ports.ts'
import {
  allRecords,
  findFinished,
  findRecords,
  forgetUnreadable,
  knownNetwork,
  readNetwork,
  writeFinished,
  writeNetwork,
} from '../../system/store/records.ts'
import {
  isReserved,
  reservationFile,
  reservationHolder,
  reservationLock,
  reservedBy,
} from '../../system/store/reservations.ts'
import { withoutSpec } from '../call/attachment-records.ts'
import { type CallContext, contextOfLooks } from '../call/context.ts'
import { attachmentLock } from '../call/locks.ts'
import { isDead } from '../teardown/attachments.ts'
import { hostLinkPattern, rediscover, type Search } from './recover.ts'

/** Whose removal keeps an attachment's lock for longer is not waited for: its link is about to go. */
const removalWaitMs = 1000

/** Something that is not as records or the kernel say. */
export interface MissingState {
  readonly text: string
  readonly mend: () => Promise<void>
}

/**
 * An ADD that is to reserve something. `perPod`: how many addresses of the pool each pod of the network has; `names`:
 * what it has looked at by now.
 */
export interface Reserving {
  readonly files: NetworkFiles
  readonly conf: NetConf
  readonly perPod: number
  readonly names: NamesIn
}

/**
 * Before an ADD reserves anything: where records or reservations are missing, what live pods have is theirs again.
 * Nothing is read but the names of files and links where none is. Resolves to whether anything was. Throws what keeps
 * it from looking.
 */
export async function healBeforeAdd(context: CallContext, reserving: Reserving): Promise<boolean> {
  const { files, conf, names } = reserving
  const isFirst = conf.role === 'main' && !existsSync(files.network)
  const links = conf.role === 'main' ? countHostLinks(names) : 0
  const hasMissingReservations = hasTooFewReservations(reserving)
  // What cannot be read is set aside with that, and no record any more.
  if (hasMissingReservations) allRecords()
  const hasMissingRecords = isFirst || hasFewerRecords(links, hasMissingReservations ? namesIn : names)
  if (!hasMissingRecords && !hasMissingReservations) return false
  await heal(contextOfLooks(context), hasMissingRecords ? { remembered: conf } : { links: [] })
  return true
}

/**
 * The same before all rules are built anew by the records: what they do not tell of is not in the rules from then on.
 */
export async function healBeforeRules(context: CallContext): Promise<void> {
  if (hasFewerRecords(countHostLinks(namesIn), namesIn)) await heal(contextOfLooks(context), {})
}

/**
 * The record of an attachment that lives without one: written again first. An ADD of the same ids is refused then.
 */
export async function livingWithoutRecord(
  context: CallContext,
  { files, key, conf }: { files: NetworkFiles; key: AttachmentKey; conf: NetConf },
): Promise<AttachmentRecord | undefined> {
  if (key.role === 'main' && linkExists(hostLinkName(key))) {
    await heal(contextOfLooks(context), { remembered: conf })
    return findFinished(files, key)
  }
  if (hasLinkOfOurs(conf) || !hasMoreReservations(files, conf)) return undefined
  const [name] = reservedBy(key, directoryNameOf(files))
  const holder = name === undefined ? undefined : reservationHolder({ network: directoryNameOf(files), name })
  return holder !== undefined && netnsState(holder.netns) === 'live' ? holder : undefined
}

/** Of others (macvlan, IPAM alone) nothing but the reservations tells that they live. */
function hasLinkOfOurs(conf: NetConf): boolean {
  return conf.role === 'chained' || (conf.role === 'main' && !isInPodAlone(conf))
}

/** Whether addresses are reserved that no record may have. */
function hasMoreReservations({ addresses, attachments, pending }: NetworkFiles, { ipam }: NetConf): boolean {
  if (ipam.kind !== 'pool') return false
  const owners = [...namesIn(attachments), ...namesIn(pending)].filter(isOwner)
  return namesIn(addresses).length > owners.length * ipam.rangeSets.length
}

/** Writes again what is missing of attachments, but not what networks share: that is for who sets it up. */
export async function heal(context: CallContext, search: Search): Promise<void> {
  for (const { mend } of await missingOfAttachments(context, search)) await mend()
}

/** What is missing or cannot be read, also of what networks share. One process, and more where a pod has no record. */
export async function missingState(context: CallContext): Promise<readonly MissingState[]> {
  return [...networkParts().flatMap(missingOfNetwork), ...(await missingOfAttachments(context, {}))]
}

async function missingOfAttachments(context: CallContext, search: Search): Promise<readonly MissingState[]> {
  const records = allRecords().filter(({ isPending, record }) => !isPending && isOfThisHost(context, record))
  const { found, unnamed } = await rediscover(context, search)
  return [
    ...records.flatMap(({ record }) => missingOfRecord(context, record)),
    ...found.flatMap((each) => missingOfFound(context, each)),
    // Nobody knows its ids, so that it gets no record: what it has is not given to others.
    ...unnamed.map((each) => ({
      text: `link ${each.key.containerId} has no alias`,
      mend: () => reserveFound(context, each),
    })),
  ]
}

function countHostLinks(names: NamesIn): number {
  return linkNames(names).filter((name) => hostLinkPattern.test(name)).length
}

/**
 * An intent record is written before its link is made, and goes after it, so that links are counted first. The caller's
 * own intent record has none yet. As far as counts tell: of a dead pod the link may be gone.
 */
function hasFewerRecords(links: number, names: NamesIn): boolean {
  if (links === 0) return false
  const isLinked = (name: string) => isOwner(name) && !name.endsWith(':ipam')
  const networks = networkDirectories(undefined, names)
  const finished = networks.flatMap(({ attachments }) =>
    names(attachments)
      .filter(isLinked)
      .map((name) => `${attachments}/${name}`),
  )
  const pending = networks.flatMap((each) => names(each.pending).filter(isLinked))
  return links >= pending.length + finished.length || isSomeCutShort(finished)
}

/** How many files an ADD looks into: those of a usual node within a few ADDs, at a cost that does not grow. */
const mostLookedInto = 8

/** Whether one of a few records, others with each call, is not whole: its name alone counts for a record. */
function isSomeCutShort(files: readonly string[]): boolean {
  const first = files.length > mostLookedInto ? process.pid % files.length : 0
  const some = [...files.slice(first), ...files.slice(0, first)].slice(0, mostLookedInto)
  return some.some((file) => {
    const found = readText(file)
    return found !== undefined && (found === 'unreadable' || !found.text.endsWith('}'))
  })
}

/**
 * An address is reserved before its record is finished, and given back after that. Pods with an address of no pool make
 * it look in vain.
 */
function hasTooFewReservations({ files, conf, perPod, names }: Reserving): boolean {
  const isOfRole = (name: string) => name.endsWith(':ipam') === (conf.role === 'ipam')
  const finished = names(files.attachments).filter((name) => isOwner(name) && isOfRole(name))
  return finished.length * perPod > names(files.addresses).length
}

/** A chained attachment has neither link nor address of its own; a name with a dot is being written. */
function isOwner(name: string): boolean {
  return !name.startsWith('.') && !name.endsWith(':chained')
}

function isOfThisHost({ identity }: CallContext, record: AttachmentRecord): boolean {
  return hostStateOf(record.writer, identity) === 'here'
}

function missingOfNetwork(files: NetworkFiles): readonly MissingState[] {
  if (readNetwork(files) !== undefined) return []
  const network = knownNetwork(files)
  if (network === undefined) return []
  return [{ text: `${files.network} is missing`, mend: async () => writeNetwork(files, network) }]
}

function missingOfRecord(context: CallContext, record: AttachmentRecord): readonly MissingState[] {
  const reserved = recordReservations(record).filter(
    ({ network }) => network === undefined || record.key.role !== 'chained',
  )
  const isStill = () => {
    const now = findRecords(networkFiles(record.key.network), record.key).find(({ isPending }) => !isPending)?.record
    return now?.createdAt === record.createdAt
  }
  return reserved.filter(isNobodys).map((reservation) => ({
    text: `the reservation of ${reservationText(reservation)} is missing`,
    mend: () => reserve(context, { reservation, record, isStill }),
  }))
}

/**
 * One whose record was lost has a record without a spec from then on, as of another format, with what the kernel shows
 * of it: its rules are built again by that, and DEL finds the rest by names.
 */
function missingOfFound(context: CallContext, found: Rediscovered): readonly MissingState[] {
  const { key, netns, seen, network } = found
  const files = networkFiles(key.network)
  const isRecorded = () => findRecords(files, key).length > 0
  const reserved = rediscoveredReservations(found)
  const isMissing = !isRecorded() || reserved.some(isNobodys)
  // What has been seen of it before is in its record (missingOfRecord).
  if (!found.isCertain || !isMissing || findFinished(files, key)?.seen !== undefined) return []
  const mend = async () => {
    const lock = { ...attachmentLock(context, key, 'write its record again'), waitMs: removalWaitMs }
    await withLock(lock, async () => {
      // Its DEL may be over by now, or a new ADD under way.
      if (!linkExists(hostLinkName(key)) || findRecords(files, key).some(({ isPending }) => isPending)) return
      const record = withoutSpec(context, key, netns)
      for (const reservation of reserved) await reserve(context, { reservation, record, isStill: () => true })
      if (isRecorded()) return
      writeFinished(files, { ...record, ...defined({ seen, network }) })
      if (network !== undefined && readNetwork(files) === undefined) writeNetwork(files, network)
      forgetUnreadable(files, key)
    }).catch((error: Error) => {
      process.stderr.write(
        `trestle: ${key.ifName} of container ${key.containerId} stays without a record: ${error.message}\n`,
      )
    })
  }
  return [
    { text: `the record of ${key.ifName} of container ${key.containerId} (network ${key.network}) is missing`, mend },
  ]
}

/**
 * Reserves what was rediscovered of an attachment that is about to be torn down, so that its reservations are found
 * with it. What is reserved and cannot be read becomes its own where that is certain.
 */
export async function reserveFound(context: CallContext, found: Rediscovered): Promise<void> {
  const record = withoutSpec(context, found.key, found.netns)
  // An address alone is worth a new reservation only while the pod lives.
  const isWorthNew = found.netns.path !== '' || found.ports.length > 0
  for (const reservation of rediscoveredReservations(found)) {
    const isStill = () => (isReserved(reservation) ? found.isCertain : isWorthNew)
    await reserve(context, { reservation, record, isStill })
  }
}

/** No lock is asked for where it is somebody's. `isStill`: whether the attachment has it still. */
async function reserve(
  context: CallContext,
  { reservation, record, isStill }: { reservation: Reservation; record: AttachmentRecord; isStill: () => boolean },
): Promise<void> {
  if (!isNobodys(reservation)) return
  await reserveFor(context, { reservation, record }, () => isStill() && isNobodys(reservation))
}

/** Whether it is missing, cannot be read, or names an attachment whose record has others. */
function isNobodys(reservation: Reservation): boolean {
  const holder = reservationHolder(reservation)
  if (holder === undefined) return true
  const stored = findRecords(networkFiles(holder.key.network), holder.key)
  const has = (record: AttachmentRecord) =>
    record.spec === undefined || recordReservations(record).some(({ name }) => name === reservation.name)
  return stored.length > 0 && !stored.some(({ isPending, record }) => isPending || has(record))
}

// Writes a reservation that was lost for the attachment that has what it stands for.

const lockWaitMs = 5000

/**
 * Reserves for `record`, under the lock that a DEL holds while it gives reservations back. `isFree`: asked under it,
 * since the DEL may be over by then, and once more where the name is taken: an ADD takes one without that lock.
 */
async function reserveFor(
  context: CallContext,
  { reservation, record }: { readonly reservation: Reservation; readonly record: AttachmentRecord },
  isFree: () => boolean,
): Promise<void> {
  const lock = { file: reservationLock(reservation), purpose: 'mend a reservation', owner: context.identity }
  await withLock({ ...lock, waitMs: lockWaitMs, deadline: context.whole }, () => {
    if (!isFree()) return
    const { spec: _, seen: _seen, network: __, ...intent } = record
    const [file, text] = [reservationFile(reservation), encodeRecord(intent)]
    // What cannot be read keeps its name, or an ADD would take it.
    if (!createText(file, text) && isFree()) replaceText(file, text)
  })
}

// A host port whose reservation was lost can be reserved again by another pod. Its rules stand in the way then, or are
// built with those of all others: whose it is shows before that.

/**
 * Throws CniError 104 where a live attachment has a host port of `spec`, whose own reservations were made by now; the
 * port is reserved for its owner again. One process where there are chained attachments: of a lost record of one, the
 * rules tell.
 */
export async function refuseOwnedPorts(context: CallContext, spec: AttachmentSpec | undefined): Promise<void> {
  const ports = spec?.hostPorts?.ports ?? []
  if (spec === undefined || ports.length === 0) return
  const live = allRecords().filter(
    (stored) => !stored.isPending && !sameKey(stored.record.key, spec.key) && !isDead(stored, context),
  )
  const records = live.map(({ record }) => record)
  for (const record of records) {
    const portNames = (knownSpec(record)?.hostPorts?.ports ?? []).map(reservationName)
    await refuse(context, { ports, portNames, record, key: spec.key })
  }
  const main = records.filter(
    ({ key }) => key.role === 'main' && existsSync(chainedFiles(networkFiles(key.network)).network),
  )
  const table = main.length === 0 ? 'absent' : await observeTable(context.run, 'inet')
  if (table === 'absent') return
  for (const record of main) {
    const portNames = portNamesTo(table, knownSpec(record)?.ips.map(({ address }) => bareAddress(address)) ?? [])
    const chained = { ...record, key: { ...record.key, role: 'chained' } as const }
    await refuse(context, { ports, portNames, record: chained, key: spec.key })
  }
}

/** `own`: the names of the host ports that the record's attachment has; `key`: who asks for `ports`. */
async function refuse(
  context: CallContext,
  asked: { ports: readonly HostPort[]; portNames: readonly string[]; record: AttachmentRecord; key: AttachmentKey },
): Promise<void> {
  const { ports, portNames, record, key } = asked
  for (const port of ports) {
    const name = portNames.find((each) => isPortConflict(each, reservationName(port)))
    if (name === undefined) continue
    await reserveFor(context, { reservation: { name }, record }, () => {
      const holder = reservationHolder({ name })
      return holder === undefined || sameKey(holder.key, key)
    })
    throw portTaken(port, key)
  }
}
