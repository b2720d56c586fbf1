// SPDX-License-Identifier: Apache-2.0
// The record of an attachment: enough to undo, to restore and to explain (docs/design.md, "State"). An intent record is
// a record without `spec`: written before anything is reserved or made.

import type { AttachmentKey, AttachmentSpec, NetworkSpec } from './attachment.ts'

/** Who wrote a file: tells a dead writer from a live one, and another machine state from this one. */
export interface ProcessIdentity {
  readonly pid: number
  /** Field 22 of /proc/PID/stat, clock ticks since boot: tells a reused pid. */
  readonly startTime: string
  readonly bootId: string
  /** The pid namespace's inode: a pid means nothing in another one. */
  readonly pidNamespace: string
  /** The network namespace's, which is the host of what the process makes. The name of a call's file has none. */
  readonly netNamespace?: string
}

/** A pod's network namespace as it was at ADD. */
export interface NetnsIdentity {
  readonly path: string
  readonly inode: number
  /** Of a path under /proc: it means another process in another pid namespace. */
  readonly pidNamespace?: string
}

/** What is known of one attachment. Times are ISO 8601. */
export interface AttachmentRecord {
  /** The record was written by a version with another format: only what every version has is read of it. */
  readonly otherFormat?: number
  readonly key: AttachmentKey
  readonly writer: ProcessIdentity
  readonly netns: NetnsIdentity
  readonly createdAt: string
  readonly pod?: { readonly namespace: string; readonly name: string; readonly uid?: string }
  /** Absent: a runtime. */
  readonly askedBy?: 'hand' | 'adoption'
  /** Of the plugin's configuration without what the runtime adds per call (config-digest.ts). */
  readonly configDigest: string
  /** The delegated IPAM plugin, when there is one. */
  readonly delegatedIpam?: string
  readonly spec?: AttachmentSpec
  /** In place of `spec`, where that was lost: what the kernel showed, to build its rules again (recovery/from-kernel.ts). */
  readonly seen?: AttachmentSpec
  /** Networks that have refused or given up an ADD of the same ids: their DEL is not about this attachment. */
  readonly notOf?: readonly string[]
  readonly network?: NetworkSpec
  /** Made by the upstream chain and taken over: what its plugins keep for it goes with it. `dataDir`: host-local's. */
  readonly adopted?: { readonly dataDir: string }
  /** What a DEL has yet to undo, or could not and why; the addresses stay reserved until it is settled. */
  readonly pendingCleanup?: readonly string[]
}

/** What is known of the attachment's place and rules. */
export function knownSpec({ spec, seen }: Pick<AttachmentRecord, 'spec' | 'seen'>): AttachmentSpec | undefined {
  return spec ?? seen
}

/** The record as it was before anything was made: whose the attachment is. */
export function intentOf({ spec: _, seen: __, network: ___, pendingCleanup: ____, ...intent }: AttachmentRecord) {
  return intent
}

/** Whether two keys are the same attachment. */
export function sameKey(a: AttachmentKey, b: AttachmentKey): boolean {
  return a.network === b.network && a.containerId === b.containerId && a.ifName === b.ifName && a.role === b.role
}

/** The attachment in words, for messages: pod name where it is known. */
export function describeHolder(record: AttachmentRecord): string {
  const { containerId, ifName } = record.key
  const pod = record.pod ? `pod ${record.pod.namespace}/${record.pod.name}, ` : ''
  return `${pod}container ${containerId.slice(0, 13)}, ${ifName}`
}
