// SPDX-License-Identifier: Apache-2.0
// Looks at the kernel, only where something asks, and only at what it asks for: named links, the pod, our tables, queues.

import { asPrefix, bitsOf, familyOf } from '../cni/addresses.ts'
import { CniError, Code, oneLine } from '../cni/errors.ts'
import { asObject, defined, type JsonObject } from '../cni/json.ts'
import type { Machine } from '../process/machine.ts'
import type { Output } from '../process/runner.ts'
import { batchLine } from './batch.ts'
import { readTable } from './elements.ts'
import { cureOf, reasonOf } from './messages.ts'
import type { OpenNetns } from './netns.ts'
import { type TableFamily, tableName } from './nft-table.ts'
import type { ObservedLink, ObservedRoute, ObservedRule, ObservedTable, Place } from './observed.ts'
import { linkScope, mainTable } from './operation.ts'

/** A batch takes no -6: the root prefix tells the family, and with one table named IPv4 is always meant. */
const allRoutes = ['route show table all root 0.0.0.0/0\n', 'route show table all root ::/0\n']

/** Numbers in place of names, JSON, all details; on after a link that is not there. */
const ipArgs = ['-N', '-j', '-d', '-force', '-batch', '-']

/** Links of the host with their addresses: those of `names` that are there, or all. `routes`: all routes, too. */
export async function lookAtHost(machine: Machine, names: readonly string[] | 'all', routes = false): Promise<Place> {
  if (names.length === 0 && !routes) return { links: new Map(), routes: [] }
  const documents = await askHost(machine, names, routes ? allRoutes : [])
  return { links: readLinks(documents), routes: readRoutes(documents) }
}

/** An address that the host cannot reach is an answer as well (net/ipv4/fib_semantics.c). */
const noWay = /^RTNETLINK answers: (Network is unreachable|No route to host|Permission denied|Invalid argument)$/m

/** The host's links, and the link by which the host would send packets to each address. */
export async function lookForWays(machine: Machine, names: readonly string[] | 'all', addresses: readonly string[]) {
  const queries = addresses.map((address) => batchLine(['route', 'get', address]))
  const documents = await askHost(machine, names, queries, noWay)
  const ways = documents.filter((entry) => 'dst' in entry && 'dev' in entry && !('ifname' in entry))
  return {
    host: { links: readLinks(documents), routes: [] } satisfies Place,
    ways: new Map(ways.map((entry) => [text(entry['dst']), text(entry['dev'])])),
  }
}

async function askHost(machine: Machine, names: readonly string[] | 'all', queries: readonly string[], fine?: RegExp) {
  const links = names === 'all' ? ['addr show\n'] : names.map((name) => batchLine(['addr', 'show', 'dev', name]))
  const output = await machine.ask({ file: 'ip', args: ipArgs, stdin: [...links, ...queries].join('') })
  if (!fine?.test(output.stderr)) requireSeen(output, 'ip')
  return readDocuments(output.stdout)
}

interface PodQuestion {
  /** Families whose rules are asked for. */
  readonly ruleFamilies?: readonly (4 | 6)[]
  /** Sysctls, `net/...`. */
  readonly keys?: readonly string[]
}

/**
 * Starts `sysctl` for the keys that the input begins with, up to an empty line, then becomes `ip` for the rest: from a
 * pipe `read` takes its line and no more (POSIX). The keys are data to it, never words of the script.
 */
const sysctlsThenIp = `while IFS= read -r key && [ -n "$key" ]; do set -- "$@" "$key"; done
sysctl -e "$@" </dev/null
exec ip -N -j -d -force -batch -`

/** The pod's links, addresses, routes, rules and sysctls. One process, and one more for IPv6 rules. */
export async function lookAtPod(
  machine: Machine,
  netns: OpenNetns,
  { ruleFamilies = [], keys = [] }: PodQuestion = {},
) {
  const inside = (words: readonly string[], stdin: string) =>
    machine.ask({ file: 'nsenter', args: ['--net=/proc/self/fd/3', '--', ...words], stdin, netnsFd: netns.fd })
  const queries = ['addr show\n', ...allRoutes, ...(ruleFamilies.includes(4) ? ['rule show\n'] : [])].join('')
  const [all, rules6] = await Promise.all([
    keys.length === 0
      ? inside(['ip', ...ipArgs], queries)
      : inside(['sh', '-c', sysctlsThenIp], `${keys.join('\n')}\n\n${queries}`),
    ruleFamilies.includes(6) ? inside(['ip', '-6', ...ipArgs], 'rule show\n') : undefined,
  ])
  requireSeen(all, 'ip in the pod')
  if (rules6 !== undefined) requireSeen(rules6, 'ip in the pod')
  const documents = readDocuments(all.stdout)
  const rules = readRules([...documents, ...readDocuments(rules6?.stdout ?? '')])
  const pod: Place = {
    links: readLinks(documents),
    routes: readRoutes(documents),
    ...(ruleFamilies.length > 0 ? { rules } : {}),
  }
  return { pod, podSysctls: readSysctlLines(all.stdout, keys) }
}

/** One of our tables with its elements; undefined where it is not there. */
export async function lookAtTable(machine: Machine, family: TableFamily): Promise<ObservedTable | undefined> {
  const output = await machine.ask({ file: 'nft', args: ['-j', 'list', 'table', family, tableName] })
  if (output.code === 0) return readTable(output.stdout)
  if (reasonOf(output.stderr) === 'absent') return undefined
  throw notSeen('nft', output)
}

/** Throws CniError 100 where something was not seen that may be there. */
export function requireSeen(output: Output, what: string): void {
  if (output.code !== 0 && reasonOf(output.stderr) !== 'absent') throw notSeen(what, output)
}

function notSeen(what: string, { stderr, code }: Output): CniError {
  const message = `cannot look at the network with ${what}: ${oneLine(stderr) || `exit status ${code}`}`
  return new CniError(Code.commandFailed, 'network-not-seen', message, {
    details: `${stderr}${cureOf(reasonOf(stderr))}`,
  })
}

/**
 * Every object in the output of `ip -j -batch`: an array on a line for each query that found something. ip prints control
 * characters of an alias as they are, and a pod may give its interface such a one.
 */
export function readDocuments(stdout: string): readonly JsonObject[] {
  const lines = stdout.split('\n').filter((line) => line.startsWith('['))
  const documents = lines.flatMap((line) => JSON.parse(line.replace(/[\x00-\x1f\x7f]/g, '?')) as JsonObject[])
  return documents.filter((entry) => Object.keys(entry).length > 0)
}

export function readLinks(documents: readonly JsonObject[]): ReadonlyMap<string, ObservedLink> {
  const entries = documents.filter((entry) => 'ifname' in entry)
  return new Map(entries.map((entry) => [text(entry['ifname']), readLink(entry)]))
}

function readLink(entry: JsonObject): ObservedLink {
  const info = asObject(entry['linkinfo'])
  const [data, port] = [asObject(info['info_data']), asObject(info['info_slave_data'])]
  const flags = listOf(entry['flags'])
  const addresses = listOf(entry['addr_info']).map(asObject)
  return {
    name: text(entry['ifname']),
    index: Number(entry['ifindex'] ?? 0),
    mac: text(entry['address']),
    mtu: Number(entry['mtu'] ?? 0),
    up: flags.includes('UP'),
    // The flag was asked for; `promiscuity` also counts a bridge's ports and packet captures.
    promisc: flags.includes('PROMISC'),
    allmulti: flags.includes('ALLMULTI'),
    // ip does not print a queue length of 0 (iproute2 ip/ipaddress.c, print_queuelen).
    txQLen: Number(entry['txqlen'] ?? 0),
    addresses: addresses.flatMap((each) => ('local' in each ? `${each['local']}/${each['prefixlen']}` : [])),
    ...(defined({
      kind: info['info_kind'],
      macvlanMode: info['info_kind'] === 'macvlan' ? data['mode'] : undefined,
      vlanFiltering: data['vlan_filtering'] === undefined ? undefined : Boolean(data['vlan_filtering']),
      master: entry['master'],
      masterKind: info['info_slave_kind'],
      alias: entry['ifalias'],
      hairpin: port['hairpin'],
      isolated: port['isolated'],
      peerIndex: entry['link_index'],
      on: entry['link'],
    }) as object),
  }
}

export function readRoutes(documents: readonly JsonObject[]): readonly ObservedRoute[] {
  return documents.filter((entry) => 'dst' in entry && !('ifname' in entry)).flatMap(readRoute)
}

function readRoute(entry: JsonObject): readonly ObservedRoute[] {
  const hops = 'nexthops' in entry ? listOf(entry['nexthops']).map(asObject) : [entry]
  const { mtu, advmss } = asObject(listOf(entry['metrics'])[0])
  return hops.map((hop) => {
    const gw = hop['gateway'] ?? asObject(hop['via'])['host']
    // Only IPv6 routes have a `pref` (RTA_PREF): it tells the family of `default`.
    const isIpv6 = 'pref' in entry || familyOf(text(gw)) === 6
    const dst = text(entry['dst'])
    const isAdvertised = ['9', 'ra'].includes(text(entry['protocol'])) ? true : undefined
    const [scope, priority, src] = [scopeNumber(entry['scope']), entry['metric'], entry['prefsrc']]
    return {
      dst: dst === 'default' ? (isIpv6 ? '::/0' : '0.0.0.0/0') : asPrefix(dst),
      table: Number(entry['table'] ?? mainTable),
      ...(defined({ gw, dev: hop['dev'], priority, src, scope, mtu, advmss, isAdvertised }) as object),
    }
  })
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** 0, which is `global`, is no scope worth repeating. */
function scopeNumber(scope: unknown): number | undefined {
  if (scope === 'link') return linkScope
  return Number(scope) || undefined
}

function readRules(documents: readonly JsonObject[]): readonly ObservedRule[] {
  const rules = documents.filter((entry) => 'priority' in entry && 'table' in entry && 'src' in entry)
  return rules.map((entry) => {
    const src = text(entry['src'])
    const bits = entry['srclen'] ?? bitsOf(familyOf(src))
    return { from: src === 'all' ? 'all' : `${src}/${text(bits)}`, table: Number(entry['table']) }
  })
}

/** sysctl prints dots for slashes and the other way round. A key without a line is not there, or may not be read. */
function readSysctlLines(stdout: string, keys: readonly string[]): ReadonlyMap<string, string | undefined> {
  const found = new Map<string, string>()
  for (const line of stdout.split('\n')) {
    const at = line.indexOf(' = ')
    if (at > 0) found.set(line.slice(0, at), line.slice(at + 3))
  }
  return new Map(keys.map((key) => [key, found.get(key.replace(/[./]/g, (mark) => (mark === '/' ? '.' : '/')))]))
}

function text(value: unknown): string {
  return value === undefined || value === null ? '' : String(value)
}
