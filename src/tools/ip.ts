// SPDX-License-Identifier: Apache-2.0
// Operations to the arguments of one `ip` command each (ip-link(8), ip-address(8), ip-route(8)).

import { familyOf } from '../cni/address.ts'
import type { PodRoute } from '../model/attachment.ts'
import type { Op } from '../model/op.ts'

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
