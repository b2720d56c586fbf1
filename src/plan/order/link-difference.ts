// SPDX-License-Identifier: Apache-2.0
// In which ways links, their addresses and their place on a bridge are not as they were set up.

import { bareAddress, parseCidr } from '../../cni/address.ts'
import type { Observed, ObservedLink, ObservedNamespace } from '../../model/observed.ts'
import type { Op } from '../../model/op.ts'
import { valueDifference } from './value-difference.ts'

type LinkKind =
  | 'veth.add'
  | 'macvlan.add'
  | 'bridge.add'
  | 'ifb.add'
  | `vlan.${string}`
  | `link.${string}`
  | 'group.del'
type LinkOp = Extract<Op, { kind: LinkKind | `port.${string}` | `addr.${string}` }>
type PresentLinkOp = Exclude<
  Extract<LinkOp, { kind: `link.${string}` | `port.${string}` | 'addr.replace' }>,
  { kind: 'link.del' | 'link.name' | 'link.group' | 'link.no-local' | 'link.show' }
>

/** What differs, for people; empty when all holds, or for what is not compared. `place`: where the operation acts. */
export function linkDifference(op: LinkOp, place: ObservedNamespace, observed: Observed): readonly string[] {
  switch (op.kind) {
    case 'veth.add':
      return vethDifference(op, observed)
    case 'macvlan.add':
      return macvlanDifference(op, observed)
    case 'bridge.add':
      return onLink(place, op.name, (link) => valueDifference(`kind of ${op.name}`, link.kind ?? 'none', 'bridge'))
    case 'ifb.add':
      return onLink(place, op.name, (link) => valueDifference(`kind of ${op.name}`, link.kind ?? 'none', 'ifb'))
    case 'vlan.gateway':
      return onLink(place, op.name, (link) => valueDifference(`MAC of ${op.name}`, link.mac, op.mac))
    case 'vlan.add':
    case 'vlan.del':
      return vlanDifference(op, observed)
    case 'link.del':
      return place.links.has(op.dev) ? [`${op.dev} is still there`] : []
    case 'addr.del':
      return place.links.get(op.dev)?.addresses.includes(op.cidr) ? [`${op.cidr} is still on ${op.dev}`] : []
    case 'group.del':
    case 'link.group':
    case 'link.name':
    case 'link.no-local':
    case 'addr.show':
    case 'link.show':
      return []
    default:
      return onLink(place, op.dev, (link) => settingDifference(op, link))
  }
}

function settingDifference(op: PresentLinkOp, link: ObservedLink): readonly string[] {
  switch (op.kind) {
    case 'link.up':
      return link.up ? [] : [`${op.dev} is down`]
    case 'link.down':
      return link.up ? [`${op.dev} is up`] : []
    case 'link.mac':
      return valueDifference(`MAC of ${op.dev}`, link.mac, op.mac)
    case 'link.mtu':
      return valueDifference(`MTU of ${op.dev}`, link.mtu, op.mtu)
    case 'link.alias':
      return valueDifference(`alias of ${op.dev}`, link.alias ?? 'none', op.alias)
    case 'link.promisc':
      return link.promisc === (op.on ?? true) ? [] : [`${op.dev} is ${link.promisc ? '' : 'not '}promiscuous`]
    case 'link.allmulti':
      return valueDifference(`allmulti of ${op.dev}`, onOff(link.allmulti), onOff(op.on))
    case 'link.txqlen':
      return valueDifference(`queue length of ${op.dev}`, link.txqlen ?? 0, op.length)
    case 'port.master':
      return valueDifference(`bridge of ${op.dev}`, link.master ?? 'none', op.master)
    case 'port.isolation':
      return valueDifference(`isolation of ${op.dev}`, onOff(link.isolated), onOff(op.isolated))
    case 'port.flags':
      return [
        ...valueDifference(`hairpin of ${op.dev}`, onOff(link.hairpin), onOff(op.hairpin)),
        ...valueDifference(`isolation of ${op.dev}`, onOff(link.isolated), onOff(op.isolated)),
      ]
    case 'addr.replace':
      return link.addresses.some((each) => each === op.cidr || isWider(each, op))
        ? []
        : [`${op.cidr} is missing on ${op.dev}`]
    default:
      return op satisfies never
  }
}

function vethDifference(op: Extract<Op, { kind: 'veth.add' }>, observed: Observed): readonly string[] {
  const onHost = onLink(observed.host, op.name, (link) => [
    ...(link.up ? [] : [`${op.name} is down`]),
    ...valueDifference(`MAC of ${op.name}`, link.mac, op.mac),
    ...valueDifference(`MTU of ${op.name}`, link.mtu, op.mtu),
    ...valueDifference(`bridge of ${op.name}`, link.master ?? 'none', op.master ?? 'none'),
  ])
  return [...onHost, ...podEndDifference(op, observed)]
}

/** What differs of the pod's own end alone; that it is the right one only where the host's end was looked at, too. */
export function podEndDifference(
  op: Extract<Op, { kind: 'veth.add' | 'macvlan.add' }>,
  { host, pod }: Observed,
): readonly string[] {
  if (pod === undefined) return []
  if (op.kind === 'macvlan.add') return macvlanInPod(op, pod, host.links.get(op.dev))
  const hostEnd = host.links.get(op.name)
  return onLink(pod, op.peer, (link) => [
    ...valueDifference(`MAC of ${op.peer}`, link.mac, op.peerMac),
    ...valueDifference(`MTU of ${op.peer}`, link.mtu, op.peerMtu ?? op.mtu),
    ...(hostEnd === undefined ? [] : valueDifference(`other end of ${op.name}`, hostEnd.peerIndex ?? 0, link.index)),
  ])
}

function macvlanDifference(op: Extract<Op, { kind: 'macvlan.add' }>, observed: Observed): readonly string[] {
  return observed.host.links.has(op.dev) ? podEndDifference(op, observed) : [`${op.dev} is missing`]
}

function macvlanInPod(
  op: Extract<Op, { kind: 'macvlan.add' }>,
  pod: ObservedNamespace,
  master: ObservedLink | undefined,
): readonly string[] {
  return onLink(pod, op.ifName, (link) => [
    ...valueDifference(`kind of ${op.ifName}`, link.kind ?? 'none', 'macvlan'),
    ...valueDifference(`macvlan mode of ${op.ifName}`, link.macvlanMode ?? 'none', op.mode),
    ...valueDifference(`MAC of ${op.ifName}`, link.mac, op.mac),
    ...valueDifference(`MTU of ${op.ifName}`, link.mtu, op.mtu),
    ...(master === undefined ? [] : valueDifference(`master of ${op.ifName}`, link.peerIndex ?? 0, master.index)),
  ])
}

function vlanDifference(op: Extract<Op, { kind: 'vlan.add' | 'vlan.del' }>, observed: Observed): readonly string[] {
  if (observed.vlans === undefined) return []
  const isThere = observed.vlans.get(op.dev)?.includes(op.vid) ?? false
  if (op.kind === 'vlan.add') return isThere ? [] : [`VLAN ${op.vid} is missing on ${op.dev}`]
  return isThere ? [`VLAN ${op.vid} is still on ${op.dev}`] : []
}

function onLink(
  place: ObservedNamespace,
  dev: string,
  compare: (link: ObservedLink) => readonly string[],
): readonly string[] {
  const link = place.links.get(dev)
  return link === undefined ? [`${dev} is missing`] : compare(link)
}

/**
 * Whether an address of the host is the wanted one for more than its range. An IPv6 address is once on a link
 * (net/ipv6/addrconf.c, ipv6_add_addr): another network on the bridge may have it with a shorter prefix.
 */
function isWider(there: string, wanted: Extract<Op, { kind: 'addr.replace' }>): boolean {
  const [one, other] = [parseCidr(there), parseCidr(wanted.cidr)]
  return (
    wanted.in === 'host' &&
    one?.family === 6 &&
    other !== undefined &&
    bareAddress(there) === bareAddress(wanted.cidr) &&
    one.prefixLength < other.prefixLength
  )
}

function onOff(flag: boolean | undefined): string {
  return flag === undefined ? 'unknown' : flag ? 'on' : 'off'
}
