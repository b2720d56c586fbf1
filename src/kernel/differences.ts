// SPDX-License-Identifier: Apache-2.0
// The other face of an operation: in which ways the kernel is not as the operation makes it. CHECK and `trestle restore`
// ask; an ADD never does. What was not looked at has no differences.

import { bareAddress, contains, parseCidr } from '../cni/addresses.ts'
import type { PodRoute } from '../drivers/spec.ts'
import {
  chainsOf,
  type Element,
  elementKey,
  otherVersionIn,
  ruleComment,
  ruleComments,
  tableName,
  tableOf,
} from './nft-table.ts'
import type { Observed, ObservedLink, ObservedRoute, ObservedTable, Place } from './observed.ts'
import type { Op, OpOf, QueueOp, RuleOp, SysctlOp } from './operation.ts'

export function differencesOf(op: Op, observed: Observed): readonly string[] {
  const place = observed[op.place]
  switch (op.kind) {
    case 'veth.add':
      return vethDifferences(op, observed)
    case 'macvlan.add':
      return macvlanDifferences(op, observed)
    case 'vlan.add':
    case 'vlan.delete':
      return vlanDifferences(op, observed)
    case 'bucket.set':
    case 'redirect.set':
      return queueDifferences(op, observed)
    case 'sysctl.set':
      return sysctlDifferences(op, observed)
    case 'table.set':
      return observed.tables === undefined ? [] : tableDifferences(op, observed.tables.get(op.table))
    case 'element.add':
      return observed.tables === undefined
        ? []
        : elementDifferences(op.element, observed.tables.get(tableOf(op.element.set)))
    case 'queue.delete':
    case 'element.delete':
    case 'table.delete':
    case 'table.show':
      return []
    default:
      return place === undefined ? [] : differencesIn(op, place)
  }
}

/** Kinds that are compared with something else than one place. */
type Elsewhere = ('veth.add' | 'macvlan.add' | 'vlan.add' | 'vlan.delete') | (QueueOp | SysctlOp | RuleOp)['kind']

/** Of what shows in links, routes and rules of one place. */
function differencesIn(op: Exclude<Op, { kind: Elsewhere }>, place: Place): readonly string[] {
  switch (op.kind) {
    case 'bridge.add':
    case 'ifb.add':
      return onLink(place, op.name, ({ kind = 'none' }) =>
        valueDifference(`kind of ${op.name}`, kind, op.kind.replace('.add', '')),
      )
    case 'link.set':
      return attributeDifferences(op, place)
    case 'address.add':
      return addressDifferences(op, place)
    case 'address.delete':
      return place.links.get(op.dev)?.addresses.includes(op.cidr) ? [`${op.cidr} is still on ${op.dev}`] : []
    case 'route.add':
      return routeDifferences(op, place)
    case 'rule.add': {
      const isThere = place.rules?.some((rule) => rule.from === op.from && rule.table === op.table) ?? true
      return isThere ? [] : [`rule from ${op.from} table ${op.table} is missing`]
    }
    // What removes, shows or announces leaves nothing that could be missing.
    case 'link.delete':
    case 'group.delete':
    case 'link.show':
    case 'route.delete':
    case 'rule.delete':
    case 'defaults.show':
    case 'announce':
    case 'announce6':
      return []
    default:
      return op satisfies never
  }
}

/** `what is A, not B`, or nothing where both are the same. */
export function valueDifference(what: string, is: string | number, wanted: string | number): readonly string[] {
  return is === wanted ? [] : [`${what} is ${is}, not ${wanted}`]
}

function onLink({ links }: Place, dev: string, compare: (link: ObservedLink) => readonly string[]): readonly string[] {
  const link = links.get(dev)
  return link === undefined ? [`${dev} is missing`] : compare(link)
}

function vethDifferences({ name, mac, mtu, master, peer }: OpOf<'veth.add'>, { host, pod }: Observed) {
  const onHost =
    host &&
    onLink(host, name, (link) => [
      ...(link.up ? [] : [`${name} is down`]),
      ...valueDifference(`MAC of ${name}`, link.mac, mac),
      ...valueDifference(`MTU of ${name}`, link.mtu, mtu),
      ...valueDifference(`bridge of ${name}`, link.master ?? 'none', master ?? 'none'),
    ])
  const hostEnd = host?.links.get(name)
  const other = peer.isInPod ? pod : host
  const onPeer =
    other &&
    onLink(other, peer.name, (link) => [
      ...valueDifference(`MAC of ${peer.name}`, link.mac, peer.mac),
      ...valueDifference(`MTU of ${peer.name}`, link.mtu, peer.mtu),
      ...(hostEnd ? valueDifference(`other end of ${name}`, hostEnd.peerIndex ?? 0, link.index) : []),
    ])
  return [...(onHost ?? []), ...(onPeer ?? [])]
}

/** The interface has its own name in the pod by now, so it is found by its MAC. */
function macvlanDifferences({ master: on, mac, mode, mtu }: OpOf<'macvlan.add'>, { host, pod }: Observed) {
  const master = host?.links.get(on)
  if (host !== undefined && master === undefined) return [`${on} is missing`]
  if (pod === undefined) return []
  const link = [...pod.links.values()].find((each) => each.kind === 'macvlan' && each.mac === mac)
  if (link === undefined) return [`macvlan with MAC ${mac} is missing in the pod`]
  return [
    ...valueDifference(`macvlan mode of ${link.name}`, link.macvlanMode ?? 'none', mode),
    ...valueDifference(`MTU of ${link.name}`, link.mtu, mtu),
    ...(master ? valueDifference(`master of ${link.name}`, link.peerIndex ?? 0, master.index) : []),
  ]
}

/** What an attribute is called, for those that are compared by their value. */
const attributeNames = {
  mac: 'MAC',
  mtu: 'MTU',
  alias: 'alias',
  txQLen: 'queue length',
  master: 'bridge',
  allmulti: 'allmulti',
  hairpin: 'hairpin',
  isolated: 'isolation',
} as const

function attributeDifferences({ dev, set }: OpOf<'link.set'>, place: Place): readonly string[] {
  // A link that was renamed is there under its new name; one that was moved is elsewhere.
  if (set.netns !== undefined) return []
  if (set.name !== undefined) return onLink(place, set.name, () => [])
  const text = (value: string | number | boolean | undefined) =>
    value === undefined ? 'none' : typeof value === 'boolean' ? (value ? 'on' : 'off') : value
  return onLink(place, dev, (link) => [
    ...(set.up === undefined || link.up === set.up ? [] : [`${dev} is ${link.up ? 'up' : 'down'}`]),
    ...(set.promisc === undefined || link.promisc === set.promisc
      ? []
      : [`${dev} is ${link.promisc ? '' : 'not '}promiscuous`]),
    ...(Object.keys(attributeNames) as (keyof typeof attributeNames)[]).flatMap((key) =>
      set[key] === undefined
        ? []
        : valueDifference(`${attributeNames[key]} of ${dev}`, text(link[key]), text(set[key])),
    ),
  ])
}

function vlanDifferences({ kind, dev, vid }: OpOf<'vlan.add' | 'vlan.delete'>, { vlans }: Observed) {
  if (vlans === undefined) return []
  const isThere = vlans.get(dev)?.includes(vid) ?? false
  if (isThere === (kind === 'vlan.add')) return []
  return [isThere ? `VLAN ${vid} is still on ${dev}` : `VLAN ${vid} is missing on ${dev}`]
}

function addressDifferences({ place: where, dev, cidr }: OpOf<'address.add'>, place: Place): readonly string[] {
  // An IPv6 address is once on a link (net/ipv6/addrconf.c, ipv6_add_addr): another network on the bridge may have it
  // with a shorter prefix.
  const isWider = (there: string) => {
    const [a, b] = [parseCidr(there), parseCidr(cidr)]
    return a?.family === 6 && b !== undefined && bareAddress(there) === bareAddress(cidr) && contains(a, b)
  }
  return onLink(place, dev, ({ addresses }) => {
    const isThere = addresses.some((there) => there === cidr || (where === 'host' && isWider(there)))
    return isThere ? [] : [`${cidr} is missing on ${dev}`]
  })
}

function routeDifferences({ route, dev, how }: OpOf<'route.add'>, { routes }: Place): readonly string[] {
  // A later plugin of the list that routes by source moves routes into a table of its own.
  const inTable = route.table === undefined ? routes : routes.filter(({ table }) => table === route.table)
  const there = inTable.filter((other) => other.dst === route.dst && other.dev === dev)
  if (there.some((other) => isSameRoute(other, route))) return []
  const via = route.gw === undefined ? '' : ` via ${route.gw}`
  if (how === 'replace') return [`host route to ${route.dst} dev ${dev} is missing`]
  return [`route to ${route.dst}${via} dev ${dev} is ${there.length === 0 ? 'missing' : 'different'}`]
}

function isSameRoute(there: ObservedRoute, route: PodRoute): boolean {
  const keys = ['gw', 'priority', 'mtu', 'advmss'] as const
  return keys.every((key) => route[key] === undefined || route[key] === there[key])
}

/** tc rounds rates to bytes, and cuts the time that fills a bucket to whole microseconds, twice (tc/tc_core.c). */
const tolerance = 0.01
const cutSeconds = 2e-6

function queueDifferences(op: OpOf<'bucket.set' | 'redirect.set'>, { queues }: Observed): readonly string[] {
  if (queues === undefined) return []
  const queue = queues.get(op.dev)
  if (op.kind === 'redirect.set') {
    if (!queue?.hasIngress) return [`ingress qdisc is missing on ${op.dev}`]
    return queue.redirectTo === op.to ? [] : [`filter to ${op.to} is missing on ${op.dev}`]
  }
  if (queue?.rateBits === undefined) return [`bandwidth limit is missing on ${op.dev}`]
  const { rateBits, burstBytes = 0 } = queue
  if (!isNear(rateBits, op.rateBits, 8))
    return [`bandwidth limit on ${op.dev} is ${rateBits} bit/s, not ${op.rateBits}`]
  if (isNear(burstBytes, op.burstBytes, (op.rateBits / 8) * cutSeconds)) return []
  return [`burst on ${op.dev} is ${burstBytes} bytes, not ${op.burstBytes}`]
}

function isNear(is: number, wanted: number, margin: number): boolean {
  return Math.abs(is - wanted) <= Math.max(wanted * tolerance, margin, 8)
}

function sysctlDifferences(op: OpOf<'sysctl.set'>, { hostSysctls, podSysctls }: Observed): readonly string[] {
  const seen = op.place === 'host' ? hostSysctls : podSysctls
  if (seen === undefined || !seen.has(op.key)) return []
  const now = seen.get(op.key)
  // A link without IPv6 has no such setting, and takes no router advertisement.
  if (now === undefined && op.place === 'host' && op.value === '0') return []
  // The kernel prints several numbers with tabs between them.
  const [is = '', wanted = ''] = [now ?? 'absent', op.value].map((text) => text.trim().replace(/\s+/g, ' '))
  return valueDifference(`${op.key.replaceAll('/', '.')}${op.place === 'host' ? '' : ' in the pod'}`, is, wanted)
}

function tableDifferences({ table, hasAccept }: OpOf<'table.set'>, seen: ObservedTable | undefined): readonly string[] {
  const name = `nft table ${table} ${tableName}`
  if (seen === undefined) return [`${name} is missing`]
  if (seen.isDormant) return [`${name} is switched off (flags dormant)`]
  // Rules of another version are not compared: CRI-O ends every pod whose CHECK fails.
  if (otherVersionIn([...seen.chains.values()].flat()) !== undefined) return []
  const lines: string[] = []
  for (const { name: chain, rules } of chainsOf(table, hasAccept)) {
    const there = seen.chains.get(chain)
    const missing = rules.map(([rule]) => ruleComment(rule)).filter((comment) => !there?.includes(comment))
    if (there === undefined) lines.push(`nft chain ${chain} is missing`)
    else lines.push(...missing.map((comment) => `nft rule "${comment}" is missing from ${chain}`))
  }
  // Rules of hostAccept may be there for another network.
  const known = ruleComments(table, true)
  for (const [chain, comments] of seen.chains) {
    if (comments.some((comment) => !known.includes(comment)))
      lines.push(`a rule that is not ours is in nft chain ${chain}`)
  }
  return [...lines, ...seen.droppingChains.map((chain) => `policy of nft chain ${chain} is drop, not accept`)]
}

/** One that leads elsewhere is missing, too. */
function elementDifferences(element: Element, seen: ObservedTable | undefined): readonly string[] {
  const there = seen?.elements.get(elementKey(element))
  const target = element.value?.join(' ')
  if (there !== undefined && there.value?.join(' ') === target) return []
  return [`element ${element.key.join(' ')}${target ? ` -> ${target}` : ''} is missing from nft set ${element.set}`]
}
