// SPDX-License-Identifier: Apache-2.0
// Operations on addresses, routes, rules and neighbours: the words for `ip` (ip-address(8), ip-route(8), ip-rule(8),
// ip-neighbour(8)), and in which ways one does not hold.

import { bareAddress, contains, familyOf, parseCidr } from '../cni/addresses.ts'
import type { PodRoute } from '../drivers/spec.ts'
import type { Observed, ObservedRoute, Place } from './observed.ts'
import type { Op, OpOf, RouteOp } from './operation.ts'

/** One line of `ip -batch`. Batch lines take no -4 or -6: the prefix tells the family. */
export function routeOpWords(op: RouteOp): readonly string[] {
  switch (op.kind) {
    case 'address.add': {
      // Duplicate address detection would keep a pod waiting for 2-3 s (kubernetes#54800).
      const flags = familyOf(op.cidr) === 4 ? ['broadcast', '+'] : op.dad ? [] : ['nodad']
      return ['addr', 'replace', op.cidr, ...flags, ...(op.noPrefixRoute ? ['noprefixroute'] : []), 'dev', op.dev]
    }
    case 'address.delete':
      return ['addr', 'del', op.cidr, 'dev', op.dev]
    case 'route.add':
      return ['route', op.how, ...routeWords(op.route, op.dev)]
    case 'route.delete':
      return ['route', 'del', ...routeWords(op.route, op.dev)]
    case 'defaults.show':
      // With one table named IPv4 is meant whatever the prefix (ip/iproute.c, iproute_list_flush_or_save).
      return ['route', 'show', 'table', 'all', 'exact', op.family === 4 ? '0.0.0.0/0' : '::/0']
    case 'rule.add':
    case 'rule.delete':
      return ['rule', op.kind === 'rule.add' ? 'add' : 'del', 'from', op.from, 'table', `${op.table}`]
    case 'announce':
      // The pod's own address, probed at the broadcast MAC: a gratuitous ARP request (net/ipv4/arp.c, arp_process).
      return ['neigh', 'replace', op.address, 'dev', op.dev, 'lladdr', 'ff:ff:ff:ff:ff:ff', 'nud', 'probe']
    case 'announce6':
      // With ndisc_notify (batch.ts) the kernel advertises every address when the MAC is set (net/ipv6/ndisc.c,
      // ndisc_netdev_event).
      return ['link', 'set', 'dev', op.dev, 'address', op.mac]
    default:
      return op satisfies never
  }
}

function routeWords(route: PodRoute, dev: string): readonly string[] {
  const words = [route.dst]
  if (route.gw !== undefined) words.push('via', route.gw)
  words.push('dev', dev)
  if (route.priority !== undefined) words.push('metric', `${route.priority}`)
  if (route.table !== undefined) words.push('table', `${route.table}`)
  if (route.scope !== undefined) words.push('scope', `${route.scope}`)
  if (route.src !== undefined) words.push('src', route.src)
  if (route.mtu !== undefined) words.push('mtu', `${route.mtu}`)
  if (route.advmss !== undefined) words.push('advmss', `${route.advmss}`)
  if (route.onlink) words.push('onlink')
  if (route.protocol !== undefined) words.push('proto', route.protocol)
  return words
}

/** In which ways the operation does not hold; none where its place was not looked at. */
export function routeDifferences(op: Op & RouteOp, observed: Observed): readonly string[] {
  const place = observed[op.place]
  if (place === undefined) return []
  switch (op.kind) {
    case 'address.add':
      return addressDifferences(op, place)
    case 'address.delete':
      return place.links.get(op.dev)?.addresses.includes(op.cidr) ? [`${op.cidr} is still on ${op.dev}`] : []
    case 'route.add':
      return missingRoute(op, place)
    case 'rule.add':
    case 'rule.delete': {
      if (place.rules === undefined) return []
      const isThere = place.rules.some((rule) => rule.from === op.from && rule.table === op.table)
      if (isThere === (op.kind === 'rule.add')) return []
      return [`rule from ${op.from} table ${op.table} is ${isThere ? 'still there' : 'missing'}`]
    }
    case 'route.delete':
    case 'defaults.show':
    case 'announce':
    case 'announce6':
      return []
    default:
      return op satisfies never
  }
}

function addressDifferences({ place: where, dev, cidr }: OpOf<'address.add'>, place: Place): readonly string[] {
  const link = place.links.get(dev)
  if (link === undefined) return [`${dev} is missing`]
  // An IPv6 address is once on a link (net/ipv6/addrconf.c, ipv6_add_addr): another network on the bridge may have it
  // with a shorter prefix.
  const isWider = (there: string) => {
    const [a, b] = [parseCidr(there), parseCidr(cidr)]
    return (
      where === 'host' &&
      a?.family === 6 &&
      b !== undefined &&
      bareAddress(there) === bareAddress(cidr) &&
      contains(a, b)
    )
  }
  return link.addresses.some((there) => there === cidr || isWider(there)) ? [] : [`${cidr} is missing on ${dev}`]
}

function missingRoute({ route, dev, how }: OpOf<'route.add'>, place: Place): readonly string[] {
  // A later plugin of the list that routes by source moves routes into a table of its own.
  const inTable = route.table === undefined ? place.routes : place.routes.filter(({ table }) => table === route.table)
  const there = inTable.filter((other) => other.dst === route.dst && other.dev === dev)
  if (there.some((other) => matches(other, route))) return []
  const via = route.gw === undefined ? '' : ` via ${route.gw}`
  if (how === 'replace') return [`host route to ${route.dst} dev ${dev} is missing`]
  return [`route to ${route.dst}${via} dev ${dev} is ${there.length === 0 ? 'missing' : 'different'}`]
}

function matches(there: ObservedRoute, route: PodRoute): boolean {
  const keys = ['gw', 'priority', 'mtu', 'advmss'] as const
  return keys.every((key) => route[key] === undefined || route[key] === there[key])
}
