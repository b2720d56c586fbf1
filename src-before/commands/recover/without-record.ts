// SPDX-License-Identifier: Apache-2.0
// DEL of an attachment whose record was lost or cannot be read: what is rediscovered of it goes, and what it has
// reserved is given back.

import { orElse } from '../../cni/error.ts'
import type { Invocation } from '../../cni/invocation.ts'
import { asObject, defined, lookUp, parseObject } from '../../cni/json.ts'
import { readPrevResult } from '../../cni/result-shapes.ts'
import type { DelConf } from '../../config/net-conf.ts'
import { emptySpec } from '../../drivers/chained.ts'
import { driverOf, isInterfaceMode } from '../../drivers/drivers.ts'
import type { AttachmentKey, AttachmentSpec, Role } from '../../model/attachment.ts'
import { hostLinkName, ifbName, newPodLinkName } from '../../model/names.ts'
import type { AttachmentRecord } from '../../model/record.ts'
import { namedIn } from '../../plan/recovery/from-kernel.ts'
import type { Rediscovered } from '../../plan/recovery/verdicts.ts'
import { isPartOurs } from '../../plan/upstream/libcni-cache.ts'
import { directoryNameOf, type NetworkFiles } from '../../system/files/state.ts'
import { requireOwnHost } from '../../system/kernel/host-namespace.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import { closeNetns, identityOfNetns, netnsState } from '../../system/kernel/netns.ts'
import { observeHost, observePod, observeTables, routedAddresses } from '../../system/kernel/observe.ts'
import { findRecords, forgetUnreadable, hasUnreadable, writeFinished } from '../../system/store/records.ts'
import { intentReservedBy, isReserved } from '../../system/store/reservations.ts'
import { cachedAttachment } from '../../system/upstream/read-libcni-cache.ts'
import { keyOf, rolesOf, withoutSpec } from '../call/attachment-records.ts'
import { type CallContext, openIfThere } from '../call/context.ts'
import { teardownWithoutRecord } from '../teardown/attachments.ts'
import { hasMacCheck, isRecorded } from '../teardown/removal-port.ts'
import { cachedParts, podsWithoutRecord, reserveFound, withPortsTo } from './recover.ts'

/**
 * A DEL, and how one of its attachments is torn down: what fails is reported where it could be written down (del.ts).
 */
interface DelWithoutRecord {
  readonly call: Invocation
  readonly conf: DelConf
  /** Roles that have a record: of a list, any part may have lost its record while the other has one. */
  readonly recorded: readonly Role[]
  readonly orPending: (record: AttachmentRecord, teardown: () => Promise<readonly Error[]>) => Promise<void>
}

/** State was lost: what can be told from the ids, the host and prevResult goes. Throws CniError 111 as del.ts does. */
export async function removeWithoutRecord(
  context: CallContext,
  files: NetworkFiles,
  del: DelWithoutRecord,
): Promise<void> {
  const { call, conf, recorded, orPending } = del
  for (const role of rolesOf(conf).filter((each) => !recorded.includes(each))) {
    const key = keyOf(call, conf, role)
    if (role === conf.role) await reserveWhatItHas(context, files, { call, conf, key })
    // Nothing of it as a rule: the second DEL of containerd writes no record, and starts no process but for
    // macspoofchk.
    const isLinked = role === 'main' && [hostLinkName(key), ifbName(key)].some(linkExists)
    const reserved = [directoryNameOf(files), undefined].flatMap((network) => intentReservedBy(key, network) ?? [])
    for (const holder of reserved) requireOwnHost(holder, context.identity)
    const look = { main: deviceWithoutRecord, chained: chainedWithoutRecord, ipam: undefined }[role]
    const seen = await look?.(context, { call, conf, key })
    const isThere =
      isLinked || seen !== undefined || (role === 'main' && asksForMacCheck(conf) && (await hasMacCheck(context, key)))
    if (isThere || reserved.length > 0) {
      const record = { ...withoutSpec(context, key, seen && identityOfNetns(call.netns)), ...defined({ seen }) }
      await orPending(record, () => teardownWithoutRecord(context, files, record))
    }
    forgetUnreadable(files, key)
  }
}

/**
 * Reserves what the pod's end and the runtime tell of it, so that the teardown finds its reservations. What the runtime
 * says counts where a record was there until now: a DEL that comes once more says what another pod may have by now, and
 * is only worth a look at the table, for what leads to the addresses, where it says host ports.
 */
export async function reserveWhatItHas(
  context: CallContext,
  files: NetworkFiles,
  { call, conf, key }: { call: Invocation; conf: DelConf; key: AttachmentKey },
): Promise<void> {
  const isCertain = hasUnreadable(files, key) || findRecords(files, key).length > 0
  const told = sentParts(call, conf) ?? (isCertain ? rememberedParts(key, conf) : nothing)
  const isTold = told.addresses.length > 0 && (isCertain || told.ports.length > 0)
  const link = hostLinkName(key)
  const isLinked = key.role !== 'ipam' && linkExists(link)
  if (!isLinked && !isTold) return
  try {
    // A chained part has the link and the addresses of the main one.
    const seen = isLinked ? await podsWithoutRecord(context, undefined, [link]) : undefined
    const [pod] = seen?.pods ?? []
    if (pod === undefined && !isTold) return
    const shown = pod?.addresses ?? []
    const believed = isTold && (isCertain || shown.length === 0) ? told : nothing
    const all = [...shown, ...believed.addresses]
    const addresses = [...new Set(all)].filter((address) => !isRecorded(key, address))
    const ports = withPortsTo(seen?.table ?? (await observeTables(context.cleanup)), {
      addresses,
      ports: isCertain ? believed.ports : [],
    })
    // An address alone is worth a new reservation only while the pod lives.
    const isWorthNew = pod !== undefined || ports.length > 0
    const netns = pod?.netns ?? { path: '', inode: 0 }
    await reserveFound(context, { key, netns, addresses, ports }, (reservation) =>
      isReserved(reservation) ? isCertain || pod !== undefined : isWorthNew,
    )
  } catch (error) {
    process.stderr.write(`trestle: DEL: cannot tell what ${key.ifName} had: ${(error as Error).message}\n`)
  }
}

const nothing = { addresses: [], ports: [] } as const

function sentParts(
  { ifName }: Invocation,
  { stdin, cniVersion }: DelConf,
): Pick<Rediscovered, 'addresses' | 'ports'> | undefined {
  return orElse(() => {
    const root = asObject(JSON.parse(stdin))
    const result = readPrevResult(lookUp(root, 'prevResult'), cniVersion)
    return cachedParts({ result, ifName, capabilityArgs: asObject(lookUp(root, 'runtimeConfig')) })
  }, undefined)
}

function rememberedParts({ network, containerId, ifName }: AttachmentKey, conf: DelConf) {
  const cached = cachedAttachment({ network, containerId, ifName })
  return cached !== undefined && isPartOurs(cached, conf) ? cachedParts(cached) : nothing
}

/**
 * Of what is in the pod alone, a record that was written again says nothing: it gets what a look there shows, before
 * that goes.
 */
export async function noteDevice(
  context: CallContext,
  files: NetworkFiles,
  { call, conf, record }: { call: Invocation; conf: DelConf; record: AttachmentRecord },
): Promise<void> {
  const { key, netns } = record
  if (record.seen !== undefined || key.role !== 'main') return
  const sent = call.netns === '' ? { ...call, netns: netns.path } : call
  const seen = await deviceWithoutRecord(context, { call: sent, conf, key })
  // On a full disk it goes with the sandbox.
  if (seen !== undefined) orElse(() => writeFinished(files, { ...record, seen }), undefined)
}

/**
 * A macvlan in the pod; a device of the host there, or on its way home under another name: mode host-device leaves it
 * an alias. No process in another mode, nor where nothing is to be seen.
 */
async function deviceWithoutRecord(
  context: CallContext,
  { call, conf, key }: { call: Invocation; conf: DelConf; key: AttachmentKey },
): Promise<AttachmentSpec | undefined> {
  const root = parseObject(conf.stdin) ?? {}
  const mode = lookUp(root, 'mode')
  const specSeen = isInterfaceMode(mode) ? driverOf({ mode }).specSeen : undefined
  if (specSeen === undefined) return undefined
  const netns = netnsState(identityOfNetns(call.netns)) === 'live' ? openIfThere(context, call.netns) : undefined
  try {
    if (netns !== undefined) {
      const { links } = await observePod(context.cleanup, netns.fd)
      return specSeen(key, links.get(key.ifName) ?? links.get(newPodLinkName(key)))
    }
    const device = lookUp(root, 'device')
    if (typeof device !== 'string' || device === '' || linkExists(device)) return undefined
    const { links } = await observeHost(context.cleanup)
    return specSeen(
      key,
      [...links.values()].find(({ alias }) => alias === device),
    )
  } catch (error) {
    process.stderr.write(`trestle: DEL: cannot look for the device of ${key.ifName}: ${(error as Error).message}\n`)
    return undefined
  } finally {
    if (netns !== undefined) closeNetns(netns)
  }
}

/**
 * A chained part reserves no address: elements that lead to those of prevResult are its own. Not where the sandbox is
 * gone and the host has a route to the address: that is another pod's by now. No process without prevResult.
 */
async function chainedWithoutRecord(
  context: CallContext,
  { call, conf, key }: { call: Invocation; conf: DelConf; key: AttachmentKey },
): Promise<AttachmentSpec | undefined> {
  const told = (sentParts(call, conf) ?? nothing).addresses.filter((address) => !isRecorded(key, address))
  if (told.length === 0) return undefined
  try {
    const { addresses } = namedIn(await observeTables(context.cleanup))
    const named = told.filter((address) => addresses.has(address))
    const isLive = netnsState(identityOfNetns(call.netns)) === 'live'
    const routed = isLive ? new Set() : await routedAddresses(context.cleanup, named)
    const own = named.filter((address) => !routed.has(address))
    return own.length === 0 ? undefined : { ...emptySpec(key), ips: own.map((address) => ({ address })) }
  } catch (error) {
    process.stderr.write(`trestle: DEL: cannot tell what ${key.ifName} had: ${(error as Error).message}\n`)
    return undefined
  }
}

/**
 * Whether pods of the network have elements that nothing but the name of their link finds: layer 2 reserves nothing.
 */
function asksForMacCheck(conf: DelConf): boolean {
  return lookUp(parseObject(conf.stdin) ?? {}, 'macspoofchk') === true
}
