// SPDX-License-Identifier: Apache-2.0
// Whether a firewall of somebody else drops what pods send and get: a packet is followed through its chains, as `nft -j`
// lists them (libnftables-json(5)), with those of iptables-nft. A condition that cannot be decided lets an accept count,
// and a drop not: a drop that is found is certain.

import { firstOf, formatAddress, includes, parseAddress, parsePrefix, toCidr } from '../../cni/addresses.ts'
import { isObject, type JsonObject } from '../../cni/json.ts'
import { acceptMark, tableName } from '../../kernel/nft-table.ts'
import { uplinkName } from '../../kernel/proc.ts'
import type { Machine } from '../../process/machine.ts'
import { type Finding, findingOf } from '../findings.ts'
import type { Node, PodNetwork } from './observed-node.ts'

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

/** A rule of nft, as JSON and as text. */
interface Rule {
  readonly chain: string
  readonly expr: readonly JsonObject[]
  readonly text: string
}

/** A base chain of a filter; `rules`: of all chains of its table, by name. */
interface BaseChain {
  readonly family: string
  readonly table: string
  readonly name: string
  readonly hook: string
  readonly drops: boolean
  readonly rules: ReadonlyMap<string, readonly Rule[]>
}

export async function checkFirewalls({ machine, networks }: Node): Promise<readonly Finding[]> {
  const found: Finding[] = []
  for (const chain of await foreignChains(machine)) {
    for (const network of networks) found.push(...judge(chain, network))
  }
  return found
}

/** Where packets of pods pass on their way through the node or to it. */
const hooks: readonly string[] = ['prerouting', 'forward', 'postrouting', 'input']

/** Throws where nft fails. */
async function foreignChains(machine: Machine): Promise<readonly BaseChain[]> {
  const { nftables = [] } = JSON.parse(await list(machine, '-j')) as {
    nftables?: readonly Record<string, JsonObject>[]
  }
  const { texts, dormant } = readText(await list(machine))
  const tables = new Map<string, Map<string, Rule[]>>()
  for (const { rule } of nftables) {
    if (rule === undefined) continue
    const [place, chain] = [`${rule['family']} ${rule['table']}`, String(rule['chain'])]
    const chains = tables.get(place) ?? new Map<string, Rule[]>()
    tables.set(place, chains)
    const text = texts.get(`${place} ${rule['handle']}`) ?? `handle ${rule['handle']}`
    const before = chains.get(chain)
    const read = { chain, expr: rule['expr'] as readonly JsonObject[], text }
    if (before === undefined) chains.set(chain, [read])
    else before.push(read)
  }
  return nftables.flatMap(({ chain = {} }): readonly BaseChain[] => {
    const family = String(chain['family'])
    const [table, name, hook] = [String(chain['table']), String(chain['name']), String(chain['hook'])]
    const isOfPods = ['ip', 'ip6', 'inet'].includes(family) && hooks.includes(hook) && chain['type'] === 'filter'
    // firewalld answers for its own zones: `trestle explain` knows its refusals.
    const isOthers = table !== tableName && table !== 'firewalld' && !dormant.has(`${family} ${table}`)
    if (!isOfPods || !isOthers) return []
    const rules = tables.get(`${family} ${table}`) ?? new Map<string, Rule[]>()
    return [{ family, table, name, hook, drops: chain['policy'] === 'drop', rules }]
  })
}

async function list(machine: Machine, ...options: readonly string[]): Promise<string> {
  const args = [...options, '-a', '-t', 'list', 'ruleset']
  const { code, stdout, stderr } = await machine.ask({ file: 'nft', args })
  if (code !== 0) throw new Error(`nft cannot list the rules: ${stderr.trim()}`)
  return stdout
}

/**
 * The text of each rule by family, table and handle, and the tables that are dormant. The JSON has no text of a rule, of a
 * condition of iptables only the name, and not with every nft the flags of a table.
 */
function readText(listing: string) {
  const texts = new Map<string, string>()
  const dormant = new Set<string>()
  let table = ''
  for (const line of listing.split('\n')) {
    const [, head] = /^table (\S+ \S+) \{/.exec(line) ?? []
    const [, text = '', handle] = /^\t\t(.*) # handle (\d+)$/.exec(line) ?? []
    if (head !== undefined) table = head
    else if (/^\tflags .*\bdormant\b/.test(line)) dormant.add(table)
    else if (handle !== undefined) texts.set(`${table} ${handle}`, text)
  }
  return { texts, dormant }
}

/** Addresses for documentation (RFC 5737, RFC 3849); no packet is sent. */
const far = { 4: '203.0.113.77', 6: '2001:db8:ffff::77' } as const

/** At most one finding for a chain and a network. In the input hook it is a note, as a firewall of a node has reasons. */
function judge(chain: BaseChain, network: PodNetwork): readonly Finding[] {
  const [link] = network.links
  const { hook } = chain
  // The first ADD puts its accept there.
  const isToCome = hook === 'forward' && network.accepts && !network.isSetUp
  if (link === undefined || isToCome) return []
  const outside = uplinkName() ?? 'uplink'
  for (const subnet of network.subnets) {
    const [gateway, pod] = [addressIn(subnet, 1n), addressIn(subnet, 2n)]
    const family = subnet.includes(':') ? 6 : 4
    if (chain.family !== 'inet' && (chain.family === 'ip6') !== (family === 6)) continue
    const common = { family, isMarked: network.accepts } as const
    const sent: Packet = { ...common, in: link, out: outside, from: pod, to: far[family], state: 'new' }
    const answer: Packet = { ...common, in: outside, out: link, from: far[family], to: pod, state: 'established' }
    // Before its way is chosen, an answer may still have the address of the node.
    const packets = { input: [{ ...sent, out: '', to: gateway }], prerouting: [sent] }[hook] ?? [sent, answer]
    for (const packet of packets) {
      const drop = follow(chain, chain.name, packet, 0)
      if (drop === 'accepted' || (drop === 'through' && !chain.drops)) continue
      const counted = / ?counter packets \d+ bytes \d+/
      const by =
        drop === 'through' ? 'its policy' : `\`${drop.text.replace(counted, '').trim()}\` of chain ${drop.chain}`
      const ofPods = `pods of ${subnet}`
      const forwarded = packet === answer ? `packets to ${ofPods}` : `packets from ${ofPods}`
      const what = hook === 'input' ? `what ${ofPods} open to the node` : forwarded
      const message = `nft chain ${chain.family} ${chain.table} ${chain.name} drops ${what}, by ${by}`
      const id = hook === 'input' ? 'node-firewall' : 'firewall-drops'
      return [findingOf({ id, on: `network ${network.name}`, message })]
    }
  }
  return []
}

/** An address of the range: the second is likely the gateway's, the third a pod's. */
function addressIn(subnet: string, at: bigint): string {
  const { family, value } = firstOf(toCidr(subnet))
  return formatAddress({ family, value: value + at })
}

/** Deeper than any firewall that ends. */
const deepest = 16

/** The rule that drops the packet, or what becomes of it. */
function follow(chain: BaseChain, name: string, packet: Packet, depth: number): Rule | 'accepted' | 'through' {
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

/** What a rule does with the packet. A queue may do anything: it counts as an accept. */
function readRule({ expr, text }: Rule, packet: Packet) {
  let verdict: 'accept' | 'drop' | 'return' | 'jump' | 'goto' | 'none' = 'none'
  let target: string | undefined
  const parts: Matches[] = []
  for (const [key, value] of expr.flatMap((each) => Object.entries(each))) {
    const fields = isObject(value) ? value : {}
    const name = key === 'xt' ? `${fields['type']} ${fields['name']}` : key
    switch (name) {
      case 'match':
        parts.push(conditionMatches(fields, packet))
        break
      case 'accept':
      case 'drop':
      case 'return':
        verdict = name
        break
      case 'reject':
      case 'target REJECT':
        verdict = 'drop'
        break
      case 'queue':
      case 'target NFQUEUE':
        verdict = 'accept'
        break
      case 'jump':
      case 'goto':
        verdict = name
        target = String(fields['target'])
        break
      case 'vmap':
        verdict = 'accept'
        parts.push(mapAccepts(fields, packet))
        break
      case 'match conntrack':
      case 'match state':
        parts.push(stateMatches(text, packet))
        break
      case 'counter':
      case 'log':
      case 'match comment':
        break
      default:
        if (!name.startsWith('target ')) parts.push('maybe')
    }
  }
  const matches: Matches = parts.includes('no') ? 'no' : parts.includes('maybe') ? 'maybe' : 'yes'
  return { verdict, target, matches }
}

/** A state of a connection, which nft prints of a rule of iptables as its own. */
function stateMatches(text: string, { state }: Packet): Matches {
  const [, not, states] = /\bct state (! |!= )?([\w,]+)/.exec(text) ?? []
  if (states === undefined) return 'maybe'
  return states.split(',').includes(state) === (not === undefined) ? 'yes' : 'no'
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
  const protocol = String(isObject(payload) ? payload['protocol'] : 'tcp')
  if (protocol === 'ip' || protocol === 'ip6') return (protocol === 'ip6') === (family === 6)
  return !['udp', 'icmp', 'icmpv6', 'sctp'].includes(protocol)
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
