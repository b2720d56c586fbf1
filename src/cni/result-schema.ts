// SPDX-License-Identifier: Apache-2.0
// The wire shapes of a result: up to 0.2.0 one `ip4` and one `ip6`, from 0.3.0 on lists. Keys that no
// version names are kept.

import { integer, list, openGroup, optional, text, texts, UINT32_MAX, uint32 } from './fields.ts'
import { keyShapeOf } from './json-keys.ts'
import type { CniVersion } from './version.ts'

/** A chain of plugins adds to what each of them may be configured with. */
const MOST_ENTRIES = 4096

const dns = openGroup({ nameservers: texts, domain: text, search: texts, options: texts })

const route = openGroup({
  dst: text,
  gw: text,
  mtu: uint32,
  advmss: uint32,
  priority: uint32,
  table: uint32,
  scope: integer(0, 255, 'a scope'),
})

const resultInterface = openGroup({ name: text, mac: text, mtu: uint32, sandbox: text })

const ip = openGroup({ version: text, address: text, gateway: text, interface: integer(0, UINT32_MAX, 'an index') })

/** 0.3.0 and later. `ips[].version` is there up to 0.4.0. */
export const listSchema = openGroup({
  cniVersion: text,
  interfaces: optional(list(resultInterface, MOST_ENTRIES)),
  ips: optional(list(ip, MOST_ENTRIES)),
  routes: optional(list(route, MOST_ENTRIES)),
  dns: optional(dns),
})

const familyEntry = openGroup({ ip: text, gateway: text, routes: optional(list(route, MOST_ENTRIES)) })

/** 0.1.0 and 0.2.0. */
export const pairSchema = openGroup({
  cniVersion: text,
  ip4: optional(familyEntry),
  ip6: optional(familyEntry),
  dns: optional(dns),
})

export const listKeys = keyShapeOf(listSchema)
export const pairKeys = keyShapeOf(pairSchema)

/** Versions that share one shape (cni pkg/types/020, 040 and 100). */
const shapeFamilies: readonly (readonly CniVersion[])[] = [
  ['0.1.0', '0.2.0'],
  ['0.3.0', '0.3.1', '0.4.0'],
  ['1.0.0', '1.1.0'],
]

/** The versions with the shape of `version`. */
export function versionsLike(version: CniVersion): readonly CniVersion[] {
  return shapeFamilies.find((family) => family.includes(version)) ?? []
}
