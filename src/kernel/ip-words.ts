// SPDX-License-Identifier: Apache-2.0
// Operations on links, addresses, routes, rules and neighbours as words for `ip` (ip-link(8), ip-address(8), ip-route(8),
// ip-rule(8), ip-neighbour(8)) and `bridge` (bridge(8)). Batch lines take no -4 or -6: the prefix tells the family.

import { familyOf } from '../cni/addresses.ts'
import type { PodRoute } from '../drivers/spec.ts'
import type { IpOp, LinkAttributes } from './operation.ts'

/** The pod's network namespace, and the host's, as descriptors of every child process. */
const podNetns = '/proc/self/fd/3'
const hostNetns = '/proc/self/fd/4'

/** One line of `ip -batch`, or of `bridge -batch` for VLANs. */
export function ipWords(op: IpOp): readonly string[] {
  switch (op.kind) {
    case 'veth.add': {
      const { peer } = op
      const master = op.master === undefined ? [] : ['master', op.master]
      const end = ['peer', 'name', peer.name, 'mtu', `${peer.mtu}`, 'address', peer.mac]
      return [...newLink(op), ...master, 'up', 'type', 'veth', ...end, ...(peer.isInPod ? ['netns', podNetns] : [])]
    }
    case 'bridge.add':
      // The MAC is given, or it would follow the ports.
      return [...newLink(op), 'up', 'type', 'bridge', ...(op.vlanFiltering ? ['vlan_filtering', '1'] : [])]
    case 'ifb.add':
      return [...newLink(op), 'up', 'type', 'ifb']
    case 'macvlan.add': {
      const type = ['group', `${op.group}`, 'netns', podNetns, 'type', 'macvlan', 'mode', op.mode]
      return ['link', 'add', 'link', op.master, ...newLink(op).slice(2), ...type]
    }
    case 'link.set':
      return ['link', 'set', 'dev', op.dev, ...attributeWords(op.set)]
    case 'link.delete':
      return ['link', 'del', 'dev', op.dev]
    case 'group.delete':
      return ['link', 'del', 'group', `${op.group}`]
    case 'link.show':
      // Not `addr show`: in a batch ip asks for the addresses of all links (ip/ip.c, rtnl_set_strict_dump).
      return ['link', 'show', 'dev', op.dev]
    case 'vlan.add':
      return ['vlan', 'add', 'dev', op.dev, 'vid', `${op.vid}`, ...(op.pvid ? ['pvid', 'untagged'] : [])]
    case 'vlan.delete':
      return ['vlan', 'del', 'dev', op.dev, 'vid', `${op.vid}`]
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

function newLink({ name, mac, mtu }: { name: string; mac: string; mtu: number }): readonly string[] {
  return ['link', 'add', 'name', name, 'mtu', `${mtu}`, 'address', mac]
}

function attributeWords(set: LinkAttributes): readonly string[] {
  const words: string[] = []
  // Most drivers take neither a MAC nor a name while the link is up.
  if (set.up === false) words.push('down')
  if (set.netns !== undefined) words.push('netns', set.netns === 'pod' ? podNetns : hostNetns)
  if (set.name !== undefined) words.push('name', set.name)
  if (set.mac !== undefined) words.push('address', set.mac)
  if (set.mtu !== undefined) words.push('mtu', `${set.mtu}`)
  if (set.alias !== undefined) words.push('alias', set.alias)
  if (set.withoutLinkLocal) words.push('addrgenmode', 'none')
  if (set.promisc !== undefined) words.push('promisc', onOff(set.promisc))
  if (set.allmulti !== undefined) words.push('allmulticast', onOff(set.allmulti))
  if (set.txQLen !== undefined) words.push('txqueuelen', `${set.txQLen}`)
  if (set.group !== undefined) words.push('group', `${set.group}`)
  if (set.master !== undefined) words.push('master', set.master)
  if (set.up) words.push('up')
  if (set.hairpin === undefined && set.isolated === undefined) return words
  words.push('type', 'bridge_slave')
  if (set.hairpin !== undefined) words.push('hairpin', onOff(set.hairpin))
  if (set.isolated !== undefined) words.push('isolated', onOff(set.isolated))
  return words
}

function onOff(value: boolean): string {
  return value ? 'on' : 'off'
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
