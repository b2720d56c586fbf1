// SPDX-License-Identifier: Apache-2.0
// Tells two plugins of one list apart on DEL and CHECK: both get the same ids, and only the
// configuration says which of them is meant.

/** What runtimes add per call (CNI spec 1.1.0, section 3 "Deriving request configuration from plugin configuration"). */
const perCall = new Set([
  'prevResult',
  'runtimeConfig',
  'cniVersion',
  'cni.dev/valid-attachments',
  'cni.dev/attachments',
])

/**
 * A digest in hex of a configuration's own keys; equal for any order of keys. Text that is no JSON
 * object is its own. Not cryptographic: it compares an operator's configurations with each other, and
 * SHA-256 over one costs a cold call a millisecond.
 */
export function configDigest(stdin: string): string {
  const text = canonical(stdin)
  return [0x811c9dc5, 0x01234567].map((seed) => mix(text, seed)).join('')
}

/** FNV-1a over UTF-16 code units with two multipliers, 64 bits in hex. */
function mix(text: string, seed: number): string {
  let a = seed
  let b = ~seed
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    a = Math.imul(a ^ unit, 0x01000193)
    b = Math.imul(b ^ unit, 0x5bd1e995) ^ (a >>> 13)
  }
  return [a, b].map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('')
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
