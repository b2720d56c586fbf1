// SPDX-License-Identifier: Apache-2.0
// desired − observed. An operation is also a statement about the kernel; `lacking` says in which
// ways it does not hold. CHECK prints that, repair runs those operations, DEL and GC ask it whether
// there is anything left to take away (contract §4, "one reconciler").

import type { PodRoute } from './attachment.ts'
import type { Observed, ObservedLink, ObservedNamespace, ObservedRoute } from './observed.ts'
import type { Op, SetName, TableFamily } from './op.ts'
import { queueLacks } from './queue-difference.ts'
import { declarationsOf, tableOf } from './ruleset.ts'

/** An operation whose effect is not there, and each way in which it is not, for people. */
export interface Difference {
  readonly op: Op
  readonly found: readonly string[]
}

/** The operations that do not hold, with what was found instead. */
export function difference(ops: readonly Op[], observed: Observed): readonly Difference[] {
  return ops.flatMap((op) => {
    const found = lacking(op, observed)
    return found.length === 0 ? [] : [{ op, found }]
  })
}

/** In which ways `op` does not hold; empty when it does, or when its place was not looked at. */
export function lacking(op: Op, observed: Observed): readonly string[] {
  const place = op.in === 'host' ? observed.host : observed.pod
  if (place === undefined) return []
  switch (op.kind) {
    case 'veth.add':
      return vethLacks(op, observed)
    case 'bridge.add':
      return bridgeLacks(op, observed.host)
    case 'ifb.add':
      return linkLacks(place, op.name, (link) => differs(`kind of ${op.name}`, link.kind ?? 'none', 'ifb'))
    case 'link.mtu':
      return linkLacks(place, op.dev, (link) => differs(`MTU of ${op.dev}`, link.mtu, op.mtu))
    case 'link.allmulti':
      return linkLacks(place, op.dev, (link) => differs(`allmulti of ${op.dev}`, onOff(link.allmulti), onOff(op.on)))
    case 'link.txqlen':
      return linkLacks(place, op.dev, (link) => differs(`queue length of ${op.dev}`, link.txqlen ?? 0, op.length))
    case 'hostroute.replace':
      return hostRouteLacks(op.dst, op.dev, place)
    case 'qdisc.tbf':
    case 'qdisc.ingress':
    case 'filter.redirect':
      return queueLacks(op, observed.queues)
    case 'sysctl.pod':
      return podSysctlLacks(op.key, op.value, observed)
    case 'link.up':
      return linkLacks(place, op.dev, (link) => (link.up ? [] : [`${op.dev} is down`]))
    case 'link.down':
      return linkLacks(place, op.dev, (link) => (link.up ? [`${op.dev} is up`] : []))
    case 'link.mac':
      return linkLacks(place, op.dev, (link) => differs(`MAC of ${op.dev}`, link.mac, op.mac))
    case 'link.alias':
      return linkLacks(place, op.dev, (link) => differs(`alias of ${op.dev}`, link.alias ?? 'none', op.alias))
    case 'link.promisc':
      return linkLacks(place, op.dev, (link) =>
        link.promisc === (op.on ?? true) ? [] : [`${op.dev} is ${link.promisc ? '' : 'not '}promiscuous`],
      )
    case 'port.master':
      return linkLacks(place, op.dev, (link) => differs(`bridge of ${op.dev}`, link.master ?? 'none', op.master))
    case 'port.isolation':
      return linkLacks(place, op.dev, (link) =>
        differs(`isolation of ${op.dev}`, onOff(link.isolated), onOff(op.isolated)),
      )
    case 'port.flags':
      return linkLacks(place, op.dev, (link) => [
        ...differs(`hairpin of ${op.dev}`, onOff(link.hairpin), onOff(op.hairpin)),
        ...differs(`isolation of ${op.dev}`, onOff(link.isolated), onOff(op.isolated)),
      ])
    case 'addr.replace':
      return linkLacks(place, op.dev, (link) =>
        link.addresses.includes(op.cidr) ? [] : [`${op.cidr} is missing on ${op.dev}`],
      )
    case 'route.add':
      return routeLacks(op.route, op.dev, place)
    case 'rule.add':
    case 'rule.del':
      return ruleLacks(op, place)
    case 'sysctl.write':
      return sysctlLacks(op.key, op.value, observed)
    case 'forwarding.on':
      return sysctlLacks(forwardingKey(op.family), '1', observed)
    case 'nft.base':
      return baseLacks(op.table, observed)
    case 'nft.chain':
      return chainLacks(op, observed)
    case 'nft.add':
      return elementLacks(op.set, op.element, observed)
    case 'link.del':
      return place.links.has(op.dev) ? [`${op.dev} is still there`] : []
    case 'addr.del':
      return place.links.get(op.dev)?.addresses.includes(op.cidr) ? [`${op.cidr} is still on ${op.dev}`] : []
    case 'nft.del':
      return elementLacks(op.set, op.element, observed).length === 0 ? [`${op.element} is still in ${op.set}`] : []
    case 'vlan.gateway':
      return linkLacks(place, op.name, (link) => differs(`MAC of ${op.name}`, link.mac, op.mac))
    case 'vlan.add':
    case 'vlan.del':
      return vlanLacks(op, observed)
    case 'link.no-local':
    case 'group.del':
    case 'link.group':
    case 'qdisc.del':
    case 'addr.show':
    case 'route.del':
    case 'route.show-default':
    case 'neigh.announce':
    case 'nft.base.show':
    case 'nft.flush':
      return []
    default:
      return op satisfies never
  }
}

/** The sysctl that switches forwarding on for a family, `net/…`. */
export function forwardingKey(family: 4 | 6): string {
  return family === 4 ? 'net/ipv4/ip_forward' : 'net/ipv6/conf/all/forwarding'
}

function vethLacks(op: Extract<Op, { kind: 'veth.add' }>, observed: Observed): readonly string[] {
  const host = linkLacks(observed.host, op.name, (link) => [
    ...(link.up ? [] : [`${op.name} is down`]),
    ...differs(`MAC of ${op.name}`, link.mac, op.mac),
    ...differs(`MTU of ${op.name}`, link.mtu, op.mtu),
    ...differs(`bridge of ${op.name}`, link.master ?? 'none', op.master ?? 'none'),
  ])
  const pod = observed.pod
  if (pod === undefined) return host
  const hostEnd = observed.host.links.get(op.name)
  const inPod = linkLacks(pod, op.peer, (link) => [
    ...differs(`MAC of ${op.peer}`, link.mac, op.peerMac),
    ...differs(`MTU of ${op.peer}`, link.mtu, op.peerMtu ?? op.mtu),
    ...(hostEnd === undefined ? [] : differs(`other end of ${op.name}`, hostEnd.peerIndex ?? 0, link.index)),
  ])
  return [...host, ...inPod]
}

function bridgeLacks(op: Extract<Op, { kind: 'bridge.add' }>, host: ObservedNamespace): readonly string[] {
  return linkLacks(host, op.name, (link) => differs(`kind of ${op.name}`, link.kind ?? 'none', 'bridge'))
}

function hostRouteLacks(dst: string, dev: string, place: ObservedNamespace): readonly string[] {
  const there = (place.routes.get(254) ?? []).some((route) => route.dst === dst && route.dev === dev)
  return there ? [] : [`host route to ${dst} dev ${dev} is missing`]
}

function ruleLacks(op: Extract<Op, { kind: 'rule.add' | 'rule.del' }>, place: ObservedNamespace): readonly string[] {
  if (place.rules === undefined) return []
  const isThere = place.rules.some((rule) => rule.from === op.from && rule.table === op.table)
  if (isThere === (op.kind === 'rule.add')) return []
  return [`rule from ${op.from} table ${op.table} is ${isThere ? 'still there' : 'missing'}`]
}

function podSysctlLacks(key: string, value: string, observed: Observed): readonly string[] {
  if (observed.podSysctls === undefined) return []
  // The kernel prints several values with tabs between them.
  const now = observed.podSysctls.get(key)?.trim().replace(/\s+/g, ' ')
  return differs(`${key.replaceAll('/', '.')} in the pod`, now ?? 'absent', value.trim().replace(/\s+/g, ' '))
}

function routeLacks(route: PodRoute, dev: string, place: ObservedNamespace): readonly string[] {
  // A routed pod's own routes (with a source) may have been moved by a later plugin that routes by source.
  const isAnywhere = route.src !== undefined && route.table === undefined
  const routes = isAnywhere ? [...place.routes.values()].flat() : (place.routes.get(route.table ?? 254) ?? [])
  const there = routes.filter((other) => other.dst === route.dst && other.dev === dev)
  const via = route.gw === undefined ? '' : ` via ${route.gw}`
  if (there.some((other) => matches(other, route))) return []
  return [`route to ${route.dst}${via} dev ${dev} is ${there.length === 0 ? 'missing' : 'different'}`]
}

function matches(there: ObservedRoute, route: PodRoute): boolean {
  const keys = ['gw', 'priority', 'mtu', 'advmss'] as const
  return keys.every((key) => route[key] === undefined || route[key] === there[key])
}

function sysctlLacks(key: string, value: string, observed: Observed): readonly string[] {
  // A link without IPv6 (an MTU below 1280, or none on the node) has none of its settings, and takes no advertisement.
  const isWithout = observed.sysctls.get(key) === undefined && key.startsWith('net/ipv6/conf/') && value === '0'
  if (!observed.sysctls.has(key) || isWithout) return []
  return differs(key.replaceAll('/', '.'), observed.sysctls.get(key) ?? 'absent', value)
}

function vlanLacks(op: Extract<Op, { kind: 'vlan.add' | 'vlan.del' }>, observed: Observed): readonly string[] {
  if (observed.vlans === undefined) return []
  const isThere = observed.vlans.get(op.dev)?.includes(op.vid) ?? false
  if (op.kind === 'vlan.add') return isThere ? [] : [`VLAN ${op.vid} is missing on ${op.dev}`]
  return isThere ? [`VLAN ${op.vid} is still on ${op.dev}`] : []
}

function baseLacks(family: TableFamily, observed: Observed): readonly string[] {
  const table = tableIn(observed, family)
  if (table === undefined) return []
  if (table === 'absent') return [`nft table ${family} trestle is missing`]
  return declarationsOf(family).chains.flatMap((chain) => {
    const there = table.rules.get(chain.name)
    if (there === undefined) return [`nft chain ${chain.name} is missing`]
    const missing = chain.rules.filter((rule) => !there.includes(rule.comment))
    return missing.map((rule) => `nft rule "${rule.comment}" is missing from ${chain.name}`)
  })
}

function chainLacks(op: Extract<Op, { kind: 'nft.chain' }>, { table }: Observed): readonly string[] {
  if (table === undefined) return []
  const isThere = table !== 'absent' && table.rules.get(op.chain)?.includes(op.comment)
  return isThere ? [] : [`nft rule "${op.comment}" is missing from ${op.chain}`]
}

function elementLacks(set: SetName, element: string, observed: Observed): readonly string[] {
  const table = tableIn(observed, tableOf(set))
  if (table === undefined) return []
  // nft prints names without the quotes they are written in.
  if (table !== 'absent' && table.elements.get(set)?.has(element.replaceAll('"', ''))) return []
  return [`element ${element} is missing from nft set ${set}`]
}

function tableIn(observed: Observed, family: TableFamily): Observed['table'] {
  return family === 'inet' ? observed.table : observed.bridgeTable
}

function linkLacks(
  place: ObservedNamespace,
  dev: string,
  compare: (link: ObservedLink) => readonly string[],
): readonly string[] {
  const link = place.links.get(dev)
  return link === undefined ? [`${dev} is missing`] : compare(link)
}

function differs(what: string, is: string | number, wanted: string | number): readonly string[] {
  return is === wanted ? [] : [`${what} is ${is}, not ${wanted}`]
}

function onOff(flag: boolean | undefined): string {
  return flag === undefined ? 'unknown' : flag ? 'on' : 'off'
}
