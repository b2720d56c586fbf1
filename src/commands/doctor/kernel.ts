// SPDX-License-Identifier: Apache-2.0
// Kernel facts: sysctls now and after the next start, routes back, policy rules.

import type { ObservedNamespace } from '../../../src-before/model/observed.ts'
import type { AttachmentRecord } from '../../../src-before/model/record.ts'
import { readKey } from '../../../src-before/system/kernel/kernel-files.ts'
import { defaultRouteLinks6 } from '../../../src-before/system/kernel/uplink.ts'
import { bareAddress, familyOf, includes, parseAddress, parseCidr } from '../../cni/addresses.ts'
import { readDocuments } from '../../kernel/look.ts'
import type { Run } from '../../process/runner.ts'
import { namesIn } from '../../state/files.ts'
import { textIfThere } from '../if-there.ts'
import { overlapOf } from '../lint/semantics.ts'
import type { KeptSetting, KernelFacts, PodNetwork, PodRouteFacts } from './facts.ts'
import { podOf } from './networks.ts'

/** The bound on pods whose routes are looked up: each routed pod has a route of its own. */
const mostRoutes = 50

interface KernelSources {
  readonly host: ObservedNamespace
  readonly networks: readonly PodNetwork[]
  readonly records: readonly AttachmentRecord[]
}

/** Starts four processes, one more for kube-proxy. */
export async function lookAtKernel(run: Run, { host, networks, records }: KernelSources): Promise<KernelFacts> {
  const links = [...new Set(networks.flatMap((network) => network.links))]
  const uplinks = uplinkAddresses(host)
  const uplinks6 = defaultRouteLinks6()
  const keys = [
    ...settingKeys([...links, ...uplinks.map(({ dev }) => dev)]),
    ...uplinks6.map((dev) => `net/ipv6/conf/${dev}/accept_ra`),
  ]
  const [backs, podRoutes, refusals, hasKubeProxy] = await Promise.all([
    routesFrom(run, uplinks, host),
    podRouteFacts(run, records),
    lookAtPolicyRules(run, networks, host),
    seesKubeProxy(run),
  ])
  return {
    settings: new Map(keys.map((key) => [key, readKey(key)])),
    uplinks: backs,
    uplinks6,
    podRoutes,
    refusals,
    kept: keptSettings(['net.ipv4.ip_forward', 'net.ipv6.conf.all.forwarding']),
    hasKubeProxy,
  }
}

function settingKeys(links: readonly string[]): readonly string[] {
  return [
    'net/ipv4/ip_forward',
    'net/ipv6/conf/all/forwarding',
    'net/ipv6/conf/all/disable_ipv6',
    'net/bridge/bridge-nf-call-iptables',
    'net/ipv4/conf/all/rp_filter',
    ...links.flatMap((dev) => [`net/ipv4/conf/${dev}/rp_filter`, `net/ipv6/conf/${dev}/disable_ipv6`]),
  ]
}

/** Interfaces with an IPv4 default route in any table, with their first address: rp_filter exists for IPv4 only. */
function uplinkAddresses({ links, routes }: ObservedNamespace) {
  const defaults = [...routes.values()].flat().filter(({ dst }) => dst === '0.0.0.0/0' || dst === 'default')
  const devs = [...new Set(defaults.flatMap(({ dev }) => dev ?? []))]
  return devs.flatMap((dev) => {
    const address = links.get(dev)?.addresses.find((each) => familyOf(each) === 4)
    return address === undefined ? [] : [{ dev, address: bareAddress(address) }]
  })
}

/** No packet is sent to the distant sender: the kernel is asked for the route. */
async function routesFrom(run: Run, uplinks: ReturnType<typeof uplinkAddresses>, { routes }: ObservedNamespace) {
  const far = farSender([...routes.values()].flat().map(({ dst }) => dst))
  if (uplinks.length === 0 || far === undefined) return []
  const queries = uplinks.map(({ address }) => `route get ${far} from ${address}`)
  const found = await ask(run, queries)
  return uplinks.flatMap(({ dev, address }) => {
    const backBy = found.find((route) => route['from'] === address)?.['dev']
    return typeof backBy === 'string' ? [{ dev, address, backBy }] : []
  })
}

/** Addresses of pods that the node has a way to, and the link of that way. */
export function routedEnds(records: readonly AttachmentRecord[]) {
  return records.flatMap(({ key, spec, pod, network }) => {
    const expected = spec?.port?.vlans === undefined ? (spec?.port?.bridge ?? spec?.host?.name) : undefined
    if (expected === undefined || spec?.chained !== undefined) return []
    const name = pod === undefined ? `container ${key.containerId.slice(0, 13)}` : `${pod.namespace}/${pod.name}`
    // Without a gateway on the bridge (isGateway) the node is none of the bridge's hosts.
    const gateways = spec?.port === undefined ? undefined : network?.bridge?.addresses
    const isReached = (address: string) => gateways?.some((each) => familyOf(each) === familyOf(address)) ?? true
    const reached = (spec?.ips ?? []).filter(({ address }) => isReached(address))
    return reached.map(({ address }) => ({ pod: name, address: bareAddress(address), expected }))
  })
}

async function podRouteFacts(run: Run, records: readonly AttachmentRecord[]): Promise<readonly PodRouteFacts[]> {
  const ends = routedEnds(records)
  const asked = ends.slice(0, mostRoutes)
  const found = await ask(
    run,
    asked.map(({ address }) => `route get ${address}`),
  )
  const all = asked.map((end) => {
    const dev = found.find((route) => route['dst'] === end.address)?.['dev']
    return { ...end, leavesBy: typeof dev === 'string' ? dev : undefined }
  })
  return await Promise.all(all.map(async (end) => ({ ...end, ...(await routeInUse(run, end)) })))
}

/** The wrong route of a single pod address, as `ip route` takes it; undefined for a route of a range. */
async function routeInUse(run: Run, { address, expected, leavesBy }: Omit<PodRouteFacts, 'route'>) {
  if (leavesBy === expected) return {}
  const family = familyOf(address)
  const { stdout } = await run({
    file: 'ip',
    args: ['-j', `-${family}`, 'route', 'show', 'table', 'all', 'match', address],
  })
  const matching = readDocuments(stdout).flatMap((route) => {
    const { dst, type, dev, table } = route
    const isOfAddress = typeof dst === 'string' && [address, `${address}/${family === 4 ? 32 : 128}`].includes(dst)
    if (!isOfAddress || (table !== undefined && table !== 'main')) return []
    return [
      [...(typeof type === 'string' ? [type] : []), dst, ...(typeof dev === 'string' ? ['dev', dev] : [])].join(' '),
    ]
  })
  const [route] = matching
  return route === undefined ? {} : { route: `${family === 6 ? '-6 ' : ''}route del ${route}` }
}

/** Addresses only: they come from parsed CIDRs. */
async function ask(run: Run, queries: readonly string[]) {
  if (queries.length === 0) return []
  const stdin = `${queries.join('\n')}\n`
  return readDocuments((await run({ file: 'ip', args: ['-j', '-force', '-batch', '-'], stdin })).stdout)
}

/** kube-proxy's nft table, or its chain in the nat table of iptables; k3s has no process of that name. */
async function seesKubeProxy(run: Run): Promise<boolean> {
  const { stdout } = await run({ file: 'nft', args: ['list', 'chains'] }).catch(() => ({ stdout: '' }))
  return /^table \S+ kube-proxy\b|^\tchain KUBE-SERVICES\b/m.test(stdout)
}

/** The running kernel's. node:os keeps the release that it read first, and that was while the snapshot was built. */
export function kernelRelease(): string {
  return readKey('kernel/osrelease') ?? ''
}

// An address that represents all distant senders. Pure.

/** Addresses for documentation (RFC 5737). Some labs use them on links. */
const documented = ['203.0.113.77', '198.51.100.77', '192.0.2.77']

/** A route with a shorter prefix is for nearly everybody: a VPN has 0.0.0.0/1 and 128.0.0.0/1 as a default route. */
const leastPrefix = 8

/** First octets of unicast addresses without the loopback (RFC 1122, 3.2.1.3). */
const octets = Array.from({ length: 223 }, (_, at) => at + 1).filter((octet) => octet !== 127)

/**
 * An IPv4 address that only default routes match; undefined if none exists. `destinations`: of all routes, as CIDRs.
 */
export function farSender(destinations: readonly string[]): string | undefined {
  const known = destinations
    .filter((dst) => familyOf(dst) === 4)
    .flatMap((dst) => parseCidr(dst) ?? [])
    .filter(({ prefixLength }) => prefixLength >= leastPrefix)
  const candidates = [...documented, ...octets.map((octet) => `${octet}.0.113.77`)]
  return candidates.find((text) => {
    const address = parseAddress(text)
    return address !== undefined && !known.some((cidr) => includes(cidr, address))
  })
}

// Policy rules (ip-rule(8)) that refuse packets of pods. An earlier rule with a matching route, like a VPN's, hides
// them, so the kernel is asked.

type Family = 4 | 6

type PolicyRule = Readonly<Record<string, unknown>>

/** The answer of `ip route get` where such a rule decides (net/ipv4/fib_rules.c, net/ipv6/fib6_rules.c). */
const refusals: Readonly<Record<string, string>> = {
  prohibit: 'Permission denied',
  blackhole: 'Invalid argument',
  unreachable: 'Network is unreachable',
}

/** A gateway behind each uplink: a sender that the kernel accepts there, also with rp_filter. */
function gateways({ routes }: ObservedNamespace, family: Family): ReadonlyMap<string, string> {
  const all = [...routes.values()].flat()
  return new Map(all.flatMap(({ dev, gw }) => (dev && gw && familyOf(gw) === family ? [[dev, gw]] : [])))
}

/** Starts a process for each family, and one or two for each refusing rule that names pods. */
async function lookAtPolicyRules(run: Run, networks: readonly PodNetwork[], host: ObservedNamespace) {
  const there = networks.filter(({ isSetUp }) => isSetUp)
  const found = ([4, 6] as const).map(async (family) => {
    const { stdout } = await run({ file: 'ip', args: ['-j', `-${family}`, 'rule', 'show'] })
    const rules: readonly PolicyRule[] = readDocuments(stdout)
    const uplinks = gateways(host, family)
    const own = there.map((network) => {
      return { ...network, subnets: network.subnets.filter((subnet) => familyOf(subnet) === family) }
    })
    const named = own.flatMap((network) => rules.flatMap((rule) => ruleOfPods(rule, network, uplinks)))
    return (await Promise.all(named.map(async (each) => await refusedBy(run, family, each)))).flat()
  })
  return (await Promise.all(found)).flat()
}

/** A rule, and the direction of the packets that it names. */
interface RuleOfPods {
  readonly network: PodNetwork
  readonly rule: PolicyRule
  readonly names: 'from' | 'to'
  /** The sender of packets that come in by the rule's `iif`. */
  readonly sender?: string | undefined
}

/** Empty if a rule does not refuse, names others, or names all but the pods. `uplinks`: links, each with a sender. */
export function ruleOfPods(
  rule: PolicyRule,
  network: PodNetwork,
  uplinks: ReadonlyMap<string, string> = new Map(),
): readonly RuleOfPods[] {
  if (!(String(rule['action']) in refusals) || 'not' in rule || network.subnets.length === 0) return []
  const holds = (key: string) => overlapOf(network.subnets, cidrOf(rule, key)) !== undefined
  const isIn = network.links.includes(String(rule['iif']))
  if (holds('src') || isIn) return [{ network, rule, names: 'from' }]
  const sender = uplinks.get(String(rule['iif']))
  const isForPods = holds('dst') || (sender !== undefined && rule['dst'] === undefined)
  return isForPods && (sender !== undefined || rule['iif'] === undefined)
    ? [{ network, rule, names: 'to', sender: cidrOf(rule, 'src').flatMap(podOf)[0] ?? sender }]
    : []
}

function cidrOf(rule: PolicyRule, key: string): readonly string[] {
  const address = rule[key]
  if (typeof address !== 'string' || address === 'all') return []
  const bits = rule[`${key}len`] ?? (familyOf(address) === 6 ? 128 : 32)
  return [`${address}/${String(bits)}`]
}

/** Addresses for documentation (RFC 5737, RFC 3849); no packet is sent to them. */
const someoneFar = { 4: '203.0.113.77', 6: '2001:db8:ffff::77' } as const

/** Undefined if the kernel has a route all the same, or the node itself has none. */
async function refusedBy(run: Run, family: Family, { network, rule, names, sender }: RuleOfPods) {
  const [pod] = [...hostOf(rule, names === 'from' ? 'src' : 'dst'), ...network.subnets.flatMap(podOf)]
  const [link] = network.links
  const far = someoneFar[family]
  const get = async (...words: readonly string[]) =>
    await run({ file: 'ip', args: [`-${family}`, 'route', 'get', ...words] })
  const word = refusals[String(rule['action'])] ?? ''
  if (pod === undefined || link === undefined) return []
  const iif = typeof rule['iif'] === 'string' && sender !== undefined ? ['from', sender, 'iif', rule['iif']] : []
  const asked = names === 'from' ? await get(far, 'from', pod, 'iif', link) : await get(pod, ...iif)
  const hasWay = names === 'to' || (await get(far)).code === 0
  if (asked.code === 0 || !asked.stderr.includes(word) || !hasWay) return []
  const by = iif.length > 0 ? ` by ${String(rule['iif'])}` : ''
  const what = names === 'from' ? `packets from ${pod} to ${far} by ${link}` : `packets to ${pod}${by}`
  return [{ network: network.name, family, rule: ruleText(rule), asked: what }]
}

function hostOf(rule: PolicyRule, key: string): readonly string[] {
  const address = rule[key]
  return typeof address === 'string' && address !== 'all' && rule[`${key}len`] === undefined ? [address] : []
}

/** Arguments of `ip rule del`. */
function ruleText(rule: PolicyRule): string {
  const end = (key: string, word: string) => cidrOf(rule, key).flatMap((cidr) => [word, cidr])
  const iif = typeof rule['iif'] === 'string' ? ['iif', rule['iif']] : []
  const words = ['pref', String(rule['priority']), ...end('src', 'from'), ...end('dst', 'to'), ...iif]
  return [...words, String(rule['action'])].join(' ')
}

// The values of sysctl.d at the next start (sysctl.d(5)): files in the order of their names, the first directory with a
// name wins, the last line counts. `sysctl --system` reads /etc/sysctl.conf last.

const directories = ['/etc/sysctl.d', '/run/sysctl.d', '/usr/local/lib/sysctl.d', '/usr/lib/sysctl.d', '/lib/sysctl.d']

/** sysctl(8) reads this file after all others. */
export const lastFile = '/etc/sysctl.conf'

/** The values of these keys, in dotted form and under their first name. */
export function keptSettings(keys: readonly string[], root = ''): ReadonlyMap<string, KeptSetting> {
  const kept = new Map<string, KeptSetting>()
  for (const file of filesIn(root)) {
    for (const [key, value] of settingsIn(textIfThere(`${root}${file}`)))
      if (keys.includes(canonical(key))) kept.set(canonical(key), { key, value, file })
  }
  return kept
}

/** The kernel has one variable behind both names (net/ipv4/devinet.c). */
function canonical(key: string): string {
  return key === 'net.ipv4.conf.all.forwarding' ? 'net.ipv4.ip_forward' : key
}

function filesIn(root: string): readonly string[] {
  const byName = new Map<string, string>()
  for (const directory of directories) {
    for (const name of namesIn(`${root}${directory}`)) {
      if (name.endsWith('.conf') && !byName.has(name)) byName.set(name, `${directory}/${name}`)
    }
  }
  const sorted = [...byName].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, file]) => file)
  return [...sorted, lastFile]
}

/** `key = value` lines; a key may have slashes, and a leading - ignores a failure. */
function settingsIn(text: string): readonly (readonly [string, string])[] {
  return text.split('\n').flatMap((line) => {
    const [, key, value] = /^\s*-?\s*([\w./-]+)\s*=\s*(\S.*?)\s*$/.exec(line) ?? []
    return key === undefined || value === undefined ? [] : [[key.replaceAll('/', '.'), value] as const]
  })
}
