// SPDX-License-Identifier: Apache-2.0
// CHECK: links, addresses and routes are compared with prevResult, since later plugins of the list may have changed them;
// rules, queues, reservations, hairpin and sysctls with the record. Every difference is named at once.

import { bareAddress, familyOf, formatAddress, networkText, overlaps, parseAddress, toCidr } from '../cni/addresses.ts'
import type { Call } from '../cni/call.ts'
import { CniError, Code } from '../cni/errors.ts'
import type { Result } from '../cni/results.ts'
import type { NetworkConf } from '../config/network-conf.ts'
import { opsOf, ownLinks, sharedElements } from '../drivers/attachment.ts'
import { keepNetworkOps } from '../drivers/bridge.ts'
import type { AttachmentId, NetworkSpec, PodRoute, Spec } from '../drivers/spec.ts'
import { missingAccepts } from '../features/host-accept.ts'
import { delegate } from '../ipam/delegate.ts'
import { toolOf } from '../kernel/batch.ts'
import { differencesOf, valueDifference } from '../kernel/differences.ts'
import { lookAtHost, lookAtPod, lookAtTable } from '../kernel/look.ts'
import { closeNetns, type OpenNetns } from '../kernel/netns.ts'
import { otherVersionIn, type TableFamily, tableOf } from '../kernel/nft-table.ts'
import type { Observed, ObservedTable, Place } from '../kernel/observed.ts'
import { elementOps, type Op, setTable } from '../kernel/operation.ts'
import { readSysctl } from '../kernel/proc.ts'
import { lookAtQueues, lookAtVlans } from '../kernel/queue-look.ts'
import type { Machine } from '../process/machine.ts'
import { finishedFile, requireStateIfThere } from '../state/layout.ts'
import { findRecord, readNetwork, recordFormat } from '../state/records.ts'
import { holdsAddress, holdsPort, portName } from '../state/reservations.ts'
import type { Context } from './context.ts'
import { checkLoopback } from './loopback.ts'
import { networkElementsNow } from './set-up.ts'

export async function check(call: Call, conf: NetworkConf, context: Context): Promise<void> {
  if (conf.mode === 'loopback') return await checkLoopback(call, context)
  const named = { network: conf.name, containerId: call.containerId, ifName: call.ifName }
  const netns = conf.mode === 'ipam' ? undefined : context.machine.openNetns(call.netns)
  try {
    requireStateIfThere(conf.name)
    // The configuration only guesses the role: an entry behind another plugin need not name its mode.
    const roles = conf.mode === 'ipam' ? (['ipam'] as const) : ([conf.role, 'chained'] as const)
    const record = roles.map((role) => findRecord({ ...named, role })).find((found) => found !== undefined)
    const id = record?.id ?? { ...named, role: conf.role }
    if (record === undefined) throw differs(id, [`no record of this attachment in ${finishedFile(id)}`])
    if (record.format !== recordFormat) {
      process.stderr.write(
        `trestle: CHECK: the record of ${id.ifName} has format ${record.format}: nothing is compared\n`,
      )
      return
    }
    const { spec } = record
    const differences =
      spec === undefined
        ? [`the ADD of ${id.ifName} was not finished`]
        : await compare(spec, conf, call, netns, context.machine)
    if (differences.length > 0) throw differs(id, differences)
    // An entry behind another plugin need not name its mode: its `ipam` is nobody's.
    if (conf.ipam.kind === 'delegated' && id.role !== 'chained')
      await delegate(context.machine, { type: conf.ipam.type, verb: 'CHECK', path: call.path, stdin: conf.stdin })
  } finally {
    closeNetns(netns)
  }
}

function differs({ ifName, containerId }: AttachmentId, found: readonly string[]): CniError {
  const differences = [...new Set(found)]
  const count = differences.length === 1 ? '1 difference' : `${differences.length} differences`
  const message = `${ifName} of container ${containerId} is not as it was set up: ${count}`
  return new CniError(Code.checkFailed, 'attachment-differs', message, { details: differences.join('\n') })
}

async function compare(
  spec: Spec,
  conf: NetworkConf,
  call: Call,
  netns: OpenNetns | undefined,
  machine: Machine,
): Promise<readonly string[]> {
  const reservations = missingReservations(spec)
  if (conf.mode === 'ipam' || netns === undefined) return reservations
  const isOwn = spec.mode !== 'chained'
  const result = conf.prevResult ?? { interfaces: [], ips: [], routes: [] }
  const { spec: wanted, missing } = isOwn ? expectedSpec(spec, result, call) : { spec, missing: [] }
  const network = spec.network && (readNetwork(spec.network) ?? spec.network)
  const ops = [...networkOps(network, wanted), ...opsOf(wanted)]
  let observed = await look(ops, wanted, netns, machine)
  let found = differencesIn(ops, observed)
  // A set that is being filled again lists empty for a moment (net/netfilter/nft_set_pipapo.c).
  if (found.some((line) => line.startsWith('element '))) {
    observed = { ...observed, tables: await lookAtTables(ops, machine) }
    found = differencesIn(ops, observed)
  }
  reportOtherVersion(observed)
  const absent = isOwn ? absentFromPod(result, wanted, observed) : []
  const accepts = network?.accept === undefined ? [] : await missingAccepts(machine)
  return [...missing, ...absent, ...deviceDifferences(wanted, observed), ...found, ...reservations, ...accepts]
}

/** The part of CHECK inside a pod. `result`: what plugins have said of it last. `hasAddress`: the interface has one. */
export async function compareInPod(
  spec: Spec,
  result: Result | undefined,
  netns: OpenNetns,
  machine: Machine,
): Promise<{ readonly found: readonly string[]; readonly pod: Place | undefined }> {
  const call = { netns: netns.identity.path }
  const { spec: wanted } = spec.mode === 'chained' || result === undefined ? { spec } : expectedSpec(spec, result, call)
  const ops = opsOf(wanted).filter(({ place, kind }) => place === 'pod' || kind === 'veth.add')
  const { pod, podSysctls } = await lookAtPod(machine, netns, podQuestion(ops))
  return { found: differencesIn(ops, { pod, podSysctls }), pod }
}

/** A device of the host was not made by an operation that could be compared. */
function deviceDifferences({ device, pod }: Spec, observed: Observed): readonly string[] {
  const link = device && pod && observed.pod?.links.get(pod.name)
  if (link === undefined) return []
  return [
    ...valueDifference(`MAC of ${pod?.name}`, link.mac, pod?.mac ?? ''),
    ...valueDifference(`MTU of ${pod?.name}`, link.mtu, pod?.mtu ?? 0),
  ]
}

function missingReservations({ id, mode, addresses, hostPorts }: Spec): readonly string[] {
  const isReserved = mode !== 'chained'
  const lost = isReserved
    ? addresses.map(({ address }) => bareAddress(address)).filter((address) => !holdsAddress(id, address))
    : []
  const ports = (hostPorts?.ports ?? []).filter((port) => !holdsPort(id, port))
  return [
    ...lost.map((address) => `the reservation of ${address} is missing`),
    ...ports.map((port) => `the reservation of host port ${portName(port)} is missing`),
  ]
}

/** The spec with what prevResult says of the interface by now, and what prevResult does not have at all. */
function expectedSpec(
  spec: Spec,
  result: Result,
  { netns }: Pick<Call, 'netns'>,
): { spec: Spec; missing: readonly string[] } {
  const { pod, host } = spec
  if (pod === undefined) return { spec, missing: [] }
  const at = result.interfaces.findIndex(({ name, sandbox }) => name === pod.name && sandbox)
  const own = result.interfaces[at]
  const end = result.interfaces.find(({ name, sandbox }) => name === host?.name && !sandbox)
  const missing: string[] = []
  if (own === undefined) missing.push(`prevResult has no interface ${pod.name} in ${netns}`)
  else if (own.sandbox !== netns)
    missing.push(`prevResult has ${pod.name} in ${own.sandbox}, not in CNI_NETNS ${netns}`)
  if (host !== undefined && end === undefined) missing.push(`prevResult has no interface ${host.name}`)
  const named = new Set(result.ips.filter((ip) => ip.interface === at).map(({ address }) => address))
  const routes = new Set(result.routes.map(({ dst }) => networkText(dst)))
  const isThere = ({ dst, src }: PodRoute) => src !== undefined || routes.has(dst)
  const mac = own?.mac?.toLowerCase() ?? pod.mac
  return {
    missing,
    spec: {
      ...spec,
      pod: { ...pod, mac, mtu: own?.mtu ?? pod.mtu },
      ...(host && { host: { ...host, mac: end?.mac?.toLowerCase() ?? host.mac } }),
      // Addresses of no interface came from a plugin before us: then ours say where they are.
      addresses: named.size === 0 ? spec.addresses : spec.addresses.filter(({ address }) => named.has(address)),
      // A later plugin may have taken a route, or moved it into a table of its own.
      routes: spec.routes.filter(isThere),
      defaultRoutes: spec.defaultRoutes.filter(isThere),
    },
  }
}

/** What the network shares, as far as this attachment depends on it. */
function networkOps(network: NetworkSpec | undefined, spec: Spec): readonly Op[] {
  if (network === undefined) return []
  const elements = networkElementsNow(network)
  const all = [...elements, ...sharedElements(spec)]
  const hasAccept = network.accept !== undefined
  const tables = new Set(
    [...all, ...opsOf(spec).flatMap((op) => ('element' in op ? [op.element] : []))].map(({ set }) => tableOf(set)),
  )
  const bases = [...tables].map((table): Op => setTable(table, hasAccept, false))
  return [...keepNetworkOps(network), ...bases, ...elementOps(all)]
}

/** One look: host links, the pod, our tables, queues; VLANs where there are any. At most four processes without VLANs. */
async function look(ops: readonly Op[], spec: Spec, netns: OpenNetns, machine: Machine): Promise<Observed> {
  const hostLinks = new Set([
    ...ownLinks(spec),
    ...ops.flatMap((op) => (op.place === 'host' && 'dev' in op ? [op.dev] : [])),
  ])
  if (spec.macvlan !== undefined) hostLinks.add(spec.macvlan.master)
  const queueLinks = new Set(ops.flatMap((op) => (toolOf(op) === 'tc' && 'dev' in op ? [op.dev] : [])))
  const hostKeys = ops.flatMap((op) => (op.kind === 'sysctl.set' && op.place === 'host' ? [op.key] : []))
  const hasHostRoutes = ops.some((op) => op.kind === 'route.add' && op.place === 'host')
  const looks = [
    lookAtHost(machine, [...hostLinks], hasHostRoutes),
    lookAtPod(machine, netns, podQuestion(ops)),
    lookAtTables(ops, machine),
    queueLinks.size === 0 ? undefined : lookAtQueues(machine, [...queueLinks]),
    ops.some((op) => toolOf(op) === 'bridge') ? lookAtVlans(machine) : undefined,
  ] as const
  // Where one fails the others end first: no tool outlives its call.
  await Promise.allSettled(looks)
  const [host, inPod, tables, queues, vlans] = await Promise.all(looks)
  return {
    host,
    ...inPod,
    tables,
    hostSysctls: new Map(hostKeys.map((key) => [key, readSysctl(key)])),
    ...(queues ? { queues } : {}),
    ...(vlans ? { vlans } : {}),
  }
}

function podQuestion(ops: readonly Op[]) {
  const keys = ops.flatMap((op) => (op.kind === 'sysctl.set' && op.place === 'pod' ? [op.key] : []))
  const ruleFamilies = [...new Set(ops.flatMap((op) => (op.kind === 'rule.add' ? [familyOf(op.from)] : [])))]
  return { keys, ruleFamilies }
}

async function lookAtTables(ops: readonly Op[], machine: Machine): Promise<ReadonlyMap<TableFamily, ObservedTable>> {
  const wanted = new Set(ops.flatMap((op) => (op.kind === 'table.set' ? [op.table] : [])))
  const found = await Promise.all([...wanted].map(async (table) => [table, await lookAtTable(machine, table)] as const))
  return new Map(found.flatMap(([table, seen]) => (seen === undefined ? [] : [[table, seen]])))
}

function differencesIn(ops: readonly Op[], observed: Observed): readonly string[] {
  // A port that lost its bridge has lost its settings with it (net/bridge/br_if.c, del_nbp): one line says so.
  const all = ops.flatMap((op) => differencesOf(op, observed).map((line) => ({ op, line })))
  const unplugged = new Set(
    all.flatMap(({ op, line }) => (op.kind === 'veth.add' && line.startsWith('bridge of ') ? [op.name] : [])),
  )
  const goesWithIt = (op: Op) =>
    'dev' in op &&
    unplugged.has(op.dev) &&
    (op.kind.startsWith('vlan') || (op.kind === 'link.set' && op.set.hairpin !== undefined))
  return all.filter(({ op }) => !goesWithIt(op)).map(({ line }) => line)
}

function reportOtherVersion({ tables }: Observed): void {
  for (const [table, seen] of tables ?? []) {
    const other = otherVersionIn([...seen.chains.values()].flat())
    if (other === undefined) continue
    const what = `rules of nft table ${table} trestle are of another version (${other}) and are not compared`
    process.stderr.write(`trestle: CHECK: ${what}\n`)
  }
}

/**
 * What prevResult says besides, and the pod has nowhere: routes, and addresses of no interface that are of our subnets. A
 * later plugin may have moved them to another table or link of the pod.
 */
function absentFromPod({ ips, routes, interfaces }: Result, spec: Spec, { pod }: Observed): readonly string[] {
  // Of several namespaces a result does not tell which one has a route.
  const sandboxes = new Set(interfaces.flatMap(({ sandbox }) => sandbox || []))
  if (pod === undefined || spec.isLeftDown || sandboxes.size > 1) return []
  const bySource = spec.sbr?.sources.flatMap((source) => source.routes) ?? []
  const known = new Set([...spec.routes, ...spec.defaultRoutes, ...bySource].map(({ dst }) => dst))
  const lines: string[] = []
  for (const { dst, gw } of routes) {
    const network = networkText(dst)
    const there = pod.routes.filter((route) => route.dst === network)
    // A later plugin may have given a default route another gateway (upstream sbr).
    const isAny = gw === undefined || ['0.0.0.0/0', '::/0'].includes(network) || /^(0\.0\.0\.0|::)$/.test(gw)
    const isThere = there.some((route) => isAny || route.gw === gw.toLowerCase() || route.gw === addressText(gw))
    if (!known.has(network) && !isThere)
      lines.push(`route to ${dst}${gw ? ` via ${gw}` : ''} of prevResult is missing in the pod`)
  }
  const addresses = [...pod.links.values()].flatMap((link) => link.addresses.map(bareAddress))
  for (const { address, interface: at } of ips) {
    const isNowhere = at === undefined || interfaces[at] === undefined
    const isOfOurs = spec.addresses.some((own) => overlaps(toCidr(own.address), toCidr(address)))
    if (isNowhere && isOfOurs && !addresses.includes(bareAddress(address)))
      lines.push(`${address} of prevResult is missing in the pod`)
  }
  return lines
}

function addressText(text: string): string | undefined {
  const address = parseAddress(text)
  return address && formatAddress(address)
}
