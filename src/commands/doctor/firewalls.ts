// SPDX-License-Identifier: Apache-2.0
// Whether a firewall of somebody else drops what pods send and get: a packet is followed through its chains, as `nft -j`
// lists them (libnftables-json(5)), with those of iptables-nft. A condition that cannot be decided lets an accept count,
// and a drop not: a drop that is found is certain.

import { includes, parseAddress, parsePrefix } from '../../cni/addresses.ts'
import { isObject, type JsonObject } from '../../cni/json.ts'
import { acceptMark, tableName } from '../../kernel/nft-table.ts'
import { uplinkName } from '../../kernel/proc.ts'
import type { Machine } from '../../process/machine.ts'
import { type Finding, findingOf } from '../findings.ts'
import { type Node, type PodNetwork, podOf } from './observed-node.ts'

/** TCP to port 443. `isMarked`: with the mark of what trestle accepts. */
interface Packet {
  readonly family: 4 | 6
  readonly in: string
  readonly out: string
  readonly from: string
  readonly to: string
  readonly state: 'new' | 'established'
  readonly isMarked: boolean
}

/** A base chain of a filter; `rules`: of all chains of its table, by name. */
interface BaseChain {
  readonly family: string
  readonly table: string
  readonly name: string
  readonly hook: string
  readonly drops: boolean
  readonly rules: ReadonlyMap<string, readonly JsonObject[]>
}

export async function checkFirewalls({ machine, networks }: Node): Promise<readonly Finding[]> {
  const found: Finding[] = []
  for (const chain of await foreignChains(machine)) {
    for (const network of networks) found.push(...(await judge(chain, network, machine)))
  }
  return found
}

/** Throws where nft fails. */
async function foreignChains(machine: Machine): Promise<readonly BaseChain[]> {
  const { code, stdout, stderr } = await machine.ask({ file: 'nft', args: ['-j', '-a', '-t', 'list', 'ruleset'] })
  if (code !== 0) throw new Error(`nft cannot list the rules: ${stderr.trim()}`)
  const { nftables = [] } = JSON.parse(stdout) as { nftables?: readonly Record<string, JsonObject>[] }
  const rules = nftables.flatMap(({ rule }): readonly JsonObject[] => (rule === undefined ? [] : [rule]))
  const found: BaseChain[] = []
  for (const { chain } of nftables) {
    if (chain?.['type'] !== 'filter' || !['ip', 'ip6', 'inet'].includes(String(chain['family']))) continue
    const [family, table, name, hook] = ['family', 'table', 'name', 'hook'].map((key) => String(chain[key]))
    if (family === undefined || table === undefined || name === undefined || hook === undefined) continue
    // firewalld answers for its own zones: `trestle explain` knows its refusals.
    if (table === tableName || table === 'firewalld' || (await isDormant(machine, family, table))) continue
    const own = rules.filter((rule) => rule['family'] === family && rule['table'] === table)
    const byChain = Map.groupBy(own, (rule) => String(rule['chain']))
    found.push({ family, table, name, hook, drops: chain['policy'] === 'drop', rules: byChain })
  }
  return found
}

/** Not every nft has the flags of a table in its JSON. */
async function isDormant(machine: Machine, family: string, table: string): Promise<boolean> {
  const { stdout } = await machine.ask({ file: 'nft', args: ['-t', 'list', 'table', family, table] })
  return /^\tflags .*\bdormant\b/m.test(stdout)
}

/** Addresses for documentation (RFC 5737, RFC 3849); no packet is sent. */
const far = { 4: '203.0.113.77', 6: '2001:db8:ffff::77' } as const

/** At most one finding for a chain and a network. In the input hook it is a note, as a firewall of a node has reasons. */
async function judge(chain: BaseChain, network: PodNetwork, machine: Machine): Promise<readonly Finding[]> {
  const [link] = network.links
  const isInput = chain.hook === 'input'
  // The first ADD puts its accept there.
  const isToCome = chain.hook === 'forward' && network.accepts && !network.isSetUp
  if (link === undefined || isToCome || chain.hook === 'output') return []
  const outside = uplinkName() ?? 'uplink'
  for (const subnet of network.subnets) {
    const pod = podOf(subnet)
    const family = subnet.includes(':') ? 6 : 4
    if (pod === undefined || (chain.family !== 'inet' && (chain.family === 'ip6') !== (family === 6))) continue
    const common = { family, isMarked: network.accepts } as const
    const sent: Packet = { ...common, in: link, out: outside, from: pod, to: far[family], state: 'new' }
    const answer: Packet = { ...common, in: outside, out: link, from: far[family], to: pod, state: 'established' }
    const toNode: Packet = { ...sent, out: '', to: subnet.replace(/\/.*/, '') }
    for (const packet of isInput ? [toNode] : [sent, answer]) {
      const drop = dropOf(chain, packet)
      if (drop === undefined) continue
      const by = drop === 'policy' ? 'its policy' : await textOf(drop, machine)
      const what = isInput ? 'what pods open to the node, from' : `packets ${packet === sent ? 'from' : 'to'} pods of`
      const message = `nft chain ${chain.family} ${chain.table} ${chain.name} drops ${what} ${subnet}, by ${by}`
      return [findingOf({ id: isInput ? 'node-firewall' : 'firewall-drops', on: `network ${network.name}`, message })]
    }
  }
  return []
}

/** nft's JSON has no text of a rule. */
async function textOf({ family, table, chain, handle }: JsonObject, machine: Machine): Promise<string> {
  const args = ['-a', 'list', 'chain', String(family), String(table), String(chain)]
  const { stdout } = await machine.ask({ file: 'nft', args })
  const line = stdout.split('\n').find((each) => each.endsWith(` # handle ${handle}`)) ?? `handle ${handle}`
  const text = line.replace(/ # handle \d+$/, '').replace(/ counter packets \d+ bytes \d+/, '')
  return `\`${text.trim()}\` of chain ${chain}`
}

type Drop = JsonObject | 'policy'

function dropOf(chain: BaseChain, packet: Packet): Drop | undefined {
  const outcome = follow(chain, chain.name, packet, 0)
  if (typeof outcome === 'object') return outcome
  return outcome === 'through' && chain.drops ? 'policy' : undefined
}

/** Deeper than any firewall that ends. */
const deepest = 16

/** The rule that drops the packet, or what becomes of it. */
function follow(chain: BaseChain, name: string, packet: Packet, depth: number): JsonObject | 'accepted' | 'through' {
  // After a return that may have happened, a drop is not certain.
  let hasReturned = false
  for (const rule of depth > deepest ? [] : (chain.rules.get(name) ?? [])) {
    const { verdict, target, matches } = readRule(rule, packet)
    if (matches === 'no') continue
    const isCertain = matches === 'yes' && !hasReturned
    if (verdict === 'accept') return 'accepted'
    if (verdict === 'drop' && isCertain) return rule
    if (verdict === 'return' && matches === 'yes') return 'through'
    if (verdict === 'return') hasReturned = true
    if (target === undefined) continue
    const inner = follow(chain, target, packet, depth + 1)
    if (inner === 'accepted' || (isCertain && (typeof inner === 'object' || verdict === 'goto'))) return inner
  }
  return 'through'
}

type Matches = 'yes' | 'no' | 'maybe'

interface Rule {
  readonly verdict: 'accept' | 'drop' | 'return' | 'jump' | 'goto' | 'none'
  readonly target?: string
  readonly matches: Matches
}

function readRule({ expr }: JsonObject, packet: Packet): Rule {
  let verdict: Rule['verdict'] = 'none'
  let target: string | undefined
  const parts: Matches[] = []
  for (const [key, value] of (expr as readonly JsonObject[]).flatMap((each) => Object.entries(each))) {
    const fields = isObject(value) ? value : {}
    if (key === 'match') parts.push(conditionMatches(fields, packet))
    else if (key === 'accept' || key === 'drop' || key === 'return') verdict = key
    else if (key === 'reject') verdict = 'drop'
    else if (key === 'jump' || key === 'goto') {
      verdict = key
      target = String(fields['target'])
    } else if (key === 'vmap') {
      verdict = 'accept'
      parts.push(mapAccepts(fields, packet))
    } else if (key === 'xt' && fields['type'] === 'target') verdict = fields['name'] === 'REJECT' ? 'drop' : verdict
    else if (key === 'xt') parts.push(extensionMatches(fields['name'], packet))
    else if (key !== 'counter' && key !== 'log') parts.push('maybe')
  }
  const matches = parts.includes('no') ? 'no' : parts.includes('maybe') ? 'maybe' : 'yes'
  return { verdict, matches, ...(target === undefined ? {} : { target }) }
}

/** Of a condition of iptables nft knows the name alone; most rules about a connection's state mean an established one. */
function extensionMatches(name: unknown, { state }: Packet): Matches {
  if (name === 'comment') return 'yes'
  return name === 'conntrack' || name === 'state' ? (state === 'new' ? 'no' : 'maybe') : 'maybe'
}

/** Whether a verdict map accepts the packet; what else it may do with it is not followed. */
function mapAccepts({ key, data }: JsonObject, packet: Packet): Matches {
  const entries = isObject(data) && Array.isArray(data['set']) ? data['set'] : undefined
  for (const [option, verdict] of entries ?? []) {
    if (conditionMatches({ op: '==', left: key, right: option }, packet) !== 'yes') continue
    return 'accept' in verdict ? 'yes' : 'jump' in verdict || 'goto' in verdict ? 'maybe' : 'no'
  }
  return entries === undefined ? 'maybe' : 'no'
}

function conditionMatches({ op, left, right }: JsonObject, packet: Packet): Matches {
  const field = isObject(left) ? left : {}
  // A rule for a field that the packet does not have is not for it, negated or not.
  if (!hasField(field, packet)) return 'no'
  const options: readonly unknown[] = isObject(right) && Array.isArray(right['set']) ? right['set'] : [right].flat()
  const found = options.map((option) => valueMatches(field, option, packet))
  const any = found.includes('yes') ? 'yes' : found.includes('maybe') ? 'maybe' : 'no'
  return op !== '!=' || any === 'maybe' ? any : any === 'yes' ? 'no' : 'yes'
}

function hasField({ payload }: JsonObject, { family }: Packet): boolean {
  const protocol = isObject(payload) ? payload['protocol'] : 'tcp'
  if (protocol === 'ip' || protocol === 'ip6') return (protocol === 'ip6') === (family === 6)
  return protocol === 'tcp' || protocol === 'th'
}

function valueMatches(left: JsonObject, value: unknown, packet: Packet): Matches {
  const { payload, meta, ct, '&': masked } = left
  const isEqual = (known: unknown): Matches => (value === known ? 'yes' : 'no')
  const field = isObject(payload) ? payload['field'] : undefined
  if (field === 'saddr') return addressMatches(packet.from, value)
  if (field === 'daddr') return addressMatches(packet.to, value)
  if (field === 'dport' && !isObject(value)) return isEqual(443)
  if (field === 'protocol' || field === 'nexthdr') return isEqual('tcp')
  const key = isObject(meta) ? meta['key'] : undefined
  if (key === 'iifname' || key === 'iif') return linkMatches(packet.in, String(value))
  if (key === 'oifname' || key === 'oif') return linkMatches(packet.out, String(value))
  if (key === 'l4proto') return value === 6 ? 'yes' : isEqual('tcp')
  if (key === 'nfproto') return isEqual(packet.family === 4 ? 'ipv4' : 'ipv6')
  const mark = packet.isMarked ? acceptMark : 0
  if (key === 'mark' && typeof value === 'number') return isEqual(mark)
  const [operand, mask] = Array.isArray(masked) ? masked : []
  const isMark = isObject(operand) && isObject(operand['meta']) && operand['meta']['key'] === 'mark'
  if (isMark && typeof mask === 'number') return isEqual(mark & mask)
  // No packet here is a fragment.
  if (isObject(operand) && isObject(operand['payload']) && operand['payload']['field'] === 'frag-off') return isEqual(0)
  return isObject(ct) && ct['key'] === 'state' ? isEqual(packet.state) : 'maybe'
}

function addressMatches(address: string, value: unknown): Matches {
  const prefix = isObject(value) && isObject(value['prefix']) ? value['prefix'] : undefined
  const text = prefix === undefined ? value : `${prefix['addr']}/${prefix['len']}`
  const [one, range] = [parseAddress(address), typeof text === 'string' ? parsePrefix(text) : undefined]
  if (one === undefined || range === undefined) return 'maybe'
  return one.family === range.family && includes(range, one) ? 'yes' : 'no'
}

/** `pattern`: a name, or the beginning of one before *. */
function linkMatches(link: string, pattern: string): Matches {
  const isMatch = pattern.endsWith('*') ? link.startsWith(pattern.slice(0, -1)) : link === pattern
  return isMatch ? 'yes' : 'no'
}
