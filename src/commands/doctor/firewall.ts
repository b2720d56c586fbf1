// SPDX-License-Identifier: Apache-2.0
// Whether a firewall of somebody else drops what pods send and get: a few packets are followed through its rules. A
// condition that cannot be decided lets an accept count, and a drop not: what is reported is certain.

import { includes, parseAddress, parseCidr } from '../../cni/addresses.ts'
import { isObject, type JsonObject } from '../../cni/json.ts'
import { acceptMark, tableName } from '../../kernel/nft-table.ts'
import { uplinkName } from '../../kernel/proc.ts'
import type { Machine } from '../../process/machine.ts'
import { findProgram } from '../../process/runner.ts'
import { type Finding, findingOf } from '../findings.ts'
import { textIfThere } from '../if-there.ts'
import { readSaved } from './iptables.ts'
import { type Node, type PodNetwork, podOf } from './node.ts'
import { isPlainCommand } from './shell.ts'

export type Matches = 'yes' | 'no' | 'maybe'

/** TCP to port 443. `in`, `out`: links. `isMarked`: with the mark that trestle's accepts stand for. */
export interface Packet {
  readonly family: 4 | 6
  readonly in: string
  readonly out: string
  readonly from: string
  readonly to: string
  readonly state: 'new' | 'established'
  readonly isMarked: boolean
}

export interface Rule {
  readonly verdict: 'accept' | 'drop' | 'return' | 'jump' | 'goto' | 'none'
  readonly target?: string
  readonly matches: (packet: Packet) => Matches
  /** Of nft: its place, by which its text is found. */
  readonly handle?: { readonly chain: string; readonly number: string }
  /** It has no condition at all. */
  readonly isUnconditional: boolean
  readonly text: string
  /** Commands that put an accept with these words before the rule, and that delete the rule. */
  readonly insert: (accept: string) => string
  readonly remove: string
}

/** A base chain of a filter, and all chains of its table. */
export interface BaseChain {
  readonly hook: string
  readonly name: string
  /** How a report names it. */
  readonly text: string
  readonly families: readonly (4 | 6)[]
  readonly policy: 'accept' | 'drop'
  readonly chains: ReadonlyMap<string, readonly Rule[]>
  readonly isOfIptables: boolean
  /** Family and table of nft; of iptables empty. */
  readonly table: readonly string[]
  /** The command that puts an accept at its end. */
  readonly append: (accept: string) => string
}

export async function checkFirewalls(node: Node): Promise<readonly Finding[]> {
  const chains = [...(await nftChains(node)), ...(await savedChains(node))]
  const found: Finding[] = []
  for (const network of node.networks) {
    for (const chain of chains) found.push(...(await judge(chain, network, node)))
  }
  return found
}

/** Addresses for documentation (RFC 5737, RFC 3849); no packet is sent. */
const far = { 4: '203.0.113.77', 6: '2001:db8:ffff::77' } as const

/** One finding for a chain and a network; the note only where nothing worse is found. */
async function judge(chain: BaseChain, network: PodNetwork, { machine }: Node): Promise<readonly Finding[]> {
  const [link] = network.links
  // The first ADD puts its accept there.
  const isToCome = chain.hook === 'forward' && network.accepts && !network.isSetUp
  if (link === undefined || isToCome) return []
  const outside = uplinkName() ?? 'uplink'
  const isMarked = network.accepts
  const drops: { drop: Drop; subnet: string }[] = []
  const closed: Finding[] = []
  for (const subnet of network.subnets) {
    const pod = podOf(subnet)
    const family = subnet.includes(':') ? 6 : 4
    if (pod === undefined || !chain.families.includes(family)) continue
    const sent: Packet = { family, in: link, out: outside, from: pod, to: far[family], state: 'new', isMarked }
    const answer: Packet = { ...sent, in: outside, out: link, from: far[family], to: pod, state: 'established' }
    const toNode: Packet = { ...sent, out: '', to: subnet.replace(/\/.*/, '') }
    const isInput = chain.hook === 'input'
    const drop = isInput
      ? dropOf(chain, { ...toNode, state: 'established' })
      : (dropOf(chain, sent) ?? dropOf(chain, answer))
    if (drop !== undefined) drops.push({ drop: await withText(drop, chain, machine), subnet })
    const closing = isInput && drop === undefined ? dropOf(chain, toNode) : undefined
    if (closing === undefined) continue
    const { text } = await withText(closing, chain, machine)
    const message = `${chain.text} drops what pods of ${subnet} open to the node, by ${text}`
    closed.push(findingOf({ id: 'node-firewall', on: `network ${network.name}`, message }))
  }
  return drops.length > 0 ? [dropFinding(chain, network, drops)] : closed.slice(0, 1)
}

/** What drops a packet: a rule, or the policy. */
interface Drop {
  readonly text: string
  readonly rule?: Rule
}

/** nft's JSON has no text of a rule. */
async function withText(drop: Drop, { table }: BaseChain, machine: Machine): Promise<Drop> {
  const { handle } = drop.rule ?? {}
  if (handle === undefined) return drop
  const { stdout } = await machine.ask({ file: 'nft', args: ['-a', 'list', 'chain', ...table, handle.chain] })
  const line = stdout.split('\n').find((each) => each.endsWith(` # handle ${handle.number}`))
  const text = line?.replace(/ # handle \d+$/, '').trim()
  return text === undefined ? drop : { ...drop, text: `\`${text}\` of chain ${handle.chain}` }
}

type Outcome = 'accepted' | 'through' | Drop

function dropOf(chain: BaseChain, packet: Packet): Drop | undefined {
  const outcome = follow(chain, chain.name, { packet, depth: 0 })
  if (typeof outcome === 'object') return outcome
  return outcome === 'through' && chain.policy === 'drop' ? { text: 'its policy' } : undefined
}

/** Deeper than any firewall that ends. */
const deepest = 16

function follow(chain: BaseChain, name: string, at: { packet: Packet; depth: number }): Outcome {
  for (const rule of chain.chains.get(name) ?? []) {
    const matches = rule.matches(at.packet)
    if (matches === 'no' || at.depth > deepest) continue
    if (rule.verdict === 'accept') return 'accepted'
    if (rule.verdict === 'drop' && matches === 'yes') return { text: `\`${rule.text}\``, rule }
    if (rule.verdict === 'return' && matches === 'yes') return 'through'
    if (rule.target === undefined) continue
    const inner = follow(chain, rule.target, { ...at, depth: at.depth + 1 })
    if (inner === 'accepted') return inner
    if (matches === 'yes' && (typeof inner === 'object' || rule.verdict === 'goto')) return inner
  }
  return 'through'
}

/** Docker calls it first; administrators write there what is to be dropped. */
const adminChain = 'DOCKER-USER'

function dropFinding(chain: BaseChain, network: PodNetwork, drops: readonly { drop: Drop; subnet: string }[]): Finding {
  const subnets = drops.map(({ subnet }) => subnet).join(' and ')
  const by = [...new Set(drops.map(({ drop }) => drop.text))].join(' and ')
  const message = `${chain.text} drops packets of pods of ${subnets}, by ${by}`
  const lines = drops.flatMap(({ drop: { rule }, subnet }) => {
    if (rule !== undefined && !rule.isUnconditional) return [rule.remove]
    return acceptsFor(chain, subnet).map((accept) => (rule === undefined ? chain.append(accept) : rule.insert(accept)))
  })
  const isOfAdmin = drops.some(({ drop }) => drop.text.includes(adminChain))
  const isSafe = !isOfAdmin && lines.every(isPlainCommand)
  const run = [...new Set(lines)].join('\n')
  return findingOf({ id: 'firewall-drops', on: `network ${network.name}`, message, ...(isSafe ? { run } : {}) })
}

/** What pods send, and answers to it; in the input hook answers to the node, and pings. */
function acceptsFor({ isOfIptables, hook }: BaseChain, subnet: string): readonly string[] {
  const family = subnet.includes(':') ? 'ip6' : 'ip'
  const icmp = family === 'ip' ? 'icmp' : 'ipv6-icmp'
  const states = isOfIptables ? '-m conntrack --ctstate RELATED,ESTABLISHED' : 'ct state established,related'
  const rule = (end: 'saddr' | 'daddr', condition: string) => {
    if (!isOfIptables) return `${family} ${end} ${subnet} ${condition} accept`.replace('  ', ' ')
    return `${end === 'saddr' ? '-s' : '-d'} ${subnet} ${condition} -j ACCEPT`.replace('  ', ' ')
  }
  if (hook !== 'input') return [rule('saddr', ''), rule('daddr', states)]
  return [rule('saddr', states), rule('saddr', isOfIptables ? `-p ${icmp}` : `meta l4proto ${icmp}`)]
}

// Conditions, for both tools.

export function all(parts: readonly Matches[]): Matches {
  if (parts.includes('no')) return 'no'
  return parts.includes('maybe') ? 'maybe' : 'yes'
}

export function inverted(part: Matches, isNegated: boolean): Matches {
  return part === 'maybe' || !isNegated ? part : part === 'yes' ? 'no' : 'yes'
}

export function addressMatches(address: string, cidr: string): Matches {
  const [one, range] = [parseAddress(address), parseCidr(cidr.includes('/') ? cidr : `${cidr}/${one32(cidr)}`)]
  if (one === undefined || range === undefined) return 'maybe'
  return one.family === range.family && includes(range, one) ? 'yes' : 'no'
}

function one32(address: string): number {
  return address.includes(':') ? 128 : 32
}

/** `pattern`: a name, or the beginning of one before * or +. */
export function linkMatches(link: string, pattern: string): Matches {
  const isPrefix = /[*+]$/.test(pattern)
  return (isPrefix ? link.startsWith(pattern.slice(0, -1)) : link === pattern) ? 'yes' : 'no'
}

// Chains of nftables, as `nft -j` lists them (libnftables-json(5)).

async function nftChains({ machine }: Node): Promise<readonly BaseChain[]> {
  const { code, stdout, stderr } = await machine.ask({ file: 'nft', args: ['-j', '-a', '-t', 'list', 'ruleset'] })
  if (code !== 0) throw new Error(`nft cannot list the rules: ${stderr.trim()}`)
  const { nftables: entries = [] } = JSON.parse(stdout) as { nftables?: readonly Record<string, JsonObject>[] }
  const tables = new Map<string, Map<string, Rule[]>>()
  for (const { rule } of entries) {
    if (rule === undefined) continue
    const key = `${rule['family']} ${rule['table']}`
    const chains = tables.get(key) ?? new Map<string, Rule[]>()
    tables.set(key, chains)
    const name = String(rule['chain'])
    chains.set(name, [...(chains.get(name) ?? []), nftRule(rule)])
  }
  const dormant = new Set<string>()
  for (const { chain } of entries) {
    if (chain?.['hook'] === undefined || chain['table'] === tableName) continue
    // Not every nft has the flags of a table in its JSON.
    const [family, table] = [String(chain['family']), String(chain['table'])]
    const listed = await machine.ask({ file: 'nft', args: ['-t', 'list', 'table', family, table] })
    if (/^\tflags .*\bdormant\b/m.test(listed.stdout)) dormant.add(`${family} ${table}`)
  }
  return entries.flatMap(({ chain = {} }): readonly BaseChain[] => {
    const { family, table, name, hook, policy, type } = chain
    const place = `${family} ${table}`
    const isOthers = ['ip', 'ip6', 'inet'].includes(String(family)) && table !== tableName && table !== 'firewalld'
    if (hook === undefined || type !== 'filter' || !isOthers || dormant.has(place) || isOfIptables(chain)) return []
    return [
      {
        hook: String(hook),
        name: String(name),
        text: `nft chain ${place} ${name}`,
        families: family === 'inet' ? [4, 6] : [family === 'ip' ? 4 : 6],
        policy: policy === 'drop' ? 'drop' : 'accept',
        chains: tables.get(place) ?? new Map(),
        isOfIptables: false,
        table: [String(family), String(table)],
        append: (accept) => `nft add rule ${place} ${name} ${accept}`,
      },
    ]
  })
}

/** iptables-nft's own program shows its rules: nft prints some of their conditions as a name alone. */
function isOfIptables({ family, table, name }: JsonObject): boolean {
  const isBuiltIn = ['filter', 'raw', 'mangle'].includes(String(table)) && /^[A-Z]+$/.test(String(name))
  return family !== 'inet' && isBuiltIn && findProgram(`${family}tables-nft-save`) !== undefined
}

const verdicts = ['accept', 'drop', 'reject', 'return', 'jump', 'goto'] as const

function nftRule(rule: JsonObject): Rule {
  const { family, table, chain, handle } = rule
  const statements = (rule['expr'] as readonly JsonObject[]).flatMap((each) => Object.entries(each))
  const end = statements.find(([key]) => verdicts.includes(key as never))
  const conditions = statements.filter(([key]) => !['counter', 'log', ...verdicts].includes(key))
  const word = end?.[0] as (typeof verdicts)[number] | undefined
  const target = isObject(end?.[1]) ? end[1]['target'] : undefined
  const map = statements.find(([key]) => key === 'vmap')?.[1]
  const place = `${family} ${table} ${chain}`
  return {
    verdict: map !== undefined ? 'accept' : word === 'reject' ? 'drop' : (word ?? 'none'),
    ...(typeof target === 'string' ? { target } : {}),
    matches: (packet) => {
      if (isObject(map)) return accepted(map, packet)
      return all(conditions.map(([key, value]) => (key === 'match' ? nftMatches(value, packet) : 'maybe')))
    },
    isUnconditional: conditions.length === 0,
    text: `handle ${handle} of chain ${chain}`,
    handle: { chain: String(chain), number: String(handle) },
    insert: (accept) => `nft insert rule ${place} handle ${handle} ${accept}`,
    remove: `nft delete rule ${place} handle ${handle}`,
  }
}

/** Whether a verdict map accepts the packet; what else it may do with it is not followed. */
function accepted(map: JsonObject, packet: Packet): Matches {
  const set = isObject(map['data']) ? map['data']['set'] : undefined
  if (!Array.isArray(set)) return 'maybe'
  for (const [key, verdict] of set) {
    const matches = nftMatches({ op: '==', left: map['key'], right: key }, packet)
    if (matches === 'yes') return isObject(verdict) && 'accept' in verdict ? 'yes' : 'no'
  }
  return 'no'
}

function nftMatches(match: unknown, packet: Packet): Matches {
  const { op, left, right } = match as { op: string; left: JsonObject; right: unknown }
  const options: readonly unknown[] = isObject(right) && Array.isArray(right['set']) ? right['set'] : [right].flat()
  const found = options.map((option) => nftValueMatches(left, option, packet))
  const any: Matches = found.includes('yes') ? 'yes' : found.includes('maybe') ? 'maybe' : 'no'
  return inverted(any, op === '!=')
}

function nftValueMatches(left: JsonObject, value: unknown, packet: Packet): Matches {
  const { payload, meta, ct, '&': masked } = left as Readonly<Record<string, JsonObject | undefined>>
  const text =
    isObject(value) && isObject(value['prefix']) ? `${value['prefix']['addr']}/${value['prefix']['len']}` : value
  if (typeof text === 'string' && text.startsWith('@')) return 'maybe'
  const field = payload?.['field']
  if (field === 'saddr' || field === 'daddr') {
    if ((payload?.['protocol'] === 'ip6') !== (packet.family === 6)) return 'no'
    return typeof text === 'string' ? addressMatches(field === 'saddr' ? packet.from : packet.to, text) : 'maybe'
  }
  if (payload?.['protocol'] === 'tcp' && field === 'dport')
    return isObject(value) ? 'maybe' : value === 443 ? 'yes' : 'no'
  if (['udp', 'icmp', 'icmpv6', 'sctp'].includes(String(payload?.['protocol']))) return 'no'
  const key = meta?.['key']
  if (key === 'iifname' || key === 'iif') return linkMatches(packet.in, String(value))
  if (key === 'oifname' || key === 'oif') return linkMatches(packet.out, String(value))
  if (key === 'l4proto') return value === 'tcp' || value === 6 ? 'yes' : 'no'
  if (key === 'nfproto') return value === (packet.family === 4 ? 'ipv4' : 'ipv6') ? 'yes' : 'no'
  // The one mark that is known is that of trestle's accepts.
  if (Array.isArray(masked)) return packet.isMarked && value === acceptMark ? 'yes' : 'no'
  if (key === 'mark') return value === 0 ? 'yes' : 'no'
  if (ct?.['key'] === 'state') return value === packet.state ? 'yes' : 'no'
  return 'maybe'
}

// Chains of iptables.

/** Reads the tables of each iptables that has some: the other one would make its own by being asked. */
async function savedChains({ machine }: Node): Promise<readonly BaseChain[]> {
  const found: BaseChain[] = []
  for (const prefix of ['ip', 'ip6'] as const) {
    const hasLegacy = textIfThere(`/proc/net/${prefix}_tables_names`).trim() !== ''
    for (const program of [`${prefix}tables-nft`, ...(hasLegacy ? [`${prefix}tables-legacy`] : [])]) {
      if (findProgram(`${program}-save`) === undefined) continue
      const { code, stdout } = await machine.ask({ file: `${program}-save`, args: [] })
      if (code === 0) found.push(...readSaved(stdout, program, prefix === 'ip' ? 4 : 6))
    }
  }
  return found
}
