// SPDX-License-Identifier: Apache-2.0
// The chains of nftables, as `nft -j` lists them (libnftables-json(5)).

import { isObject, type JsonObject } from '../../cni/json.ts'
import { tableName } from '../../kernel/nft-table.ts'
import type { Machine } from '../../process/machine.ts'
import { findProgram } from '../../process/runner.ts'
import {
  addressMatches,
  all,
  type BaseChain,
  inverted,
  linkMatches,
  type Matches,
  markMatches,
  type Packet,
  type Rule,
} from './packet-filter.ts'

/** Base chains of filters that are not trestle's. Throws where nft fails. */
export async function nftChains(machine: Machine): Promise<readonly BaseChain[]> {
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
    if (matches !== 'yes' || !isObject(verdict)) continue
    if ('jump' in verdict || 'goto' in verdict) return 'maybe'
    return 'accept' in verdict ? 'yes' : 'no'
  }
  return 'no'
}

function nftMatches(match: unknown, packet: Packet): Matches {
  const { op, left, right } = match as { op: string; left: JsonObject; right: unknown }
  // A rule for a field that the packet does not have is not for it, negated or not.
  if (!hasField(left, packet)) return 'no'
  const options: readonly unknown[] = isObject(right) && Array.isArray(right['set']) ? right['set'] : [right].flat()
  const found = options.map((option) => nftValueMatches(left, option, packet))
  const any: Matches = found.includes('yes') ? 'yes' : found.includes('maybe') ? 'maybe' : 'no'
  return inverted(any, op === '!=')
}

function hasField({ payload }: JsonObject, { family }: Packet): boolean {
  if (!isObject(payload)) return true
  const protocol = String(payload['protocol'])
  if (protocol === 'ip' || protocol === 'ip6') return (protocol === 'ip6') === (family === 6)
  return !['udp', 'icmp', 'icmpv6', 'sctp'].includes(protocol)
}

function nftValueMatches(left: JsonObject, value: unknown, packet: Packet): Matches {
  const { payload, meta, ct, '&': masked } = left as Readonly<Record<string, JsonObject | undefined>>
  const prefix = isObject(value) && isObject(value['prefix']) ? value['prefix'] : undefined
  const text = prefix === undefined ? value : `${prefix['addr']}/${prefix['len']}`
  if (typeof text === 'string' && text.startsWith('@')) return 'maybe'
  const field = payload?.['field']
  if (field === 'saddr' || field === 'daddr') {
    return typeof text === 'string' ? addressMatches(field === 'saddr' ? packet.from : packet.to, text) : 'maybe'
  }
  if (field === 'dport' && payload?.['protocol'] === 'tcp') {
    return isObject(value) ? 'maybe' : value === 443 ? 'yes' : 'no'
  }
  const key = meta?.['key']
  if (key === 'iifname' || key === 'iif') return linkMatches(packet.in, String(value))
  if (key === 'oifname' || key === 'oif') return linkMatches(packet.out, String(value))
  if (key === 'l4proto') return value === 'tcp' || value === 6 ? 'yes' : 'no'
  if (key === 'nfproto') return value === (packet.family === 4 ? 'ipv4' : 'ipv6') ? 'yes' : 'no'
  if (key === 'mark' && typeof value === 'number') return markMatches(packet, value)
  if (Array.isArray(masked)) {
    const [operand, mask] = masked as readonly unknown[]
    const isMark = isObject(operand) && isObject(operand['meta']) && operand['meta']['key'] === 'mark'
    const isKnown = isMark && typeof mask === 'number' && typeof value === 'number'
    return isKnown ? markMatches(packet, value, mask) : 'maybe'
  }
  if (ct?.['key'] === 'state') return value === packet.state ? 'yes' : 'no'
  return 'maybe'
}
