// SPDX-License-Identifier: Apache-2.0
// Routes, DNS and lists of prefixes of a configuration, in canonical text.

import { formatAddress, formatCidr, networkOf, parseAddress, parseCidr } from '../cni/address.ts'
import { defined } from '../cni/defined.ts'
import { type KeyPath, notA } from '../cni/invalid-config.ts'
import type { Dns, Route } from '../cni/route.ts'
import type { RawConfig } from './schema.ts'

type RawIpam = NonNullable<RawConfig['ipam']>
type RawRoute = NonNullable<RawIpam['routes']>[number]
type RawDns = NonNullable<RawConfig['dns']>

function readRoute(raw: RawRoute, path: KeyPath): Route {
  const dst = parseCidr(raw.dst ?? '')
  if (dst === undefined) {
    const hint = 'use one like "0.0.0.0/0"'
    throw notA([...path, 'dst'], raw.dst, { id: 'route-destination', what: 'a destination in CIDR notation', hint })
  }
  const { mtu, advmss, priority, table, scope } = raw
  const route: Route = { dst: formatCidr(networkOf(dst)), ...defined({ mtu, advmss, priority, table, scope }) }
  if (raw.gw === undefined || raw.gw === '') return route
  const gw = parseAddress(raw.gw)
  if (gw?.family === dst.family) return { ...route, gw: formatAddress(gw) }
  const hint = 'use an address of the same family as dst'
  throw notA([...path, 'gw'], raw.gw, { id: 'route-gateway', what: `an IPv${dst.family} address`, hint })
}

/** Routes with canonical destinations; a gateway is of its route's family. Throws CniError invalidConfig. */
export function readRoutes(raw: readonly RawRoute[], path: KeyPath): readonly Route[] {
  return raw.map((route, index) => readRoute(route, [...path, index]))
}

/** The DNS settings, or undefined when none are set. An empty list counts as set, as in upstream. */
export function readDns(raw: RawDns | undefined): Dns | undefined {
  if (raw === undefined) return undefined
  const { nameservers, domain, search, options } = raw
  const dns: Dns = defined({ nameservers, domain: domain || undefined, search, options })
  return Object.keys(dns).length === 0 ? undefined : dns
}

/** `dns` with what the runtime asks for (capability `dns`, CONVENTIONS.md) in place of the same field. */
export function readTopDns(raw: Pick<RawConfig, 'dns' | 'runtimeConfig'>): Dns | undefined {
  const asked = raw.runtimeConfig?.dns
  const filled = (list: readonly string[] | undefined) => (list === undefined || list.length === 0 ? undefined : list)
  const runtime = defined({
    nameservers: filled(asked?.servers),
    search: filled(asked?.searches),
    options: filled(asked?.options),
  })
  const dns: Dns = { ...readDns(raw.dns), ...runtime }
  return Object.keys(dns).length === 0 ? undefined : dns
}

/** Prefixes without host bits, each once. Throws CniError invalidConfig. */
export function readCidrs(texts: readonly string[], path: KeyPath): readonly string[] {
  const cidrs = texts.map((text, index) => {
    const cidr = parseCidr(text)
    if (cidr !== undefined) return formatCidr(networkOf(cidr))
    const hint = 'use one like "10.0.0.0/8"'
    throw notA([...path, index], text, { id: 'prefix-invalid', what: 'a prefix in CIDR notation', hint })
  })
  return [...new Set(cidrs)]
}
