// SPDX-License-Identifier: Apache-2.0
// What a lock says of its holder.

import { asObject } from '../../cni/json/json-object.ts'
import type { ProcessIdentity } from '../model/record.ts'
import { decoded, number, or, parsedJson, stored, text } from './stored.ts'
import { identityFields } from './stored-record.ts'
import { encodeFile } from './versioned.ts'

/** Who holds a lock, and for what: shown to those who wait. */
export interface LockHolder extends ProcessIdentity {
  readonly purpose: string
}

const holder = stored<LockHolder>({ ...identityFields, pid: ['pid', number], purpose: ['purpose', or(text, '')] })

/**
 * The holder that a lock's text names; undefined where it names none. Of any format: one that another release has taken
 * is held all the same.
 */
export function decodeHolder(json: string): LockHolder | undefined {
  const { format: _, ...parts } = asObject(parsedJson(json))
  return decoded(holder, parts)
}

/** The text of a lock. */
export function encodeHolder(value: LockHolder): string {
  return encodeFile(holder, value)
}
