// SPDX-License-Identifier: Apache-2.0
// The kernel's part of the facts: sysctls now and after the next start, routes back, modules.

import { existsSync } from 'node:fs'
import { release } from 'node:os'
import { bareAddress, familyOf, includes, parseAddress, parseCidr } from '../../cni/model/address.ts'
import { readDocuments } from '../../compile/read-ip.ts'
import type { ObservedNamespace } from '../../plan/model/observed.ts'
import type { AttachmentRecord } from '../../plan/model/record.ts'
import { namesIn } from '../../system/files/files.ts'
import { textIfThere } from '../../system/files/if-there.ts'
import { readKey } from '../../system/kernel/kernel-files.ts'
import type { Run } from '../../system/process/runner.ts'
import { overlapOf } from '../lint/semantics.ts'
import type { KernelFacts, PodNetwork, PodRouteFacts, RefusalFacts } from './facts.ts'
import { podOf } from './networks.ts'

/** Of a network's pods so many are asked the way to: they share it, or have one each. */
const mostRoutes = 50

interface KernelSources {
  readonly host: ObservedNamespace
  readonly networks: readonly PodNetwork[]
  readonly records: readonly AttachmentRecord[]
}

/** Looks. Four processes, one more for kube-proxy. */
export async function lookAtKernel(run: Run, { host, networks, records }: KernelSources): Promise<KernelFacts> {
  const links = [...new Set(networks.flatMap((network) => network.links))]
  const uplinks = uplinkAddresses(host)
  const keys = settingKeys([...links, ...uplinks.map(({ dev }) => dev)])
  const [backs, podRoutes, refusals, hasKubeProxy] = await Promise.all([
    routesFrom(run, uplinks, host),
    podRouteFacts(run, records),
    lookAtPolicyRules(run, networks),
    seesKubeProxy(run),
  ])
  return {
    settings: new Map(keys.map((key) => [key, readKey(key)])),
    uplinks: backs,
    podRoutes,
    refusals,
    kept: keptSettings(['net.ipv4.ip_forward', 'net.ipv6.conf.all.forwarding']),
    hasKubeProxy,
    missingModules: missingModules(['veth', 'bridge', 'nf_tables', 'nft_masq']),
    release: release(),
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

/** Interfaces with an IPv4 default route in any table, with their first address: rp_filter is of IPv4 only. */
function uplinkAddresses({ links, routes }: ObservedNamespace) {
  const defaults = [...routes.values()].flat().filter(({ dst }) => dst === '0.0.0.0/0' || dst === 'default')
  const devs = [...new Set(defaults.flatMap(({ dev }) => dev ?? []))]
  return devs.flatMap((dev) => {
    const address = links.get(dev)?.addresses.find((each) => familyOf(each) === 4)
    return address === undefined ? [] : [{ dev, address: bareAddress(address) }]
  })
}

/** Nothing is sent to the far sender: the kernel is asked for the way. */
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

async function podRouteFacts(run: Run, records: readonly AttachmentRecord[]): Promise<readonly PodRouteFacts[]> {
  const ends = records.flatMap(({ key, spec, pod }) => {
    const expected = spec?.port?.vlans === undefined ? (spec?.port?.bridge ?? spec?.host?.name) : undefined
    if (expected === undefined || spec?.chained !== undefined) return []
    const name = pod === undefined ? `container ${key.containerId.slice(0, 13)}` : `${pod.namespace}/${pod.name}`
    return spec?.ips.map(({ address }) => ({ pod: name, address: bareAddress(address), expected })) ?? []
  })
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

/** The route of the pod's own that leads elsewhere, as `ip route` takes it; nothing for one of a whole range. */
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

/** Its own table, or its chain in the nat table of iptables; in k3s it is no process of its own. */
async function seesKubeProxy(run: Run): Promise<boolean> {
  const { stdout } = await run({ file: 'nft', args: ['list', 'chains'] }).catch(() => ({ stdout: '' }))
  return /^table \S+ kube-proxy\b|^\tchain KUBE-SERVICES\b/m.test(stdout)
}

/** Empty where that cannot be told: a kernel without modules says nothing of what is built in. */
function missingModules(names: readonly string[]): readonly string[] {
  const directory = `/lib/modules/${release()}`
  const others = namesIn('/lib/modules')
  const lists = ['modules.builtin', 'modules.dep'].map((name) => textIfThere(`${directory}/${name}`)).join('\n')
  // Without a list for the running kernel, others being there, it was updated: what is not loaded cannot be any more.
  if (lists.trim() === '' && others.length === 0) return []
  const isThere = (name: string) => existsSync(`/sys/module/${name}`) || new RegExp(`/${name}\\.ko`, 'm').test(lists)
  return names.filter((name) => !isThere(name))
}

// An address that stands for everybody beyond the node's own subnets. Pure: the routes are given.

/** Of RFC 5737 (TEST-NET-1, 2 and 3): somebody who is nobody. Labs have them on their links all the same. */
const documented = ['203.0.113.77', '198.51.100.77', '192.0.2.77']

/** Below it a route is one for nearly everybody: a VPN has 0.0.0.0/1 and 128.0.0.0/1 in place of a default route. */
const leastPrefix = 8

/** The first octets of unicast addresses, but for those of the loopback (RFC 1122, 3.2.1.3). */
const octets = Array.from({ length: 223 }, (_, at) => at + 1).filter((octet) => octet !== 127)

/**
 * An IPv4 address that only default routes lead to; undefined where there is none. `destinations`: of all routes of the
 * node, as CIDRs.
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

// Policy rules (ip-rule(8)) that refuse what pods send or get. A rule behind one that leads to a route, as a VPN's, is
// never reached: the kernel is asked whether it is.

type Family = 4 | 6

/** A rule of `ip -j rule show`. */
type PolicyRule = Readonly<Record<string, unknown>>

/** What `ip route get` says where such a rule decides (net/ipv4/fib_rules.c, net/ipv6/fib6_rules.c). */
const refusals: Readonly<Record<string, string>> = {
  prohibit: 'Permission denied',
  blackhole: 'Invalid argument',
  unreachable: 'Network is unreachable',
}

/** Looks. A process for each family; two or three more for each rule that names pods and refuses. */
async function lookAtPolicyRules(run: Run, networks: readonly PodNetwork[]): Promise<readonly RefusalFacts[]> {
  const there = networks.filter(({ isSetUp }) => isSetUp)
  const found = ([4, 6] as const).map(async (family) => {
    const { stdout } = await run({ file: 'ip', args: ['-j', `-${family}`, 'rule', 'show'] })
    const rules: readonly PolicyRule[] = readDocuments(stdout)
    const named = there.flatMap((network) => rules.flatMap((rule) => ruleOfPods(rule, ofFamily(network, family))))
    return (await Promise.all(named.map(async (each) => await refusedBy(run, family, each)))).flat()
  })
  return (await Promise.all(found)).flat()
}

function ofFamily(network: PodNetwork, family: Family): PodNetwork {
  return {
    ...network,
    subnets: network.subnets.filter((subnet) => familyOf(subnet) === family),
  }
}

/** A rule, and which direction of the pods' packets it names. */
interface RuleOfPods {
  readonly network: PodNetwork
  readonly rule: PolicyRule
  readonly names: 'from' | 'to'
}

/** Nothing where it refuses nothing, or names others, or all but the pods. */
export function ruleOfPods(rule: PolicyRule, network: PodNetwork): readonly RuleOfPods[] {
  if (!(String(rule['action']) in refusals) || 'not' in rule) return []
  const holds = (key: string) => overlapOf(network.subnets, cidrOf(rule, key)) !== undefined
  const isIn = network.links.includes(String(rule['iif']))
  if (holds('src') || (isIn && network.subnets.length > 0)) return [{ network, rule, names: 'from' }]
  return holds('dst') ? [{ network, rule, names: 'to' }] : []
}

function cidrOf(rule: PolicyRule, key: string): readonly string[] {
  const address = rule[key]
  if (typeof address !== 'string' || address === 'all') return []
  const bits = rule[`${key}len`] ?? (familyOf(address) === 6 ? 128 : 32)
  return [`${address}/${String(bits)}`]
}

/** Of RFC 5737 and RFC 3849; nothing is sent there. A lab that has it on a link is asked for that link. */
const someoneFar = { 4: '203.0.113.77', 6: '2001:db8:ffff::77' } as const

/** Empty where the kernel has a way all the same, or the node itself has none. */
async function refusedBy(run: Run, family: Family, { network, rule, names }: RuleOfPods) {
  const [pod] = [...hostOf(rule, names === 'from' ? 'src' : 'dst'), ...network.subnets.flatMap(podOf)]
  const [link] = network.links
  const far = someoneFar[family]
  const get = async (...words: readonly string[]) =>
    await run({ file: 'ip', args: [`-${family}`, 'route', 'get', ...words] })
  const word = refusals[String(rule['action'])] ?? ''
  if (pod === undefined || link === undefined) return []
  const [asked, own] =
    names === 'from' ? [await get(far, 'from', pod, 'iif', link), await get(far)] : [await get(pod), undefined]
  const hasWay = own === undefined || own.code === 0
  if (asked.code === 0 || !asked.stderr.includes(word) || !hasWay) return []
  const what = names === 'from' ? `what ${pod} sends to ${far} by ${link}` : `what is for ${pod}`
  return [{ network: network.name, family, rule: ruleText(rule), asked: what }]
}

/** The address that a rule names, where it is one. */
function hostOf(rule: PolicyRule, key: string): readonly string[] {
  const address = rule[key]
  return typeof address === 'string' && address !== 'all' && rule[`${key}len`] === undefined ? [address] : []
}

/** As `ip rule del` takes it. */
function ruleText(rule: PolicyRule): string {
  const end = (key: string, word: string) => cidrOf(rule, key).flatMap((cidr) => [word, cidr])
  const iif = typeof rule['iif'] === 'string' ? ['iif', rule['iif']] : []
  const words = ['pref', String(rule['priority']), ...end('src', 'from'), ...end('dst', 'to'), ...iif]
  return [...words, String(rule['action'])].join(' ')
}

// What the files of sysctl.d make of settings at the next start: sysctl.d(5). The directories by name of file, the
// first directory that has a name wins, the last line of all counts; /etc/sysctl.conf is read last by `sysctl
// --system`.

const directories = ['/etc/sysctl.d', '/run/sysctl.d', '/usr/local/lib/sysctl.d', '/usr/lib/sysctl.d', '/lib/sysctl.d']

interface KeptSetting {
  readonly value: string
  readonly file: string
}

/** The values that the files give these keys, in dotted form; none for one that no file names. */
export function keptSettings(keys: readonly string[], root = ''): ReadonlyMap<string, KeptSetting> {
  const kept = new Map<string, KeptSetting>()
  for (const file of filesIn(root)) {
    for (const [key, value] of settingsIn(textIfThere(`${root}${file}`)))
      if (keys.includes(key)) kept.set(key, { value, file })
  }
  return kept
}

function filesIn(root: string): readonly string[] {
  const byName = new Map<string, string>()
  for (const directory of directories) {
    for (const name of namesIn(`${root}${directory}`)) {
      if (name.endsWith('.conf') && !byName.has(name)) byName.set(name, `${directory}/${name}`)
    }
  }
  const sorted = [...byName].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, file]) => file)
  return [...sorted, '/etc/sysctl.conf']
}

/** `key = value` lines; keys may be written with slashes, and begin with - where failure is no matter. */
function settingsIn(text: string): readonly (readonly [string, string])[] {
  return text.split('\n').flatMap((line) => {
    const [, key, value] = /^\s*-?\s*([\w./-]+)\s*=\s*(\S.*?)\s*$/.exec(line) ?? []
    return key === undefined || value === undefined ? [] : [[key.replaceAll('/', '.'), value] as const]
  })
}
