// SPDX-License-Identifier: Apache-2.0
// Routes of the node's main table, as `ip` shows and takes them (ip-route(8)). The agent's own have a protocol number of
// their own; nothing else is ever changed. A route to a node behind a router says where its packets are encapsulated to.

import { hash } from 'node:crypto'
import { familyOf } from '../cni/addresses.ts'
import { oneLine } from '../cni/errors.ts'
import { asObject, type JsonObject } from '../cni/json.ts'
import { isPodLinkName } from '../drivers/names.ts'
import { batchLine } from '../kernel/batch.ts'
import { readDocuments, requireSeen } from '../kernel/look.ts'
import { mainTable } from '../kernel/operation.ts'
import { readKernelFile, readSysctl } from '../kernel/proc.ts'
import type { Run } from '../process/runner.ts'
import { type Range, rangeOf } from './node-ranges.ts'

/**
 * The protocol of the agent's routes (rtnetlink(7), rtm_protocol), free in iproute2's rt_protos: a network manager that
 * keeps its hands off other protocols leaves them alone. Their metric: an IPv4 route that a person adds without one wins.
 */
export const routeProtocol = 116
export const routeMetric = 116

/** A route of the main table. `gateway` and `dev`: absent where it has none. */
export interface KernelRoute {
  readonly range: Range
  readonly isUnicast: boolean
  readonly gateway?: string
  readonly dev?: string
  readonly remote?: string
  readonly vni?: number
  readonly metric: number
  readonly protocol: number
}

/** The overlay's device. */
export const overlayLink = 'trestle0'

const marks = { metric: routeMetric, protocol: routeProtocol }

export function routeByGateway(range: Range, gateway: string, dev: string): KernelRoute {
  return { range, isUnicast: true, gateway, dev, ...marks }
}

/** `remote`: the node's address that packets are encapsulated to. */
export function routeByOverlay(range: Range, remote: string, vni: number): KernelRoute {
  return { range, isUnicast: true, dev: overlayLink, remote, vni, ...marks }
}

export function unreachableRoute(range: Range): KernelRoute {
  return { range, isUnicast: false, ...marks }
}

export function isOwnRoute({ protocol }: KernelRoute): boolean {
  return protocol === routeProtocol
}

/** In a batch the family comes from the prefix after `root`; with one table named it is IPv4 all the same (ip/iproute.c). */
const queries = `addr show dev ${overlayLink}\nroute show table main root 0.0.0.0/0\nroute show table all root ::/0\n`

/** `device`: the overlay's. */
export interface LookedRoutes {
  /** Of what `ip` printed. */
  readonly digest: string
  readonly routes: readonly KernelRoute[]
  readonly device?: OverlayDevice
}

export interface OverlayDevice {
  readonly isGpe: boolean
  readonly port: number
  readonly mtu: number
  readonly isUp: boolean
  /** With their lengths. */
  readonly addresses: readonly string[]
}

/** The main table of both families; `before` where nothing has changed. One process. Throws CniError 100. */
export async function lookAtRoutes(run: Run, before?: LookedRoutes): Promise<LookedRoutes> {
  const output = await run({ file: 'ip', args: ['-N', '-j', '-d', '-force', '-batch', '-'], stdin: queries })
  requireSeen(output, 'ip')
  const digest = hash('sha256', output.stdout)
  if (digest === before?.digest) return before
  const [link] = readDocuments(output.stdout).filter(({ ifname }) => ifname === overlayLink)
  const routes = readRoutes(output.stdout)
  return link === undefined ? { digest, routes } : { digest, routes, device: readDevice(link) }
}

/**
 * A text that changes with the node's routes, rules and forwarding, in some milliseconds and one process. Not in it: elements
 * of sets, and routes to pods, which come and go. Undefined where the rules cannot be listed.
 */
export async function readSigns(run: Run): Promise<string | undefined> {
  const { code, stdout } = await run({ file: 'nft', args: ['-t', 'list', 'ruleset'] })
  if (code !== 0) return undefined
  const rules = stdout.replace(/packets \d+ bytes \d+/g, '')
  const linesOf = (name: string) => (readKernelFile(`/proc/self/net/${name}`) ?? '').split('\n')
  const four = linesOf('route').filter((line) => !isPodLinkName(line.slice(0, line.indexOf('\t'))))
  // Without the counts of references and uses (net/ipv6/route.c, rt6_native_seq_show).
  const six = linesOf('ipv6_route')
    .filter((line) => !line.startsWith('f') || /^f[cd]/.test(line))
    .filter((line) => !isPodLinkName(line.slice(line.lastIndexOf(' ') + 1)))
    .map((line) => line.slice(0, 113) + line.slice(131))
  const forwarding = ['ipv4/ip_forward', 'ipv6/conf/all/forwarding'].map((key) => readSysctl(`net/${key}`))
  return hash('sha256', [rules, ...four, ...six, ...forwarding].join('\n'))
}

function readDevice({ linkinfo, mtu, flags, addr_info: all }: JsonObject): OverlayDevice {
  const { gpe, external, port } = asObject(asObject(linkinfo)['info_data'])
  const isUp = Array.isArray(flags) && flags.includes('UP')
  const given = Array.isArray(all) ? all.map(asObject).filter(({ local }) => !String(local).startsWith('fe80:')) : []
  const addresses = given.map(({ local, prefixlen }) => `${local}/${prefixlen}`)
  return { isGpe: gpe === true && external === true, port: Number(port), mtu: Number(mtu), isUp, addresses }
}

/** Reading a prefix takes longer than all else of a route, and there are the same thousands at each look. */
const knownRanges = new Map<string, Range | undefined>()

function knownRange(text: string): Range | undefined {
  if (knownRanges.size > 50_000) knownRanges.clear()
  if (!knownRanges.has(text)) knownRanges.set(text, rangeOf(text))
  return knownRanges.get(text)
}

/** `ip` prints the remote of an encapsulation under the key that the destination has, too (ip/iproute_lwtunnel.c). */
export function readRoutes(stdout: string): readonly KernelRoute[] {
  const text = stdout.replace(/("encap":"ip6?","id":\d+,"src":"[^"]*",)"dst"/g, '$1"remote"')
  return readDocuments(text).flatMap((entry): readonly KernelRoute[] => {
    if (!('dst' in entry) || !['main', `${mainTable}`].includes(String(entry['table'] ?? 'main'))) return []
    // A multipath route counts by its first hop.
    const [hop] = Array.isArray(entry['nexthops']) ? (entry['nexthops'] as readonly object[]) : []
    const { gateway, via, dev, metric, protocol, type, id, remote } = { ...entry, ...hop } as typeof entry
    const through = gateway ?? (via as { host?: unknown } | undefined)?.host
    // The gateway of an IPv4 route may be one of IPv6 (RFC 8950).
    const isIpv6 = 'pref' in entry || familyOf(String(gateway ?? '')) === 6
    const range = knownRange(entry['dst'] === 'default' ? (isIpv6 ? '::/0' : '0.0.0.0/0') : String(entry['dst']))
    if (range === undefined) return []
    return [
      {
        range,
        // With -N numbers stand for names, but unicast has no word at all without -d.
        isUnicast: type === undefined || String(type) === '1' || type === 'unicast',
        ...(through === undefined ? {} : { gateway: String(through) }),
        ...(dev === undefined ? {} : { dev: String(dev) }),
        ...(remote === undefined ? {} : { remote: String(remote), vni: Number(id) }),
        metric: Number(metric ?? 0),
        protocol: Number(protocol ?? 0),
      },
    ]
  })
}

/** One line for `ip -batch`, and what it changes. `why` completes "could not …". */
export interface RouteChange {
  readonly words: readonly string[]
  readonly why: string
  readonly removes?: KernelRoute | undefined
  readonly adds?: KernelRoute
}

/** What has to change for the wanted routes to be there, and of the agent's others only those of `kept`. */
export function planRoutes(
  there: readonly KernelRoute[],
  wanted: readonly KernelRoute[],
  kept: ReadonlySet<KernelRoute> = new Set(),
): readonly RouteChange[] {
  const own = there.filter(isOwnRoute)
  const texts = new Set(wanted.map(({ range }) => range.text))
  const isExtra = (route: KernelRoute) => !texts.has(route.range.text) || route.metric !== routeMetric
  const removals = own.filter((route) => isExtra(route) && !kept.has(route)).map(removal)
  const byRange = new Map(own.filter(({ metric }) => metric === routeMetric).map((route) => [route.range.text, route]))
  const additions = wanted.flatMap((route) => {
    const former = byRange.get(route.range.text)
    return former !== undefined && isSame(former, route) ? [] : [addition(route, former)]
  })
  return [...removals, ...additions]
}

/** The table after changes that the kernel has made. */
function tableAfter(there: readonly KernelRoute[], changes: readonly RouteChange[]): readonly KernelRoute[] {
  const gone = new Set(changes.map(({ removes }) => removes))
  return [...there.filter((route) => !gone.has(route)), ...changes.flatMap(({ adds }) => adds ?? [])]
}

/** `ip` prints the loopback link with an unreachable route of IPv6. */
function isSame(one: KernelRoute, other: KernelRoute): boolean {
  if (!one.isUnicast || !other.isUnicast) return one.isUnicast === other.isUnicast
  return (['gateway', 'dev', 'remote', 'vni'] as const).every((key) => one[key] === other[key])
}

function removal(route: KernelRoute): RouteChange {
  const { range, gateway, dev, metric } = route
  const by = gateway === undefined ? [] : ['via', gateway]
  const on = dev === undefined || dev === 'lo' ? [] : ['dev', dev]
  const words = ['route', 'del', range.text, ...by, ...on, 'metric', `${metric}`, 'proto', `${routeProtocol}`]
  return { words, why: `remove the route to ${range.text}`, removes: route }
}

function addition(route: KernelRoute, former: KernelRoute | undefined): RouteChange {
  const { range, isUnicast, gateway, dev, remote, vni } = route
  // Over IPv6 a packet without a checksum is dropped where it arrives (net/ipv6/udp.c).
  const isSix = familyOf(remote ?? '') === 6
  const words6 = ['encap', 'ip6', 'id', `${vni}`, 'dst', `${remote}`, 'csum']
  const encap = remote === undefined ? [] : isSix ? words6 : ['encap', 'ip', 'id', `${vni}`, 'dst', remote]
  const by = [...(gateway === undefined ? [] : ['via', gateway]), ...encap, ...(dev === undefined ? [] : ['dev', dev])]
  const target = isUnicast ? [range.text, ...by] : ['unreachable', range.text]
  const words = ['route', 'replace', ...target, 'metric', `${routeMetric}`, 'proto', `${routeProtocol}`]
  const to = gateway ?? (remote === undefined ? 'nowhere' : `the overlay to ${remote}`)
  return { words, why: `route ${range.text} by ${to}`, removes: former, adds: route }
}

/**
 * What is to be. `isStale`: no list has this node now, so that none is removed. `isOverlayUsable`: false where the device
 * could not be made as it is to be: routes through it stay as they are.
 */
interface WantedRoutes {
  readonly wanted: readonly KernelRoute[]
  readonly kept?: ReadonlySet<KernelRoute>
  readonly isStale?: boolean
  readonly isOverlayUsable?: boolean
}

/** Makes the table as it is to be. Returns how it is then, what was done, and what the kernel refused. Throws CniError 100. */
export async function settleRoutes(run: Run, looked: LookedRoutes, wish: WantedRoutes) {
  const { wanted, kept, isStale = false, isOverlayUsable = true } = wish
  const changes = planRoutes(looked.routes, wanted, kept).filter(({ adds }) => {
    return adds === undefined ? !isStale : isOverlayUsable || adds.remote === undefined
  })
  const refusals = await applyRoutes(run, changes)
  const refused = new Set(refusals.map(({ change }) => change))
  const done = changes.filter((change) => !refused.has(change))
  // Without its digest the next look reads all again.
  const now = done.length === 0 ? looked : { ...looked, digest: '', routes: tableAfter(looked.routes, done) }
  return { looked: now, made: done.map(({ why }) => why), refusals }
}

/** A change that the kernel refused, and its text. */
export interface Refusal {
  readonly change: RouteChange
  readonly text: string
}

/** Makes all changes in one process, each for itself. A route that is gone counts as removed. Throws CniError 100. */
async function applyRoutes(run: Run, changes: readonly RouteChange[]): Promise<readonly Refusal[]> {
  if (changes.length === 0) return []
  const stdin = changes.map(({ words }) => batchLine(words)).join('')
  const output = await run({ file: 'ip', args: ['-force', '-batch', '-'], stdin })
  const refusals = readRefusals(changes, output.stderr)
  // Without a refusal a failure is of `ip` itself, which was killed or is missing.
  if (refusals.length === 0) requireSeen(output, 'ip')
  return refusals.filter(({ change, text }) => change.adds !== undefined || !/No such process/.test(text))
}

/** With -force `ip` goes on after a failure, and prints its reason and then its line. */
export function readRefusals(changes: readonly RouteChange[], stderr: string): readonly Refusal[] {
  const refusals: Refusal[] = []
  let reason: string[] = []
  for (const line of stderr.split('\n')) {
    const at = /^Command failed -:(\d+)/.exec(line)?.[1]
    if (at === undefined) reason.push(line)
    else {
      const change = changes[Number(at) - 1]
      if (change !== undefined) refusals.push({ change, text: oneLine(reason.join(' ')) })
      reason = []
    }
  }
  return refusals
}
