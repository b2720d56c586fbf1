// SPDX-License-Identifier: Apache-2.0
// What `ip -j -d` prints, to observed links and routes. A batch prints one JSON array a line for
// each query that found something (ip/ipaddress.c, ip/iproute.c of iproute2).

import { bitsOf, familyOf } from '../cni/address.ts'
import { asObject } from '../cni/json-object.ts'
import type { ObservedLink, ObservedRoute, ObservedRule } from '../model/observed.ts'
import { linkScope, mainTable } from '../model/rtnetlink.ts'

type Json = Readonly<Record<string, unknown>>

/** Every object of every array in the output of `ip -j`, in order. */
export function readDocuments(stdout: string): readonly Json[] {
  return stdout
    .split('\n')
    .filter((line) => line.startsWith('['))
    .flatMap((line) => JSON.parse(line) as Json[])
    .filter((entry) => Object.keys(entry).length > 0)
}

/** Links by name from `ip -j -d addr show` or `link show`; a later entry of the same name wins. */
export function readLinks(documents: readonly Json[]): ReadonlyMap<string, ObservedLink> {
  return new Map(documents.filter((entry) => 'ifname' in entry).map((entry) => [text(entry['ifname']), toLink(entry)]))
}

/** Routes by table from `ip -j route show table all`; entries without a table are of the main one. */
export function readRoutes(documents: readonly Json[]): ReadonlyMap<number, readonly ObservedRoute[]> {
  const tables = new Map<number, ObservedRoute[]>()
  for (const entry of documents.filter((candidate) => 'dst' in candidate && !('ifname' in candidate))) {
    const table = tableNumber(entry['table'])
    for (const route of toRoutes(entry)) tables.set(table, [...(tables.get(table) ?? []), route])
  }
  return tables
}

/** Rules from `ip -N -j rule show`: those that look up a source in a table. */
export function readRules(documents: readonly Json[]): readonly ObservedRule[] {
  return documents
    .filter((entry) => 'priority' in entry && 'table' in entry)
    .map((entry) => {
      const src = text(entry['src'])
      const bits = number(entry['srclen']) ?? bitsOf(familyOf(src))
      return { from: src === 'all' ? 'all' : `${src}/${bits}`, table: tableNumber(entry['table']) }
    })
}

function toLink(entry: Json): ObservedLink {
  const info = asObject(entry['linkinfo'])
  const port = asObject(info['info_slave_data'])
  const flags = Array.isArray(entry['flags']) ? entry['flags'] : []
  const addresses = Array.isArray(entry['addr_info']) ? (entry['addr_info'] as Json[]) : []
  return {
    name: text(entry['ifname']),
    index: number(entry['ifindex']) ?? 0,
    mac: text(entry['address']),
    mtu: number(entry['mtu']) ?? 0,
    up: flags.includes('UP'),
    // The flag alone was asked for; promiscuity also counts a bridge's ports and packet captures.
    promisc: flags.includes('PROMISC'),
    allmulti: flags.includes('ALLMULTI'),
    ...optional('vlanFiltering', asObject(info['info_data'])['vlan_filtering'], Boolean),
    ...optional('txqlen', entry['txqlen'], number),
    ...optional('kind', info['info_kind'], text),
    ...(info['info_kind'] === 'macvlan' ? optional('macvlanMode', asObject(info['info_data'])['mode'], text) : {}),
    ...optional('master', entry['master'], text),
    ...optional('alias', entry['ifalias'], text),
    ...optional('hairpin', port['hairpin'], Boolean),
    ...optional('isolated', port['isolated'], Boolean),
    ...optional('peerIndex', entry['link_index'], number),
    ...optional('peerNetnsId', entry['link_netnsid'], number),
    addresses: addresses.filter((a) => 'local' in a).map((a) => `${text(a['local'])}/${text(a['prefixlen'])}`),
  }
}

function toRoutes(entry: Json): readonly ObservedRoute[] {
  const hops = Array.isArray(entry['nexthops']) ? (entry['nexthops'] as Json[]) : [entry]
  const metrics = Array.isArray(entry['metrics']) ? asObject(entry['metrics'][0]) : {}
  return hops.map((hop) => {
    const gw = hop['gateway'] ?? asObject(hop['via'])['host']
    return {
      dst: toCidr(text(entry['dst']), 'pref' in entry || familyOf(text(gw ?? '')) === 6),
      ...optional('gw', gw, text),
      ...optional('dev', hop['dev'], text),
      ...optional('priority', entry['metric'], number),
      ...optional('src', entry['prefsrc'], text),
      ...optional('scope', entry['scope'], scopeNumber),
      ...optional('protocol', entry['protocol'], (value) => (value === 'boot' ? undefined : text(value))),
      ...optional('mtu', metrics['mtu'], number),
      ...optional('advmss', metrics['advmss'], number),
    }
  })
}

/** `default` and bare addresses as CIDRs. Only IPv6 routes have a `pref` (RTA_PREF, ip/iproute.c). */
function toCidr(dst: string, isIpv6: boolean): string {
  if (dst === 'default') return isIpv6 ? '::/0' : '0.0.0.0/0'
  if (dst.includes('/')) return dst
  return `${dst}/${bitsOf(familyOf(dst))}`
}

/** 0, which is `global`, is no scope worth saying again. */
function scopeNumber(scope: unknown): number | undefined {
  const names: Readonly<Record<string, number>> = { link: linkScope, host: 254 }
  return (names[text(scope)] ?? Number(scope)) || undefined
}

function tableNumber(table: unknown): number {
  const names: Readonly<Record<string, number>> = { main: mainTable, local: 255, default: 253 }
  if (table === undefined) return mainTable
  return names[text(table)] ?? Number(table)
}

function text(value: unknown): string {
  return value === undefined ? '' : String(value)
}

function number(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}

function optional<K extends string, T>(
  key: K,
  value: unknown,
  read: (value: unknown) => T | undefined,
): { readonly [P in K]?: T } {
  const result = value === undefined ? undefined : read(value)
  return (result === undefined ? {} : { [key]: result }) as { readonly [P in K]?: T }
}
