// SPDX-License-Identifier: Apache-2.0
// The record of an attachment: enough to undo, to restore and to explain (docs/design.md, "State"). It is in pending/,
// in attachments/, and behind each reserved address and host port. An intent record is a record without `spec`: written
// before anything is reserved or made.

import { type AttachmentKey, type AttachmentSpec, attachment, attachmentKey, network } from './attachment.ts'
import {
  believed,
  decoded,
  format,
  number,
  type Of,
  object,
  optionalText,
  or,
  parsedFile,
  text,
  texts,
  wordOf,
} from './kinds.ts'

/**
 * Who wrote a file: tells a dead writer from a live one, and another machine state from this one. Without its boot id
 * nobody can tell whether the writer lives; the rest may be another format's.
 */
export type ProcessIdentity = Of<typeof processIdentity>
export const identityFields = {
  pid: or(number, 0),
  // Field 22 of /proc/PID/stat, clock ticks since boot: tells a reused pid.
  startTime: or(text, ''),
  bootId: text,
  // The pid namespace's inode: a pid means nothing in another one.
  pidNamespace: or(text, ''),
  // The network namespace's, which is the host of what the process makes. The name of a call's file has none.
  netNamespace: believed(text),
}
const processIdentity = object(identityFields)

/** A pod's network namespace as it was at ADD. `pidNamespace`: of a path under /proc, which means a pod there alone. */
export type NetnsIdentity = Of<typeof netnsIdentity>
const netnsIdentity = object({ path: text, inode: or(number, 0), pidNamespace: believed(text) })

/**
 * What is known of one attachment. Times are ISO 8601. `otherFormat`: it was written by a version with another format:
 * only what every version has is read of it.
 */
export type AttachmentRecord = Of<typeof record> & { readonly otherFormat?: number }
const record = object({
  key: attachmentKey,
  writer: processIdentity,
  netns: netnsIdentity,
  createdAt: or(text, ''),
  pod: believed(object({ namespace: text, name: text, uid: optionalText })),
  // Absent: a runtime.
  askedBy: believed(wordOf<'hand' | 'adoption'>()),
  // Of the plugin's configuration without what the runtime adds per call (config-digest.ts).
  configDigest: or(text, ''),
  // The delegated IPAM plugin, when there is one.
  delegatedIpam: believed(text),
  // `ipam` as that plugin got it, JSON text: the configuration may be another one at its DEL.
  ipam: believed(text),
  spec: believed(attachment),
  // In place of a lost `spec`: what libcni's cache or the kernel told, to build its rules again (plan/recovery).
  seen: believed(attachment),
  // Networks that have refused or given up an ADD of the same ids: their DEL is not about this attachment.
  notOf: believed(texts),
  network: believed(network),
  // Made by the upstream chain and taken over: what its plugins keep for it goes with it. `dataDir`: host-local's.
  adopted: believed(object({ dataDir: text })),
  // What a DEL has yet to undo, or could not and why; the addresses stay reserved until it is settled.
  pendingCleanup: believed(texts),
})

/**
 * A record from JSON text, or undefined when it is none: truncated or of another shape. One of another format, before
 * an upgrade or after a downgrade, is no damage: whose it is can be read, and DEL finds the rest by names, reservations
 * and rules, as for a record that was lost. Parts that another release wrote differently are not acted on: the record
 * still says whose the reservations are.
 */
export function decodeRecord(json: string): AttachmentRecord | undefined {
  const { found, parts } = parsedFile(json)
  const whole = typeof found === 'number' ? decoded(record, parts) : undefined
  if (whole === undefined) return undefined
  const { spec, seen, network: shared, ...rest } = whole
  if (found !== format) return { ...rest, otherFormat: found as number }
  return {
    ...rest,
    ...(spec && sameKey(spec.key, rest.key) ? { spec } : {}),
    ...(seen && sameKey(seen.key, rest.key) ? { seen } : {}),
    ...(shared ? { network: shared } : {}),
  }
}

/** What is known of the attachment's place and rules. */
export function knownSpec({ spec, seen }: Pick<AttachmentRecord, 'spec' | 'seen'>): AttachmentSpec | undefined {
  return spec ?? seen
}

/** The record as it was before anything was made: whose the attachment is. */
export function intentOf({ spec: _, seen: __, network: ___, pendingCleanup: ____, ...intent }: AttachmentRecord) {
  return intent
}

export function sameKey(a: AttachmentKey, b: AttachmentKey): boolean {
  return a.network === b.network && a.containerId === b.containerId && a.ifName === b.ifName && a.role === b.role
}

/** The attachment in words, for messages: pod name where it is known. */
export function describeHolder(record: AttachmentRecord): string {
  const { containerId, ifName } = record.key
  const pod = record.pod ? `pod ${record.pod.namespace}/${record.pod.name}, ` : ''
  return `${pod}container ${containerId.slice(0, 13)}, ${ifName}`
}
