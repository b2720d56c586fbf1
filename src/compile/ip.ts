// SPDX-License-Identifier: Apache-2.0
// Operations to the arguments of one `ip` command each (ip-link(8), ip-address(8), ip-route(8)).

import type { PodRoute } from '../plan/attachment.ts'
import type { Op } from '../plan/op.ts'

/** The pod's network namespace as every child process sees it: the runner passes it as descriptor 3. */
export const podNetns = '/proc/self/fd/3'

/** Operations that `ip` runs. */
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

/** The words after `ip` for one operation; one line of a batch. */
export function ipWords(op: IpOp): readonly string[] {
  switch (op.kind) {
    case 'veth.add':
      return vethWords(op)
    case 'bridge.add':
      // forward_delay matters only with STP, which stays off; the MAC is fixed or it follows the ports.
      return [
        ...['link', 'add', 'name', op.name, 'address', op.mac, 'mtu', `${op.mtu}`, 'up', 'type', 'bridge'],
        ...(op.vlanFiltering ? ['vlan_filtering', '1'] : []),
      ]
    case 'vlan.gateway':
      return [
        ...['link', 'add', 'name', op.name, 'address', op.mac, 'mtu', `${op.mtu}`, 'up', 'type', 'veth'],
        ...['peer', 'name', op.peer, 'mtu', `${op.mtu}`],
      ]
    case 'link.up':
      return ['link', 'set', 'dev', op.dev, 'up']
    case 'link.down':
      return ['link', 'set', 'dev', op.dev, 'down']
    case 'link.mac':
      return ['link', 'set', 'dev', op.dev, 'address', op.mac]
    case 'link.alias':
      // No link-local address: on a port it is of no use, on a routed link it comes without waiting for DAD.
      return ['link', 'set', 'dev', op.dev, 'alias', op.alias, ...(op.noLinkLocal ? ['addrgenmode', 'none'] : [])]
    case 'link.no-local':
      return ['link', 'set', 'dev', op.dev, 'addrgenmode', 'none']
    case 'link.promisc':
      return ['link', 'set', 'dev', op.dev, 'promisc', onOff(op.on ?? true)]
    case 'link.mtu':
      return ['link', 'set', 'dev', op.dev, 'mtu', `${op.mtu}`]
    case 'link.allmulti':
      return ['link', 'set', 'dev', op.dev, 'allmulticast', onOff(op.on)]
    case 'link.txqlen':
      return ['link', 'set', 'dev', op.dev, 'txqueuelen', `${op.length}`]
    case 'link.group':
      return ['link', 'set', 'dev', op.dev, 'group', `${op.group}`]
    case 'group.del':
      return ['link', 'del', 'group', `${op.group}`]
    case 'ifb.add':
      return ['link', 'add', 'name', op.name, 'address', op.mac, 'mtu', `${op.mtu}`, 'up', 'type', 'ifb']
    case 'hostroute.replace':
      return ['route', 'replace', op.dst, 'dev', op.dev]
    case 'link.del':
      return ['link', 'del', 'dev', op.dev]
    case 'port.master':
      return ['link', 'set', 'dev', op.dev, 'master', op.master, 'up']
    case 'port.isolation':
      return ['link', 'set', 'dev', op.dev, 'type', 'bridge_slave', 'isolated', onOff(op.isolated)]
    case 'port.flags':
      return [
        'link',
        'set',
        'dev',
        op.dev,
        'type',
        'bridge_slave',
        'hairpin',
        onOff(op.hairpin),
        'isolated',
        onOff(op.isolated),
      ]
    case 'addr.replace':
      return addrWords(op)
    case 'addr.del':
      return ['addr', 'del', op.cidr, 'dev', op.dev]
    case 'addr.show':
      return ['addr', 'show', 'dev', op.dev]
    case 'rule.add':
    case 'rule.del':
      return ['rule', op.kind === 'rule.add' ? 'add' : 'del', 'from', op.from, 'table', `${op.table}`]
    case 'route.add':
      // append: several routes to one destination stay side by side, the first listed first, as with the
      // reference (plugins 76ef07eb). add: fails where the pod has such a route, which is then left alone.
      return ['route', op.onlyIfNone ? 'add' : 'append', ...routeWords(op.route, op.dev)]
    case 'route.del':
      return ['route', 'del', ...routeWords(op.route, op.dev)]
    case 'route.show-default':
      // Batch lines take no -4 or -6: the prefix says the family, but with one table named IPv4 is meant
      // all the same (ip/iproute.c, iproute_list_flush_or_save).
      return ['route', 'show', 'table', 'all', 'exact', op.family === 4 ? '0.0.0.0/0' : '::/0']
    case 'neigh.announce':
      // The pod's own address, probed at the broadcast MAC: a gratuitous ARP request at once, without
      // another process. Neighbours that knew the address by another MAC learn (net/ipv4/arp.c, arp_process).
      return ['neigh', 'replace', op.address, 'dev', op.dev, 'lladdr', 'ff:ff:ff:ff:ff:ff', 'nud', 'probe']
    default:
      return op satisfies never
  }
}

function vethWords(op: Extract<IpOp, { kind: 'veth.add' }>): readonly string[] {
  const master = op.master === undefined ? [] : ['master', op.master]
  return [
    ...['link', 'add', 'name', op.name, 'mtu', `${op.mtu}`, 'address', op.mac, ...master, 'up', 'type', 'veth'],
    ...['peer', 'name', op.peer, 'mtu', `${op.peerMtu ?? op.mtu}`, 'address', op.peerMac, 'netns', podNetns],
  ]
}

function addrWords(op: Extract<IpOp, { kind: 'addr.replace' }>): readonly string[] {
  const isV6 = op.cidr.includes(':')
  // Waiting for duplicate address detection once cost users 2-3 s a pod (kubernetes#54800).
  const flags = isV6 ? (op.dad ? [] : ['nodad']) : ['broadcast', '+']
  return ['addr', 'replace', op.cidr, ...flags, ...(op.noPrefixRoute ? ['noprefixroute'] : []), 'dev', op.dev]
}

function routeWords(route: PodRoute, dev: string): readonly string[] {
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
  ]
}

function numberWord(word: string, value: number | undefined): readonly string[] {
  return value === undefined ? [] : [word, `${value}`]
}

function onOff(value: boolean): string {
  return value ? 'on' : 'off'
}
