// SPDX-License-Identifier: Apache-2.0
// Tells two plugins of one list apart on DEL and CHECK: both get the same ids, and only the
// configuration says which of them is meant.

import { ownType } from '../../cni/invocation.ts'
import { asObject, isObject, lookUp } from '../../cni/json.ts'
import type { NetConf } from '../../config/net-conf.ts'

/**
 * What runtimes add per call (CNI spec 1.1.0, section 3 "Deriving request configuration from plugin configuration").
 */
const perCall = new Set([
  'prevResult',
  'runtimeConfig',
  'cniVersion',
  'cni.dev/valid-attachments',
  'cni.dev/attachments',
])

/**
 * A digest in hex of a configuration's own keys; equal for any order of keys, and for any of this executable's names as
 * `type`: versions side by side share records. Text that is no JSON object is its own. Not cryptographic: it compares
 * an operator's configurations with each other, and SHA-256 over one costs a cold call a millisecond.
 */
export function configDigest({ stdin, role }: Pick<NetConf, 'stdin' | 'role'>): string {
  const text = canonical(stdin, role !== 'ipam')
  return [0x811c9dc5, 0x01234567].map((seed) => mix(text, seed)).join('')
}

/**
 * The same of the configuration as it would be with another network's name; text that is no JSON object stays as it is.
 */
export function configDigestAs({ stdin, role }: Pick<NetConf, 'stdin' | 'role'>, network: string): string {
  return configDigest({ stdin: withNetworkName(stdin, network), role })
}

/** The configuration with a network's name; the very text where it has that name, or is no JSON object. */
export function withNetworkName(stdin: string, network: string): string {
  try {
    const value: unknown = JSON.parse(stdin)
    return isObject(value) && value['name'] !== network ? JSON.stringify({ ...value, name: network }) : stdin
  } catch {
    return stdin
  }
}

/** A configuration's `ipam` as JSON text; undefined without one. */
export function ipamOf(stdin: string): string | undefined {
  try {
    return JSON.stringify(lookUp(asObject(JSON.parse(stdin)), 'ipam'))
  } catch {
    return undefined
  }
}

/** The configuration with that `ipam`; the very text where it has that, or where the `ipam` is unknown or damaged. */
export function withIpam(stdin: string, ipam: string | undefined): string {
  if (ipam === undefined || ipamOf(stdin) === ipam) return stdin
  try {
    const others = Object.entries(asObject(JSON.parse(stdin))).filter(([key]) => key.toLowerCase() !== 'ipam')
    return JSON.stringify({ ...Object.fromEntries(others), ipam: JSON.parse(ipam) })
  } catch {
    return stdin
  }
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

function canonical(stdin: string, isOwn: boolean): string {
  try {
    const value: unknown = JSON.parse(stdin)
    const hasName = isOwn && isObject(value) && Object.hasOwn(value, 'type')
    return JSON.stringify(sorted(hasName ? { ...value, type: ownType } : value, true))
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
