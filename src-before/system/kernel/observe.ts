// SPDX-License-Identifier: Apache-2.0
// Looks at the kernel, only where asked, and only at what is ours: named links, the pod, our table.

import { asPrefix, bareAddress } from '../../cni/address.ts'
import { CniError, oneLine } from '../../cni/error.ts'
import { emptyNamespace, type ObservedNamespace, type ObservedQueue, type ObservedTable } from '../../model/observed.ts'
import type { TableFamily } from '../../model/tables.ts'
import { toBatchLine } from '../../tools/batches.ts'
import { reasonOf } from '../../tools/command-error.ts'
import { podNetns, readDocuments, readLinks, readNeighbours, readRoutes, readRules } from '../../tools/ip.ts'
import { listArguments, readTable } from '../../tools/nft.ts'
import { readAnswers, readLearned, readQueue, readVlans, type TcEntry } from '../../tools/tc.ts'
import { missingNote, refusedFor } from '../process/capabilities.ts'
import type { Output, Run } from '../process/runner.ts'
import { readKey } from './kernel-files.ts'

/** Every route. A batch takes no -6: the root prefix says the family. */
const allRoutes = ['route show table all root 0.0.0.0/0', 'route show table all root ::/0']

/** Routes to a prefix, inside it (`root`), or to what it is in (`match`); those over a link alone. */
type RouteQuery = readonly [selector: 'exact' | 'root' | 'match', prefix: string, ...over: [] | ['dev', string]]

/** Links of the host, those of `names` that exist, and the routes that are asked for. One process. */
export async function observeHost(
  run: Run,
  names?: readonly string[],
  asked: readonly RouteQuery[] | 'all' = [],
): Promise<ObservedNamespace> {
  if (names?.length === 0 && asked.length === 0) return emptyNamespace
  const links = names?.map((name) => toBatchLine(['addr', 'show', 'dev', name])) ?? ['addr show']
  const routes =
    asked === 'all' ? allRoutes : asked.map((query) => toBatchLine(['route', 'show', 'table', 'all', ...query]))
  const queries = [...links, ...routes]
  const output = await ask(run, queries)
  // -force goes on after a link that is not there; any other failure means we did not see.
  requireSeen(output, 'ip')
  const documents = readDocuments(output.stdout)
  return { links: readLinks(documents), routes: readRoutes(documents) }
}

/** Those of the addresses that the host has a route to of their own. One process, none for no address. */
export async function routedAddresses(run: Run, addresses: readonly string[]): Promise<ReadonlySet<string>> {
  const asked = addresses.map((address): RouteQuery => ['exact', asPrefix(address)])
  const { routes } = await observeHost(run, [], asked)
  return new Set([...routes.values()].flat().map(({ dst }) => bareAddress(dst)))
}

function ask(run: Run, queries: readonly string[]): Promise<Output> {
  return run({ file: 'ip', args: ['-j', '-d', '-force', '-batch', '-'], stdin: `${queries.join('\n')}\n` })
}

interface PodQuestion {
  readonly families: readonly (4 | 6)[]
  readonly keys: readonly string[]
}

/** The pod's links, addresses, routes, and the rules of `families`. One process, and one more for IPv6 rules. */
export async function observePod(
  run: Run,
  netnsFd: number,
  families: readonly (4 | 6)[] = [],
): Promise<ObservedNamespace> {
  return (await observePodWith(run, netnsFd, { families, keys: [] })).pod
}

/** The same with sysctls of the pod, by key: a starter for both takes the place of the one process. */
export async function observePodWith(run: Run, netnsFd: number, { families, keys }: PodQuestion) {
  const queries = ['addr show', ...allRoutes, ...(families.includes(4) ? ['rule show'] : [])]
  const [all, rules6] = await Promise.all([
    askPod(run, netnsFd, { options: [], queries, keys }),
    families.includes(6) ? askPod(run, netnsFd, { options: ['-6'], queries: ['rule show'], keys: [] }) : '',
  ])
  const documents = readDocuments(all)
  const seen = { links: readLinks(documents), routes: readRoutes(documents) }
  const rules = () => readRules([...documents, ...readDocuments(rules6)])
  const pod: ObservedNamespace = families.length === 0 ? seen : { ...seen, rules: rules() }
  return { pod, podSysctls: settingsIn(all, keys) }
}

/**
 * Starts `sysctl` for the keys that the input begins with, up to an empty line, then is `ip` for the rest of it: of a
 * pipe `read` takes its line and no more (POSIX). The keys are data to it, never words of the script.
 */
const sysctlsThenIp = `while IFS= read -r key && [ -n "$key" ]; do set -- "$@" "$key"; done
sysctl -e "$@" </dev/null
exec ip -N -j -d -force -batch -`

/** Tables and scopes as numbers (-N): their names are the machine's own. */
async function askPod(
  run: Run,
  netnsFd: number,
  asked: { options: readonly string[]; queries: readonly string[]; keys: readonly string[] },
): Promise<string> {
  const { options, queries, keys } = asked
  const ip = ['ip', ...options, '-N', '-j', '-d', '-force', '-batch', '-']
  const words = keys.length === 0 ? ip : ['sh', '-c', sysctlsThenIp]
  const output = await run({
    file: 'nsenter',
    args: [`--net=${podNetns}`, '--', ...words],
    stdin: [...keys, ...(keys.length === 0 ? [] : ['']), ...queries, ''].join('\n'),
    netnsFd,
  })
  requireSeen(output, 'ip in the pod')
  return output.stdout
}

/** sysctl prints dots for slashes and the other way round. A key without a line is not there, or may not be read. */
function settingsIn(printed: string, keys: readonly string[]): ReadonlyMap<string, string | undefined> {
  const lines = keys.length === 0 ? [] : printed.split('\n').map((line) => line.split(' = '))
  const found = new Map(lines.map(([key, ...value]) => [key, value.join(' = ')]))
  return new Map(keys.map((key) => [key, found.get(key.replace(/[./]/g, (mark) => (mark === '/' ? '.' : '/')))]))
}

/** One of our nft tables with its elements, or 'absent'. One process. */
export async function observeTable(run: Run, family: TableFamily): Promise<ObservedTable | 'absent'> {
  const output = await run({ file: 'nft', args: listArguments.ofOurs(family) })
  if (output.code === 0) return knownListing(family, output.stdout)
  if (reasonOf(output.stderr) === 'absent') return 'absent'
  throw notSeen('nft', output)
}

/** What was listed last: an agent sees the same every minute, of thousands of elements. */
const listings = new Map<TableFamily, { readonly stdout: string; readonly table: ObservedTable }>()

function knownListing(family: TableFamily, stdout: string): ObservedTable {
  const last = listings.get(family)
  if (last?.stdout === stdout) return last.table
  const table = readListing(stdout)
  listings.set(family, { stdout, table })
  return table
}

/** nft 1.0.6 prints no JSON for a table with flags (src/json.c, table_flags): nothing in it can be counted on. */
function readListing(stdout: string): ObservedTable {
  try {
    return readTable(stdout)
  } catch {
    return { rules: new Map(), elements: new Map() }
  }
}

/**
 * Who the host has spoken with: addresses by MAC, and the MACs that bridges have seen behind each port. Two processes;
 * what one of them does not tell is missing.
 */
export async function observeNeighbours(run: Run) {
  const silent = () => ({ stdout: '' })
  const [neighbours, learned] = await Promise.all([
    run({ file: 'ip', args: ['-j', 'neigh', 'show'] }).catch(silent),
    run({ file: 'bridge', args: ['-j', 'fdb', 'show', 'dynamic'] }).catch(silent),
  ])
  return { neighbours: readNeighbours(readDocuments(neighbours.stdout)), learned: readLearned(learned.stdout) }
}

/** VLAN ids of every bridge port. One process. */
export async function observeVlans(run: Run): Promise<ReadonlyMap<string, readonly number[]>> {
  const output = await run({ file: 'bridge', args: ['-j', 'vlan', 'show'] })
  requireSeen(output, 'bridge')
  return readVlans(output.stdout)
}

/**
 * Queueing of the host's links: token buckets, ingress qdiscs and their filters. One process: tc prints a line for each
 * question, and none for a link that is not there; then those that have filters are asked once more.
 */
export async function observeQueues(run: Run, names: readonly string[]): Promise<ReadonlyMap<string, ObservedQueue>> {
  const queries = ['qdisc show', ...names.map(filterQuery)]
  const output = await run({ file: 'tc', args: ['-j', '-force', '-batch', '-'], stdin: `${queries.join('\n')}\n` })
  requireSeen(output, 'tc')
  const [qdiscs = [], ...answers] = readAnswers(output.stdout)
  const byName = Map.groupBy(qdiscs, ({ dev }) => dev)
  const qdiscsOf = (name: string) => byName.get(name) ?? []
  const filtered = names.filter((name) => qdiscsOf(name).some(({ kind }) => kind === 'ingress'))
  const isWhole = answers.length === names.length
  const listings = new Map(isWhole ? names.map((name, at) => [name, answers[at] ?? []]) : [])
  const filters = isWhole || filtered.length === 0 ? listings : await observeFilters(run, filtered)
  return new Map(names.map((name) => [name, readQueue([...qdiscsOf(name), ...(filters.get(name) ?? [])])]))
}

function filterQuery(name: string): string {
  return toBatchLine(['filter', 'show', 'dev', name, 'parent', 'ffff:'])
}

/** A line of output for each link, which does not name it: where one has gone meanwhile, each is asked alone. */
async function observeFilters(run: Run, names: readonly string[]): Promise<ReadonlyMap<string, readonly TcEntry[]>> {
  const lines = names.map(filterQuery)
  const output = await run({ file: 'tc', args: ['-j', '-force', '-batch', '-'], stdin: `${lines.join('\n')}\n` })
  const answers = readAnswers(output.stdout)
  if (answers.length === names.length) return new Map(names.map((name, at) => [name, answers[at] ?? []]))
  if (names.length === 1) return new Map()
  const alone = await Promise.all(names.map((name) => observeFilters(run, [name])))
  return new Map(alone.flatMap((each) => [...each]))
}

export function observeSysctls(keys: readonly string[]): ReadonlyMap<string, string | undefined> {
  return new Map(keys.map((key) => [key, readKey(key)]))
}

/** Throws CniError 100 unless everything was seen, or is not there. */
export function requireSeen(output: Output, what: string): void {
  if (output.code === 0 || reasonOf(output.stderr) === 'absent') return
  throw notSeen(what, output)
}

function notSeen(what: string, output: Output): CniError {
  const missing = refusedFor(output.stderr)
  const reason = `${oneLine(output.stderr)}${missingNote(missing)}`
  return new CniError('network-not-seen', `cannot look at the network with ${what}: ${reason}`, {
    details: `${output.stderr}${missing?.hint ?? ''}`,
  })
}

// Which link the host would send packets to an address by: its routing decision, not a listing of its routes.

/** What to ask of the host: links by name, all of them without `names`, and the ways to addresses without prefix. */
interface RouteQuestion {
  readonly names: readonly string[] | undefined
  readonly addresses: readonly string[]
}

/** Answers as well: of no route, and of one that is unreachable, prohibit or blackhole (net/ipv4/fib_semantics.c). */
const noWay = /^RTNETLINK answers: (Network is unreachable|No route to host|Permission denied|Invalid argument)$/m

/** The host's links, and the link to each address; an address that the host cannot reach has none. One process. */
export async function observeHostLinks(
  run: Run,
  { names, addresses }: RouteQuestion,
): Promise<{ host: ObservedNamespace; hostLinks: ReadonlyMap<string, string> }> {
  const links = names?.map((name) => toBatchLine(['addr', 'show', 'dev', name])) ?? ['addr show']
  const queries = [...links, ...addresses.map((address) => toBatchLine(['route', 'get', address]))]
  const output = await ask(run, queries)
  if (!noWay.test(output.stderr)) requireSeen(output, 'ip')
  const documents = readDocuments(output.stdout)
  const hostLinks = documents.filter((entry) => 'dst' in entry && 'dev' in entry && !('ifname' in entry))
  return {
    host: { links: readLinks(documents), routes: new Map() },
    hostLinks: new Map(hostLinks.map((entry) => [String(entry['dst']), String(entry['dev'])])),
  }
}

export async function observeTables(run: Run): Promise<ObservedTable> {
  const tables = await Promise.all([observeTable(run, 'inet'), observeTable(run, 'bridge')])
  const elements = tables.flatMap((table) => (table === 'absent' ? [] : [...table.elements]))
  return { rules: new Map(), elements: new Map(elements) }
}
