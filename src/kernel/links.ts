// SPDX-License-Identifier: Apache-2.0
// Operations on links: the words for `ip` (ip-link(8)) and `bridge` (bridge(8)), and in which ways one does not hold.

import type { Observed, ObservedLink } from './observed.ts'
import { valueDifference } from './observed.ts'
import type { LinkAttributes, LinkOp, Op, OpOf } from './operation.ts'

/** The pod's network namespace, and the host's, as descriptors of every child process. */
export const podNetns = '/proc/self/fd/3'
export const hostNetns = '/proc/self/fd/4'

/** One line of `ip -batch`, or of `bridge -batch` for VLANs. */
export function linkWords(op: LinkOp): readonly string[] {
  switch (op.kind) {
    case 'veth.add': {
      const master = op.master === undefined ? [] : ['master', op.master]
      const { peer } = op
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
      return ['addr', 'show', 'dev', op.dev]
    case 'vlan.add':
    case 'vlan.delete': {
      const flags = op.kind === 'vlan.add' && op.pvid ? ['pvid', 'untagged'] : []
      return ['vlan', op.kind === 'vlan.add' ? 'add' : 'del', 'dev', op.dev, 'vid', `${op.vid}`, ...flags]
    }
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

function onOff(value: boolean | undefined): string {
  return value === undefined ? 'unknown' : value ? 'on' : 'off'
}

/** In which ways the operation does not hold; none where its place was not looked at. */
export function linkDifferences(op: Op & LinkOp, observed: Observed): readonly string[] {
  const place = observed[op.place]
  if (op.kind === 'vlan.add' || op.kind === 'vlan.delete') return vlanDifferences(op, observed)
  if (op.kind === 'veth.add') return vethDifferences(op, observed)
  if (op.kind === 'macvlan.add') return macvlanDifferences(op, observed)
  if (place === undefined) return []
  switch (op.kind) {
    case 'bridge.add':
    case 'ifb.add':
      return onLink(place.links, op.name, (link) =>
        valueDifference(`kind of ${op.name}`, link.kind ?? 'none', op.kind.replace('.add', '')),
      )
    case 'link.set':
      return attributeDifferences(op, place.links)
    case 'link.delete':
      return place.links.has(op.dev) ? [`${op.dev} is still there`] : []
    case 'group.delete':
      return op.devs.filter((dev) => place.links.has(dev)).map((dev) => `${dev} is still there`)
    case 'link.show':
      return []
    default:
      return op satisfies never
  }
}

type Links = ReadonlyMap<string, ObservedLink>

function onLink(links: Links, dev: string, compare: (link: ObservedLink) => readonly string[]): readonly string[] {
  const link = links.get(dev)
  return link === undefined ? [`${dev} is missing`] : compare(link)
}

function vethDifferences(op: OpOf<'veth.add'>, { host, pod }: Observed): readonly string[] {
  const { name, peer } = op
  const hostEnd = host?.links.get(name)
  const onHost =
    host === undefined
      ? []
      : onLink(host.links, name, (link) => [
          ...(link.up ? [] : [`${name} is down`]),
          ...valueDifference(`MAC of ${name}`, link.mac, op.mac),
          ...valueDifference(`MTU of ${name}`, link.mtu, op.mtu),
          ...valueDifference(`bridge of ${name}`, link.master ?? 'none', op.master ?? 'none'),
        ])
  const other = peer.isInPod ? pod : host
  const onPeer =
    other === undefined
      ? []
      : onLink(other.links, peer.name, (link) => [
          ...valueDifference(`MAC of ${peer.name}`, link.mac, peer.mac),
          ...valueDifference(`MTU of ${peer.name}`, link.mtu, peer.mtu),
          ...(hostEnd === undefined ? [] : valueDifference(`other end of ${name}`, hostEnd.peerIndex ?? 0, link.index)),
        ])
  return [...onHost, ...onPeer]
}

/** The interface has its own name in the pod by now; `name` here is that name (drivers/macvlan.ts). */
function macvlanDifferences(op: OpOf<'macvlan.add'>, { host, pod }: Observed): readonly string[] {
  const master = host?.links.get(op.master)
  if (host !== undefined && master === undefined) return [`${op.master} is missing`]
  const link = [...(pod?.links.values() ?? [])].find((each) => each.kind === 'macvlan' && each.mac === op.mac)
  if (pod === undefined) return []
  if (link === undefined) return [`macvlan with MAC ${op.mac} is missing in the pod`]
  return [
    ...valueDifference(`macvlan mode of ${link.name}`, link.macvlanMode ?? 'none', op.mode),
    ...valueDifference(`MTU of ${link.name}`, link.mtu, op.mtu),
    ...(master === undefined ? [] : valueDifference(`master of ${link.name}`, link.peerIndex ?? 0, master.index)),
  ]
}

function attributeDifferences({ dev, set }: OpOf<'link.set'>, links: Links): readonly string[] {
  // A link that was renamed is there under its new name; one that was moved is elsewhere.
  if (set.netns !== undefined) return []
  if (set.name !== undefined) return onLink(links, set.name, () => [])
  return onLink(links, dev, (link) => [
    ...(set.up === undefined || link.up === set.up ? [] : [`${dev} is ${link.up ? 'up' : 'down'}`]),
    ...(set.mac === undefined ? [] : valueDifference(`MAC of ${dev}`, link.mac, set.mac)),
    ...(set.mtu === undefined ? [] : valueDifference(`MTU of ${dev}`, link.mtu, set.mtu)),
    ...(set.alias === undefined ? [] : valueDifference(`alias of ${dev}`, link.alias ?? 'none', set.alias)),
    ...(set.promisc === undefined || set.promisc === link.promisc
      ? []
      : [`${dev} is ${link.promisc ? '' : 'not '}promiscuous`]),
    ...(set.allmulti === undefined
      ? []
      : valueDifference(`allmulti of ${dev}`, onOff(link.allmulti), onOff(set.allmulti))),
    ...(set.txQLen === undefined ? [] : valueDifference(`queue length of ${dev}`, link.txQLen, set.txQLen)),
    ...(set.master === undefined ? [] : valueDifference(`bridge of ${dev}`, link.master ?? 'none', set.master)),
    ...(set.hairpin === undefined ? [] : valueDifference(`hairpin of ${dev}`, onOff(link.hairpin), onOff(set.hairpin))),
    ...(set.isolated === undefined
      ? []
      : valueDifference(`isolation of ${dev}`, onOff(link.isolated), onOff(set.isolated))),
  ])
}

function vlanDifferences(op: OpOf<'vlan.add' | 'vlan.delete'>, { vlans }: Observed): readonly string[] {
  if (vlans === undefined) return []
  const isThere = vlans.get(op.dev)?.includes(op.vid) ?? false
  if (op.kind === 'vlan.add') return isThere ? [] : [`VLAN ${op.vid} is missing on ${op.dev}`]
  return isThere ? [`VLAN ${op.vid} is still on ${op.dev}`] : []
}
