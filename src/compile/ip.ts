// SPDX-License-Identifier: Apache-2.0
// Operations to the arguments of one `ip` command each (ip-link(8), ip-address(8), ip-route(8)).

import type { Route } from '../cni/net-conf.ts'
import type { Op } from '../plan/op.ts'

/** The pod's network namespace as every child process sees it: the runner passes it as descriptor 3. */
export const podNetns = '/proc/self/fd/3'

/** Operations that `ip` runs. */
export type IpOp = Exclude<Op, { kind: 'sysctl.write' | 'forwarding.on' | `nft.${string}` }>

/** The words after `ip` for one operation; one line of a batch. */
export function ipWords(op: IpOp): readonly string[] {
  switch (op.kind) {
    case 'veth.add':
      return vethWords(op)
    case 'bridge.add':
      // forward_delay matters only with STP, which stays off; the MAC is fixed or it follows the ports.
      return ['link', 'add', 'name', op.name, 'address', op.mac, 'mtu', `${op.mtu}`, 'up', 'type', 'bridge']
    case 'link.up':
      return ['link', 'set', 'dev', op.dev, 'up']
    case 'link.alias':
      return ['link', 'set', 'dev', op.dev, 'alias', op.alias]
    case 'link.promisc':
      return ['link', 'set', 'dev', op.dev, 'promisc', 'on']
    case 'link.del':
      return ['link', 'del', 'dev', op.dev]
    case 'port.master':
      return ['link', 'set', 'dev', op.dev, 'master', op.master, 'up']
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
    case 'route.add':
      // append: several routes to one destination stay side by side, the first listed first, as with the
      // reference (plugins 76ef07eb). add: fails where the pod has such a route, which is then left alone.
      return ['route', op.onlyIfNone ? 'add' : 'append', ...routeWords(op.route, op.dev)]
    case 'route.del':
      return ['route', 'del', ...routeWords(op.route, op.dev)]
    case 'route.show-default':
      // Batch lines take no -4 or -6: the prefix says the family.
      return ['route', 'show', 'table', 'main', 'exact', op.family === 4 ? '0.0.0.0/0' : '::/0']
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
  const mtu = ['mtu', `${op.mtu}`]
  return [
    ...['link', 'add', 'name', op.name, ...mtu, 'address', op.mac, ...master, 'up', 'type', 'veth'],
    ...['peer', 'name', op.peer, ...mtu, 'address', op.peerMac, 'netns', podNetns],
  ]
}

function addrWords(op: Extract<IpOp, { kind: 'addr.replace' }>): readonly string[] {
  const isV6 = op.cidr.includes(':')
  // Waiting for duplicate address detection once cost users 2-3 s a pod (kubernetes#54800).
  const flags = isV6 ? (op.dad ? [] : ['nodad']) : ['broadcast', '+']
  return ['addr', 'replace', op.cidr, ...flags, 'dev', op.dev]
}

function routeWords(route: Route, dev: string): readonly string[] {
  return [
    route.dst,
    ...(route.gw === undefined ? [] : ['via', route.gw]),
    ...['dev', dev],
    ...numberWord('metric', route.priority),
    ...numberWord('table', route.table),
    ...numberWord('scope', route.scope),
    ...numberWord('mtu', route.mtu),
    ...numberWord('advmss', route.advmss),
  ]
}

function numberWord(word: string, value: number | undefined): readonly string[] {
  return value === undefined ? [] : [word, `${value}`]
}

function onOff(value: boolean): string {
  return value ? 'on' : 'off'
}
