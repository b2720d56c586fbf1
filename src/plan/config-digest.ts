// SPDX-License-Identifier: Apache-2.0
// Tells two plugins of one list apart on DEL and CHECK: both get the same ids, and only the
// configuration says which of them is meant.

import { sha256 } from './sha256.ts'

/** What runtimes add per call (CNI spec 1.1.0, section 3 "Deriving request configuration from plugin configuration"). */
const perCall = new Set([
  'prevResult',
  'runtimeConfig',
  'cniVersion',
  'cni.dev/valid-attachments',
  'cni.dev/attachments',
])

/** SHA-256 in hex of a configuration's own keys; equal for any order of keys. Text that is no JSON object is its own. */
export function configDigest(stdin: string): string {
  return sha256(canonical(stdin)).toString('hex')
}

function canonical(stdin: string): string {
  try {
    const value: unknown = JSON.parse(stdin)
    return JSON.stringify(sorted(value, true))
  } catch {
    return stdin
  }
}

function sorted(value: unknown, top = false): unknown {
  if (Array.isArray(value)) return value.map((entry) => sorted(entry))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([key]) => !top || !perCall.has(key))
  return entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, entry]) => [key, sorted(entry)])
}
