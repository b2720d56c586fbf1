// SPDX-License-Identifier: Apache-2.0
// The intent record of an ADD: on disk before anything is reserved or made, taken back with all of it when the ADD
// fails.

import { existsSync, rmSync } from 'node:fs'
import { bareAddress } from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import type { Invocation } from '../../cni/invocation.ts'
import { defined } from '../../cni/json.ts'
import type { NetConf } from '../../config/net-conf.ts'
import { isPortConflict, reservationName } from '../../features/host-ports.ts'
import type { AttachmentKey, AttachmentSpec, HostPort } from '../../model/attachment.ts'
import { type AttachmentRecord, describeHolder, knownSpec, type NetnsIdentity, sameKey } from '../../model/record.ts'
import { portNamesTo } from '../../plan/recovery/from-kernel.ts'
import { configDigest, ipamOf } from '../../plan/state/config-digest.ts'
import { chainedFiles, type NetworkFiles, networkFiles } from '../../system/files/state.ts'
import { requireOwnHost } from '../../system/kernel/host-namespace.ts'
import { refuseListeners } from '../../system/kernel/listening.ts'
import { observeTable } from '../../system/kernel/observe.ts'
import { timestamp } from '../../system/process/clock.ts'
import { waitForHolder } from '../../system/store/lock.ts'
import { portTaken, reservePorts } from '../../system/store/ports.ts'
import {
  allRecords,
  findFinished,
  findRecords,
  pendingFile,
  type StoredRecord,
  writeIntent,
} from '../../system/store/records.ts'
import { reservationHolder, reserveAgain } from '../../system/store/reservations.ts'
import { type CallContext, requireUninterrupted } from '../call/context.ts'
import { attachmentLock } from '../call/locks.ts'
import { reclaimOrphans } from '../recover/collect.ts'
import { livingWithoutRecord } from '../recover/recover.ts'
import {
  isDead,
  reclaimReservations,
  settleKilledCalls,
  teardown,
  teardownAll,
  waitForLinks,
} from '../teardown/attachments.ts'
import { releaseWith } from '../teardown/delegated-lease.ts'

export interface Addition<Conf extends NetConf = NetConf> {
  readonly context: CallContext
  readonly call: Invocation
  readonly conf: Conf
  readonly key: AttachmentKey
  readonly files: NetworkFiles
}

/** Settles what killed calls left first. Throws CniError 103 or 11, 7 for a second chained entry, 106 at a signal. */
export async function intentFor(addition: Addition, netns: NetnsIdentity): Promise<AttachmentRecord> {
  const { context, files, key } = addition
  const { ipam, stdin } = addition.conf
  const delegates = ipam.kind === 'delegated'
  const release = releaseWith(context, addition.call, { stdin, delegates })
  await settleKilledCalls(context, files, { release, delegates })
  requireUninterrupted(context)
  for (const stored of findRecords(files, key)) {
    requireOwnHost(stored.record, context.identity)
    await waitForLinks([stored.record])
    if (stored.isPending || !isDead(stored, context)) throw inTheWay(addition, stored)
    await teardown(context, files, stored.record)
    await release(stored.record)
  }
  const living = await livingWithoutRecord(context, addition)
  if (living !== undefined && !isDead({ file: '', isPending: false, record: living }, context))
    throw taken(living, false)
  const record = newRecord(addition, netns)
  if (writeIntent(files, record)) return await whenAlone(addition, record)
  const other = findRecords(files, key).find((stored) => stored.isPending)
  throw taken(other?.record ?? record, true)
}

/** Throws CniError 103, without the record, when another ADD of the attachment finished since the look. */
async function whenAlone({ context, conf, files }: Addition, record: AttachmentRecord): Promise<AttachmentRecord> {
  try {
    const finished = findFinished(files, record.key)
    if (finished !== undefined) throw taken(finished, false)
    // Who gives back what an earlier ADD of the same ids has leased, and has not begun by now, sees the intent record.
    if (conf.ipam.kind === 'delegated') await waitForHolder(attachmentLock(context, record.key, 'lease an address'))
    return record
  } catch (error) {
    rmSync(pendingFile(files, record.key), { force: true })
    throw error
  }
}

/** Both chained entries of a list get the same ids: with another configuration than the first this is the second. */
function inTheWay({ context, conf, key }: Addition, { record, isPending }: StoredRecord): CniError {
  // This call has tried to remove it, and is its writer by now.
  if (isPending && record.writer.pid === context.identity.pid) return stillThere(record)
  const isSecond = key.role === 'chained' && !isPending && record.configDigest !== configDigest(conf)
  return isSecond ? chainedTwice(key) : taken(record, isPending)
}

function stillThere({ key: { ifName, containerId }, pendingCleanup = [] }: AttachmentRecord): CniError {
  return new CniError('attachment-busy', `${ifName} of container ${containerId} is left of an earlier call`, {
    details: `it could not be removed: ${pendingCleanup.join('; ')}; the next call tries again`,
  })
}

function chainedTwice({ network, ifName }: AttachmentKey): CniError {
  const message = `network ${network}: trestle is chained twice in its list, and ${ifName} has had its first entry`
  return new CniError('chained-twice', message, {
    details: 'put the keys of both entries into one: a chained entry does all that it is asked for in one run',
  })
}

/** The record of an attachment that is about to be made: whose it is, and nothing that it has. */
export function newRecord(
  { context, conf, key }: Pick<Addition, 'context' | 'conf' | 'key'>,
  netns: NetnsIdentity,
): AttachmentRecord {
  return {
    key,
    writer: context.identity,
    netns,
    createdAt: timestamp(),
    ...(conf.pod ? { pod: conf.pod } : {}),
    // Set by `trestle add` and `try` (cli/node/list.ts).
    ...(process.env['TRESTLE_ASKED_BY'] === 'hand' ? { askedBy: 'hand' } : {}),
    configDigest: configDigest(conf),
    ...(conf.ipam.kind === 'delegated' ? defined({ delegatedIpam: conf.ipam.type, ipam: ipamOf(conf.stdin) }) : {}),
  }
}

/**
 * Host ports are known with the addresses; a dead holder of one is torn down, whatever its network. Returns the spec
 * without the ports that another interface of the container has.
 */
export async function reservePortsOf(
  { context, files, key, conf }: Addition,
  spec: AttachmentSpec,
): Promise<AttachmentSpec> {
  const { hostPorts, ...withoutPorts } = spec
  if (hostPorts === undefined) return spec
  const settle = (holder: AttachmentRecord) => settleHolder(context, holder)
  const reclaim = () => reclaimOrphans(context, {})
  const ports = await reservePorts({ intentFile: pendingFile(files, key), key, settle, reclaim }, hostPorts.ports)
  if (conf.mode !== 'ipam' && conf.portmap?.onListening === 'refuse') refuseListeners(ports)
  const left = hostPorts.ports.filter((port) => !ports.includes(port))
  if (left.length === 0) return spec
  const names = left.map(reservationName).join(' ')
  process.stderr.write(
    `trestle: another interface of the container has host ports, ${key.ifName} goes without: ${names}\n`,
  )
  return ports.length === 0 ? withoutPorts : { ...spec, hostPorts: { ...hostPorts, ports } }
}

/** Takes a port's dead holder down. A reservation has its first intent record: the record says what was made. */
async function settleHolder(context: CallContext, holder: AttachmentRecord): Promise<boolean> {
  const files = networkFiles(holder.key.network)
  // Who is taking it down now needs no help, and gives the port back.
  await waitForHolder(attachmentLock(context, holder.key, 'take a host port over'))
  const stored = findRecords(files, holder.key)
  if (stored.length === 0) return await reclaimReservations(context, files, holder)
  await waitForLinks(stored.map(({ record }) => record))
  if (!stored.every((each) => isDead(each, context))) return false
  const left = await teardownAll(context, files, stored)
  requireUninterrupted(context)
  return left.every((failures) => failures.length === 0)
}

function taken(holder: AttachmentRecord, isPending: boolean): CniError {
  const { containerId, ifName, network } = holder.key
  if (isPending) {
    return new CniError('attachment-busy', `another call is working on ${ifName} of container ${containerId}`, {
      details: `process ${holder.writer.pid} since ${holder.createdAt}`,
    })
  }
  return new CniError('already-attached', `container ${containerId} already has ${ifName} on network ${network}`, {
    details: `${describeHolder(holder)}, since ${holder.createdAt}; a runtime sends DEL before it sends ADD again`,
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
    const again = { reservation: { name }, record, owner: context.identity, deadline: context.whole }
    await reserveAgain(again, () => {
      const holder = reservationHolder({ name })
      return holder === undefined || sameKey(holder.key, key)
    })
    throw portTaken(port, key)
  }
}
