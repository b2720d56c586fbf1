// SPDX-License-Identifier: Apache-2.0
// Operations to the arguments of one `ip` command each (ip-link(8), ip-address(8), ip-route(8)).

import { asPrefix, bitsOf, familyOf } from '../cni/address.ts'
import { hasControlCharacter } from '../cni/error.ts'
import { asObject } from '../cni/json.ts'
import type { PodRoute } from '../model/attachment.ts'
import type { ObservedLink, ObservedRoute, ObservedRule } from '../model/observed.ts'
import { linkScope, mainTable, type Op } from '../model/op.ts'

/** The pod's network namespace as every child process sees it: the runner passes it as descriptor 3. */
export const podNetns = '/proc/self/fd/3'

/** The host's, as a process in the pod's sees it: the runner passes it as descriptor 4. */
const hostNetns = '/proc/self/fd/4'

export type IpOp = Exclude<
  Op,
  {
    kind:
      | 'sysctl.write'
      | 'forwarding.on'
      | 'sysctl.pod'
      | 'filter.redirect'
      | `nft.${string}`
      | `qdisc.${string}`
      | 'vlan.add'
      | 'vlan.del'
  }
>

type NewLinkOp = Extract<IpOp, { kind: 'veth.add' | 'macvlan.add' | 'bridge.add' | 'vlan.gateway' | 'ifb.add' }>
type RouteOp = Extract<IpOp, { kind: `route.${string}` | 'hostroute.replace' }>
type LinkSettingOp = Exclude<
  Extract<IpOp, { kind: `link.${string}` | `port.${string}` }>,
  { kind: 'link.del' | 'link.show' }
>

/** The words after `ip` for one operation; one line of a batch. */
export function ipWords(op: IpOp): readonly string[] {
  switch (op.kind) {
    case 'veth.add':
    case 'bridge.add':
    case 'vlan.gateway':
    case 'ifb.add':
      return ['link', 'add', 'name', op.name, ...newLinkWords(op)]
    case 'macvlan.add':
      return ['link', 'add', 'link', op.dev, 'name', op.name, ...newLinkWords(op)]
    case 'device.move':
    case 'device.return': {
      const netns = op.kind === 'device.move' ? podNetns : hostNetns
      return ['link', 'set', 'dev', op.dev, 'netns', netns, 'name', op.name, 'alias', op.alias]
    }
    case 'link.del':
      return ['link', 'del', 'dev', op.dev]
    case 'group.del':
      return ['link', 'del', 'group', `${op.group}`]
    case 'addr.replace':
      return addrWords(op)
    case 'addr.del':
      return ['addr', 'del', op.cidr, 'dev', op.dev]
    case 'addr.show':
    case 'link.show':
      return [op.kind === 'addr.show' ? 'addr' : 'link', 'show', 'dev', op.dev]
    case 'rule.add':
    case 'rule.del':
      return ['rule', op.kind === 'rule.add' ? 'add' : 'del', 'from', op.from, 'table', `${op.table}`]
    case 'route.add':
    case 'route.del':
    case 'route.show-default':
    case 'hostroute.replace':
      return ['route', ...routeWords(op)]
    case 'neigh.announce':
      // The pod's own address, probed at the broadcast MAC: a gratuitous ARP request at once, without
      // another process. Neighbours that knew the address by another MAC learn (net/ipv4/arp.c, arp_process).
      return ['neigh', 'replace', op.address, 'dev', op.dev, 'lladdr', 'ff:ff:ff:ff:ff:ff', 'nud', 'probe']
    case 'neigh.announce6':
      // With ndisc_notify (batches.ts) the kernel advertises every address of a link whose MAC is set
      // (net/ipv6/ndisc.c, ndisc_netdev_event): a probe of its own address teaches IPv6 neighbours nothing.
      return ['link', 'set', 'dev', op.dev, 'address', op.mac]
    default:
      return ['link', 'set', 'dev', op.dev, ...settingWords(op)]
  }
}

function newLinkWords(op: NewLinkOp): readonly string[] {
  const mtu = ['mtu', `${op.mtu}`]
  const address = ['address', op.mac]
  switch (op.kind) {
    case 'veth.add': {
      const master = op.master === undefined ? [] : ['master', op.master]
      const peer = ['peer', 'name', op.peer, 'mtu', `${op.peerMtu ?? op.mtu}`, 'address', op.peerMac]
      return [...mtu, ...address, ...master, 'up', 'type', 'veth', ...peer, 'netns', podNetns]
    }
    case 'macvlan.add':
      return [...mtu, ...address, 'group', `${op.group}`, 'netns', podNetns, 'type', 'macvlan', 'mode', op.mode]
    case 'bridge.add':
      // forward_delay matters only with STP, which stays off; the MAC is fixed or it follows the ports.
      return [...address, ...mtu, 'up', 'type', 'bridge', ...(op.vlanFiltering ? ['vlan_filtering', '1'] : [])]
    case 'vlan.gateway':
      return [...address, ...mtu, 'up', 'type', 'veth', 'peer', 'name', op.peer, ...mtu]
    case 'ifb.add':
      return [...address, ...mtu, 'up', 'type', 'ifb']
    default:
      return op satisfies never
  }
}

function settingWords(op: LinkSettingOp): readonly string[] {
  switch (op.kind) {
    case 'link.up':
      return ['up']
    case 'link.down':
      return ['down']
    case 'link.name':
      return ['name', op.name]
    case 'link.mac':
      return ['address', op.mac]
    case 'link.alias':
      // No link-local address: on a port it is of no use, on a routed link it comes without waiting for DAD.
      return ['alias', op.alias, ...(op.noLinkLocal ? ['addrgenmode', 'none'] : [])]
    case 'link.no-local':
      return ['addrgenmode', 'none']
    case 'link.promisc':
      return ['promisc', onOff(op.on ?? true)]
    case 'link.mtu':
      return ['mtu', `${op.mtu}`]
    case 'link.allmulti':
      return ['allmulticast', onOff(op.on)]
    case 'link.txqlen':
      return ['txqueuelen', `${op.length}`]
    case 'link.group':
      return ['group', `${op.group}`]
    case 'port.master':
      return ['master', op.master, 'up']
    case 'port.isolation':
      return ['type', 'bridge_slave', 'isolated', onOff(op.isolated)]
    case 'port.flags':
      return ['type', 'bridge_slave', 'hairpin', onOff(op.hairpin), 'isolated', onOff(op.isolated)]
    default:
      return op satisfies never
  }
}

function routeWords(op: RouteOp): readonly string[] {
  switch (op.kind) {
    case 'route.add':
      // append: several routes to one destination stay side by side, as with upstream (plugins 1.9.1,
      // which has the last listed first in IPv4; here it is the first). add: fails where the pod has such a route,
      // which is then left alone.
      return [op.onlyIfNone && !op.beside ? 'add' : 'append', ...podRouteWords(op.route, op.dev)]
    case 'route.del':
      return ['del', ...podRouteWords(op.route, op.dev)]
    case 'route.show-default':
      // Batch lines take no -4 or -6: the prefix says the family, but with one table named IPv4 is meant
      // all the same (ip/iproute.c, iproute_list_flush_or_save).
      return ['show', 'table', 'all', 'exact', op.family === 4 ? '0.0.0.0/0' : '::/0']
    case 'hostroute.replace':
      return ['replace', op.dst, 'dev', op.dev]
    default:
      return op satisfies never
  }
}

function addrWords(op: Extract<IpOp, { kind: 'addr.replace' }>): readonly string[] {
  const isV6 = familyOf(op.cidr) === 6
  // Waiting for duplicate address detection once cost users 2-3 s a pod (kubernetes#54800).
  const flags = isV6 ? (op.dad ? [] : ['nodad']) : ['broadcast', '+']
  return ['addr', 'replace', op.cidr, ...flags, ...(op.noPrefixRoute ? ['noprefixroute'] : []), 'dev', op.dev]
}

function podRouteWords(route: PodRoute, dev: string): readonly string[] {
  return [
    route.dst,
    ...(route.gw === undefined ? [] : ['via', route.gw]),
    ...['dev', dev],
    ...numberWord('metric', route.priority),
    ...numberWord('table', route.table),
    ...numberWord('scope', route.scope),
    ...(route.src === undefined ? [] : ['src', route.src]),
    ...numberWord('mtu', route.mtu),
    ...numberWord('advmss', route.advmss),
    ...(route.onlink ? ['onlink'] : []),
    ...(route.protocol === undefined ? [] : ['proto', route.protocol]),
  ]
}

function numberWord(word: string, value: number | undefined): readonly string[] {
  return value === undefined ? [] : [word, `${value}`]
}

function onOff(value: boolean): string {
  return value ? 'on' : 'off'
}

// What `ip -j -d` prints, to observed links and routes. A batch prints one JSON array a line for
// each query that found something (ip/ipaddress.c, ip/iproute.c of iproute2).

type Json = Readonly<Record<string, unknown>>

/**
 * Every object of every array in the output of `ip -j`, in order. ip prints control characters of an alias as they are,
 * and a pod may give its interface such a one.
 */
export function readDocuments(stdout: string): readonly Json[] {
  return stdout
    .split('\n')
    .filter((line) => line.startsWith('['))
    .flatMap((line) => JSON.parse(hasControlCharacter(line) ? line.replace(/\p{Cc}/gu, '?') : line) as Json[])
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

/** The addresses of neighbours by their MAC, from `ip -j neigh show`. */
export function readNeighbours(documents: readonly Json[]): ReadonlyMap<string, readonly string[]> {
  const byMac = Map.groupBy(documents, (entry) => text(entry['lladdr']))
  return new Map([...byMac].map(([mac, entries]) => [mac, entries.map((entry) => text(entry['dst']))]))
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
    ...optional('masterKind', info['info_slave_kind'], text),
    ...optional('alias', entry['ifalias'], text),
    ...optional('hairpin', port['hairpin'], Boolean),
    ...optional('isolated', port['isolated'], Boolean),
    ...optional('peerIndex', entry['link_index'], number),
    ...optional('on', entry['link'], text),
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
export function toCidr(dst: string, isIpv6: boolean): string {
  if (dst === 'default') return isIpv6 ? '::/0' : '0.0.0.0/0'
  return asPrefix(dst)
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
