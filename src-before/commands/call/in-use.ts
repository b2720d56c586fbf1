// SPDX-License-Identifier: Apache-2.0
// What of state is in use now: the attachments of this boot, and what those need that were made before a
// change of their network's configuration.

import type { AttachmentSpec, NetworkSpec } from '../../model/attachment.ts'
import { type AttachmentRecord, knownSpec, sameKey } from '../../model/record.ts'
import { isSetUpThere, type PlacedPod, placedPod } from '../../plan/ipam/range-overlap.ts'
import { earlierNetworks } from '../../plan/order/earlier-networks.ts'
import { hostStateOf } from '../../system/kernel/host-namespace.ts'
import { linkNames } from '../../system/kernel/kernel-files.ts'
import { isWriterGone } from '../../system/process/process-identity.ts'
import { allNetworks, allRecords, type StoredRecord } from '../../system/store/records.ts'
import type { CallContext } from './context.ts'

/**
 * Attachments of this host and boot, made or being made; not those that a DEL is tearing down or could tear down only
 * in part. To be read under the machine's lock by whoever writes their rules: a DEL waits for its holder
 * (commands/teardown).
 */
export function liveSpecs(context: CallContext): readonly AttachmentSpec[] {
  return liveRecords(context).flatMap((record) => knownSpec(record) ?? [])
}

/** Attachments made from another host network namespace that lives: nothing of them is seen or made here. */
export function recordsElsewhere({ identity }: CallContext): readonly AttachmentRecord[] {
  return allRecords().flatMap(({ record }) => (hostStateOf(record.writer, identity) === 'elsewhere' ? [record] : []))
}

/** All networks but those that only `elsewhere` are attached to. */
export function networksHere(elsewhere: readonly AttachmentRecord[]): readonly NetworkSpec[] {
  if (elsewhere.length === 0) return allNetworks()
  const theirs = new Set(elsewhere.map(({ key }) => key.network))
  const isTheirs = (record: AttachmentRecord) => elsewhere.some((other) => sameKey(other.key, record.key))
  for (const { record } of allRecords()) if (!isTheirs(record)) theirs.delete(record.key.network)
  return allNetworks().filter(({ name }) => !theirs.has(name.replace(/\/chained$/, '')))
}

/** What live attachments need beyond `current`, the networks as they are configured now. */
export function earlierInUse(context: CallContext, current: readonly NetworkSpec[]): readonly NetworkSpec[] {
  return earlierNetworks(current, networksOf(liveRecords(context)))
}

/**
 * Live attachments, the networks as they were made with them, newest first, and their pods on the host: of one look at
 * all records. `networks`: all, as they are set up.
 */
export function liveAndMade(context: CallContext, networks: readonly NetworkSpec[]) {
  const stored = allRecords()
  const live = liveOf(context, stored)
  return {
    attachments: live.flatMap((record) => knownSpec(record) ?? []),
    made: networksOf(live),
    pods: podsOf(context, stored, networks),
  }
}

/** The pods of this host by their records: those whose link is there, and those that an ADD is about to make. */
export function placedPods(context: CallContext, networks: readonly NetworkSpec[]): readonly PlacedPod[] {
  return podsOf(context, allRecords(), networks)
}

function podsOf(
  { identity }: CallContext,
  stored: readonly StoredRecord[],
  networks: readonly NetworkSpec[],
): readonly PlacedPod[] {
  const links = new Set(linkNames())
  return stored.flatMap(({ record, isPending }) => {
    const pod = hostStateOf(record.writer, identity) === 'here' ? placedPod(record, !isPending) : undefined
    if (pod === undefined) return []
    const isAboutToBe = isPending && isSetUpThere(pod, networks) && !isWriterGone(record)
    return links.has(pod.link) || isAboutToBe ? [pod] : []
  })
}

function networksOf(records: readonly AttachmentRecord[]): readonly NetworkSpec[] {
  const newest = records.toSorted((a, b) => (a.createdAt < b.createdAt ? 1 : -1))
  return newest.flatMap((record) =>
    knownSpec(record) !== undefined && record.network !== undefined ? [record.network] : [],
  )
}

function liveRecords(context: CallContext): readonly AttachmentRecord[] {
  return liveOf(context, allRecords())
}

function liveOf({ identity }: CallContext, stored: readonly StoredRecord[]): readonly AttachmentRecord[] {
  return stored.flatMap(({ record }) =>
    record.pendingCleanup === undefined && hostStateOf(record.writer, identity) === 'here' ? [record] : [],
  )
}
