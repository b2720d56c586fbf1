// SPDX-License-Identifier: Apache-2.0
// DEL of an attachment whose record was lost or cannot be read: what is rediscovered of it goes, and what it has
// reserved is given back.

import type { Invocation } from '../../cni/invocation.ts'
import { asObject, defined, lookUp } from '../../cni/json.ts'
import { readPrevResult } from '../../cni/result-shapes.ts'
import type { DelConf } from '../../config/net-conf.ts'
import type { AttachmentKey, Role } from '../../model/attachment.ts'
import { hostLinkName, ifbName } from '../../model/names.ts'
import { type AttachmentRecord, sameKey } from '../../model/record.ts'
import type { Rediscovered } from '../../plan/recovery/verdicts.ts'
import { isPartOurs } from '../../plan/upstream/libcni-cache.ts'
import { directoryNameOf, type NetworkFiles } from '../../system/files/state.ts'
import { requireOwnHost } from '../../system/kernel/host-namespace.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import { findRecords, forgetUnreadable, hasUnreadable } from '../../system/store/records.ts'
import { reservationHolder, reservedBy } from '../../system/store/reservations.ts'
import { cachedAttachment } from '../../system/upstream/read-libcni-cache.ts'
import { keyOf, rolesOf, withoutSpec } from '../call/attachment-records.ts'
import type { CallContext } from '../call/context.ts'
import { teardownWithoutRecord } from '../teardown/attachments.ts'
import { hasMacCheck } from '../teardown/removal-port.ts'
import { reserveFound } from './reconcile.ts'
import { cachedParts, rediscover } from './recover.ts'

/**
 * A DEL, and how one of its attachments is torn down: what fails is reported where it could be written down (del.ts).
 */
export interface DelWithoutRecord {
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
    const reserved = reservationsOf(files, key)
    for (const holder of reserved) requireOwnHost(holder, context.identity)
    const isThere = isLinked || (role === 'main' && asksForMacCheck(conf) && (await hasMacCheck(context, key)))
    if (isThere || reserved.length > 0) {
      const record = withoutSpec(context, key)
      await orPending(record, () => teardownWithoutRecord(context, files, record))
    }
    forgetUnreadable(files, key)
  }
}

/** The intent records behind its first address and its first host port: all of one kind were made by the same ADD. */
function reservationsOf(files: NetworkFiles, key: AttachmentKey): readonly AttachmentRecord[] {
  return [directoryNameOf(files), undefined].flatMap((network) => {
    const [name] = reservedBy(key, network)
    return (name !== undefined && reservationHolder({ name, ...defined({ network }) })) || []
  })
}

/** Where its link is there, or it is told what it had: else there is nothing to look for. */
export async function reserveWhatItHas(
  context: CallContext,
  files: NetworkFiles,
  del: { call: Invocation; conf: DelConf; key: AttachmentKey },
): Promise<void> {
  const { key } = del
  const name = hostLinkName(key)
  const named = namedBy(files, del)
  const links = key.role !== 'ipam' && linkExists(name) ? [name] : []
  if (links.length + named.length === 0) return
  try {
    const isMeant = (other: AttachmentKey) => sameKey(other, { ...key, role: 'main' })
    const { found } = await rediscover(context, { isMeant, links, named })
    // A chained part has the link and the addresses of the main one.
    for (const each of found) await reserveFound(context, { ...each, key })
  } catch (error) {
    process.stderr.write(`trestle: DEL: cannot tell what ${key.ifName} had: ${(error as Error).message}\n`)
  }
}

/**
 * What prevResult and the runtime's host ports say, or libcni where they are not sent. It is certain where a record was
 * there until now: a DEL that comes once more says what another pod may have by now. Such a one is only worth a look at
 * the table, for what leads to the addresses, where the runtime says host ports.
 */
function namedBy(
  files: NetworkFiles,
  { call, conf, key }: { call: Invocation; conf: DelConf; key: AttachmentKey },
): readonly Rediscovered[] {
  const isCertain = hasUnreadable(files, key) || findRecords(files, key).length > 0
  const { addresses, ports } = sentParts(call, conf) ?? (isCertain ? rememberedParts(key, conf) : nothing)
  if (addresses.length === 0 || !(isCertain || ports.length > 0)) return []
  return [{ key, netns: { path: '', inode: 0 }, addresses, ports: isCertain ? ports : [], isCertain }]
}

const nothing = { addresses: [], ports: [] } as const

function sentParts(
  { ifName }: Invocation,
  { stdin, cniVersion }: DelConf,
): Pick<Rediscovered, 'addresses' | 'ports'> | undefined {
  try {
    const root = asObject(JSON.parse(stdin))
    const result = readPrevResult(lookUp(root, 'prevResult'), cniVersion)
    return cachedParts({ result, ifName, capabilityArgs: asObject(lookUp(root, 'runtimeConfig')) })
  } catch {
    return undefined
  }
}

function rememberedParts({ network, containerId, ifName }: AttachmentKey, conf: DelConf) {
  const cached = cachedAttachment({ network, containerId, ifName })
  return cached !== undefined && isPartOurs(cached, conf) ? cachedParts(cached) : nothing
}

/**
 * Whether pods of the network have elements that nothing but the name of their link finds: layer 2 reserves nothing.
 */
function asksForMacCheck({ stdin }: DelConf): boolean {
  try {
    return lookUp(asObject(JSON.parse(stdin)), 'macspoofchk') === true
  } catch {
    return false
  }
}
