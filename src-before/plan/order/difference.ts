// SPDX-License-Identifier: Apache-2.0
// desired − observed. An operation is also a statement about the kernel; `lacking` says in which
// ways it does not hold. CHECK prints that, repair runs those operations, DEL and GC ask it whether
// there is anything left to take away (docs/design.md, "One difference").

import { bareAddress, parseCidr } from '../../cni/address.ts'
import type { PodRoute } from '../../model/attachment.ts'
import type { Observed, ObservedLink, ObservedNamespace, ObservedQueue, ObservedRoute } from '../../model/observed.ts'
import {
  describeElement,
  type Element,
  forwardingKey,
  hasElement,
  isMaking,
  type MakingOp,
  mainTable,
  type Op,
} from '../../model/op.ts'
import { declarationsOf, ruleComment, setSpec, type TableFamily } from '../../model/tables.ts'

/**
 * An operation whose effect is not there, and each way in which it is not, for people: none for a setting that goes
 * with the port's move to its bridge.
 */
export interface Difference {
  readonly op: Op
  readonly found: readonly string[]
}

export function difference(ops: readonly Op[], observed: Observed): readonly Difference[] {
  const compared = ops.map((op) => ({ op, found: opDifference(op, observed) }))
  const moved = new Set(compared.flatMap(({ op, found }) => (op.kind === 'port.master' && found[0] ? [op.dev] : [])))
  const goesWithMove = (op: Op) => 'dev' in op && portSettings.includes(op.kind) && moved.has(op.dev)
  return compared.filter(({ op, found }) => found.length > 0 || goesWithMove(op))
}

/** A port has them of its bridge, and loses them with it (net/bridge/br_if.c, new_nbp and del_nbp). */
const portSettings: readonly Op['kind'][] = ['port.flags', 'port.isolation', 'vlan.add', 'vlan.del']

/** What does not hold inside the pod: of operations there, and of its end of a link that is made on the host. */
export function podDifference(ops: readonly Op[], observed: Observed): readonly string[] {
  return ops.flatMap((op) => {
    if (isMaking(op)) return podEndDifference(op, observed)
    return op.in === 'pod' ? opDifference(op, observed) : []
  })
}

/** In which ways `op` does not hold; empty when it does, or when its place was not looked at. */
function opDifference(op: Op, observed: Observed): readonly string[] {
  const place = op.in === 'host' ? observed.host : observed.pod
  if (place === undefined) return []
  switch (op.kind) {
    case 'hostroute.replace':
      return hostRouteDifference(op.dst, op.dev, place)
    case 'route.add':
      return routeDifference(op.route, op.dev, place)
    case 'rule.add':
    case 'rule.del':
      return ruleDifference(op, place)
    case 'sysctl.pod':
      return podSysctlDifference(op.key, op.value, observed)
    case 'sysctl.write':
      return sysctlDifference(op.key, op.value, observed)
    case 'forwarding.on':
      return sysctlDifference(forwardingKey(op.family), '1', observed)
    case 'qdisc.tbf':
    case 'qdisc.ingress':
    case 'filter.redirect':
      return queueDifference(op, observed.queues)
    case 'nft.base':
    case 'nft.chain':
    case 'nft.chain.del':
    case 'nft.add':
    case 'nft.del':
      return tableDifference(op, observed)
    case 'qdisc.del':
    case 'route.del':
    case 'route.show-default':
    case 'neigh.announce':
    case 'neigh.announce6':
    case 'nft.base.show':
    case 'nft.table.del':
    case 'nft.flush':
      return []
    default:
      return linkDifference(op, place, observed)
  }
}

function hostRouteDifference(dst: string, dev: string, place: ObservedNamespace): readonly string[] {
  const there = (place.routes.get(mainTable) ?? []).some((route) => route.dst === dst && route.dev === dev)
  return there ? [] : [`host route to ${dst} dev ${dev} is missing`]
}

function ruleDifference(
  op: Extract<Op, { kind: 'rule.add' | 'rule.del' }>,
  place: ObservedNamespace,
): readonly string[] {
  if (place.rules === undefined) return []
  const isThere = place.rules.some((rule) => rule.from === op.from && rule.table === op.table)
  if (isThere === (op.kind === 'rule.add')) return []
  return [`rule from ${op.from} table ${op.table} is ${isThere ? 'still there' : 'missing'}`]
}

function podSysctlDifference(key: string, value: string, observed: Observed): readonly string[] {
  if (observed.podSysctls === undefined) return []
  // The kernel prints several values with tabs between them.
  const now = observed.podSysctls.get(key)?.trim().replace(/\s+/g, ' ')
  return valueDifference(`${key.replaceAll('/', '.')} in the pod`, now ?? 'absent', value.trim().replace(/\s+/g, ' '))
}

function routeDifference(route: PodRoute, dev: string, place: ObservedNamespace): readonly string[] {
  // A later plugin that routes by source moves routes to a table of its own, and the result does not tell.
  const routes = route.table === undefined ? [...place.routes.values()].flat() : (place.routes.get(route.table) ?? [])
  const there = routes.filter((other) => other.dst === route.dst && other.dev === dev)
  const via = route.gw === undefined ? '' : ` via ${route.gw}`
  if (there.some((other) => matches(other, route))) return []
  return [`route to ${route.dst}${via} dev ${dev} is ${there.length === 0 ? 'missing' : 'different'}`]
}

function matches(there: ObservedRoute, route: PodRoute): boolean {
  const keys = ['gw', 'priority', 'mtu', 'advmss'] as const
  return keys.every((key) => route[key] === undefined || route[key] === there[key])
}

function sysctlDifference(key: string, value: string, observed: Observed): readonly string[] {
  const now = observed.sysctls.get(key)
  const isWithout = now === undefined && value === '0' && isOfLinkThere(key, observed.host)
  if (!observed.sysctls.has(key) || isWithout) return []
  return valueDifference(key.replaceAll('/', '.'), now ?? 'absent', value)
}

/** A link without IPv6 (an MTU below 1280, or none on the node) has no such setting, and takes no advertisement. */
function isOfLinkThere(key: string, host: ObservedNamespace): boolean {
  return key.startsWith('net/ipv6/conf/') && host.links.has(key.split('/')[3] ?? '')
}

type QueueOp = Extract<Op, { kind: 'filter.redirect' | 'qdisc.tbf' | 'qdisc.ingress' }>

/** tc rounds rates to bytes and bursts to its clock's ticks (tc/tc_core.c): a hundredth is no difference. */
const tolerance = 0.01
/** Nor is a bucket that fills so much sooner: tc cuts the time to whole microseconds, twice. */
const cutS = 2e-6

/** What differs, for people; empty when all holds or queues were not looked at. */
export function queueDifference(
  op: QueueOp,
  queues: ReadonlyMap<string, ObservedQueue> | undefined,
): readonly string[] {
  if (queues === undefined) return []
  const queue = queues.get(op.dev)
  switch (op.kind) {
    case 'qdisc.ingress':
      return queue?.hasIngress ? [] : [`ingress qdisc is missing on ${op.dev}`]
    case 'filter.redirect':
      return queue?.redirectTo === op.to ? [] : [`filter to ${op.to} is missing on ${op.dev}`]
    case 'qdisc.tbf':
      if (queue?.rateBits === undefined) return [`bandwidth limit is missing on ${op.dev}`]
      return [
        ...(isNear(queue.rateBits, op.rateBits)
          ? []
          : [`bandwidth limit on ${op.dev} is ${queue.rateBits} bit/s, not ${op.rateBits}`]),
        ...(isNear(queue.burstBytes ?? 0, op.burstBytes, (op.rateBits / 8) * cutS)
          ? []
          : [`burst on ${op.dev} is ${queue.burstBytes ?? 0} bytes, not ${op.burstBytes}`]),
      ]
    default:
      return op satisfies never
  }
}

function isNear(is: number, wanted: number, margin = 8): boolean {
  return Math.abs(is - wanted) <= Math.max(wanted * tolerance, margin, 8)
}

// In which ways links, their addresses and their place on a bridge are not as they were set up.

type LinkKind =
  | 'veth.add'
  | 'macvlan.add'
  | 'device.move'
  | 'device.return'
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
function linkDifference(op: LinkOp, place: ObservedNamespace, observed: Observed): readonly string[] {
  switch (op.kind) {
    case 'veth.add':
      return vethDifference(op, observed)
    case 'macvlan.add':
      return macvlanDifference(op, observed)
    case 'device.move':
      return podEndDifference(op, observed)
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
    case 'device.return':
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
function podEndDifference(op: MakingOp, { host, pod }: Observed): readonly string[] {
  if (pod === undefined) return []
  if (op.kind === 'macvlan.add') return macvlanInPod(op, pod, host.links.get(op.dev))
  if (op.kind === 'device.move') return deviceInPod(op, pod)
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

function deviceInPod(op: Extract<Op, { kind: 'device.move' }>, pod: ObservedNamespace): readonly string[] {
  return onLink(pod, op.ifName, (link) => [
    ...valueDifference(`kind of ${op.ifName}`, link.kind ?? 'none', op.of ?? 'none'),
    ...valueDifference(`MAC of ${op.ifName}`, link.mac, op.mac),
    ...valueDifference(`MTU of ${op.ifName}`, link.mtu, op.mtu),
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

// In which ways our nft tables lack rules or elements that were put there.

type TableOp = Extract<Op, { kind: 'nft.base' | 'nft.chain' | 'nft.chain.del' | 'nft.add' | 'nft.del' }>

/** What differs, for people; empty when all holds or the table was not looked at. */
function tableDifference(op: TableOp, observed: Observed): readonly string[] {
  switch (op.kind) {
    case 'nft.base':
      return baseDifference(op, observed)
    case 'nft.chain':
      return chainDifference(op, observed)
    case 'nft.chain.del':
      return isChainThere(op.chain, observed) ? [`nft chain ${op.chain} is still there`] : []
    case 'nft.add':
      return elementDifference(op, observed)
    case 'nft.del':
      return elementDifference(op, observed).length === 0
        ? [`${describeElement(op)} is still in nft set ${op.set}`]
        : []
    default:
      return op satisfies never
  }
}

function baseDifference(op: Extract<TableOp, { kind: 'nft.base' }>, observed: Observed): readonly string[] {
  const { table: family, acceptMark } = op
  const table = tableIn(observed, family)
  if (table === undefined) return []
  if (table === 'absent') return [`nft table ${family} trestle is missing`]
  const flags = table.hasFlags ? [`nft table ${family} trestle has a flag that is not ours: it may be dormant`] : []
  const chains = declarationsOf(family, acceptMark).chains.flatMap((chain) => {
    const there = table.rules.get(chain.name)
    if (there === undefined) return [`nft chain ${chain.name} is missing`]
    const missing = chain.rules.filter((rule) => !there.includes(rule.comment))
    // Rules for a mark that no network asks for may be those of pods whose records are lost.
    const isUnused = chain.rules.length === 0
    const isOurs = (comment: string) =>
      isUnused ? comment.startsWith(ruleComment('')) : chain.rules.some((rule) => rule.comment === comment)
    return [
      ...missing.map((rule) => `nft rule "${rule.comment}" is missing from ${chain.name}`),
      // A rule of somebody else may decide before ours do.
      ...(there.every(isOurs) ? [] : [`a rule that is not ours is in nft chain ${chain.name}`]),
      ...(table.dropping?.includes(chain.name) ? [`policy of nft chain ${chain.name} is drop, not accept`] : []),
    ]
  })
  return [...flags, ...chains]
}

function chainDifference(op: Extract<TableOp, { kind: 'nft.chain' }>, { table }: Observed): readonly string[] {
  if (table === undefined) return []
  const isThere = table !== 'absent' && table.rules.get(op.chain)?.includes(op.comment)
  return isThere ? [] : [`nft rule "${op.comment}" is missing from ${op.chain}`]
}

function isChainThere(chain: string, { table }: Observed): boolean {
  return table !== undefined && table !== 'absent' && table.rules.has(chain)
}

function elementDifference(element: Element, observed: Observed): readonly string[] {
  const table = tableIn(observed, setSpec(element.set).table)
  if (table === undefined) return []
  if (table !== 'absent' && hasElement(table.elements, element)) return []
  return [`element ${describeElement(element)} is missing from nft set ${element.set}`]
}

function tableIn(observed: Observed, family: TableFamily): Observed['table'] {
  return family === 'inet' ? observed.table : observed.bridgeTable
}

// The sentence for one value that is not as wanted.

/** What differs, for people; empty when nothing does. */
function valueDifference(what: string, is: string | number, wanted: string | number): readonly string[] {
  return is === wanted ? [] : [`${what} is ${is}, not ${wanted}`]
}
