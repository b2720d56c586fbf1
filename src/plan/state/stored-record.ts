// SPDX-License-Identifier: Apache-2.0
// The record of an attachment on disk: in pending/, attachments/, and behind each reserved address and host port.

import { asObject } from '../../cni/json/json-object.ts'
import { type AttachmentRecord, type NetnsIdentity, type ProcessIdentity, sameKey } from '../model/record.ts'
import { believed, decoded, number, or, parsedJson, type StoredFields, stored, text, texts } from './stored.ts'
import { attachment, key } from './stored-attachment.ts'
import { network } from './stored-network.ts'
import { encodeFile, format } from './versioned.ts'

/** Without its boot id nobody can tell whether the writer lives; the rest may be another format's. */
export const identityFields: StoredFields<ProcessIdentity> = {
  pid: ['pid', or(number, 0)],
  startTime: ['startTime', or(text, '')],
  bootId: ['bootId', text],
  pidNamespace: ['pidNamespace', or(text, '')],
  netNamespace: ['netNamespace', believed(text)],
}

const netnsIdentity = stored<NetnsIdentity>({
  path: ['path', text],
  inode: ['inode', or(number, 0)],
  pidNamespace: ['pidNamespace', believed(text)],
})

const podName = stored<NonNullable<AttachmentRecord['pod']>>({ namespace: ['namespace', text], name: ['name', text] })

const record = stored<AttachmentRecord>({
  otherFormat: ['otherFormat', believed(number)],
  key: ['key', key],
  writer: ['writer', stored(identityFields)],
  netns: ['netns', netnsIdentity],
  createdAt: ['createdAt', or(text, '')],
  pod: ['pod', believed(podName)],
  configDigest: ['configDigest', or(text, '')],
  delegatedIpam: ['delegatedIpam', believed(text)],
  spec: ['spec', believed(attachment)],
  seen: ['seen', believed(attachment)],
  notOf: ['notOf', believed(texts)],
  network: ['network', believed(network)],
  adopted: ['adopted', believed(stored<NonNullable<AttachmentRecord['adopted']>>({ dataDir: ['dataDir', text] }))],
  pendingCleanup: ['owed', believed(texts)],
})

/**
 * A record from JSON text, or undefined when it is none: truncated or of another shape. One of another format, before
 * an upgrade or after a downgrade, is no damage: whose it is can be read, and DEL finds the rest by names, reservations
 * and rules, as for a record that was lost. Parts that another release wrote differently are not acted on: the record
 * still says whose the reservations are.
 */
export function decodeRecord(json: string): AttachmentRecord | undefined {
  const { format: found, ...parts } = asObject(parsedJson(json))
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

/** The text of a record. */
export function encodeRecord(value: AttachmentRecord): string {
  return encodeFile(record, value)
}
