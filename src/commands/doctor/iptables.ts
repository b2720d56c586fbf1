// SPDX-License-Identifier: Apache-2.0
// The chains that iptables-save(8) prints.

import type { Machine } from '../../process/machine.ts'
import { findProgram } from '../../process/runner.ts'
import { textIfThere } from '../if-there.ts'
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

const hooks: Readonly<Record<string, string>> = {
  PREROUTING: 'prerouting',
  INPUT: 'input',
  FORWARD: 'forward',
  POSTROUTING: 'postrouting',
}

/** Reads the tables of each iptables that has some: the other one would make its own by being asked. */
export async function savedChains(machine: Machine): Promise<readonly BaseChain[]> {
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

/** Base chains of the tables that drop. `program`: without `-save`. */
export function readSaved(text: string, program: string, family: 4 | 6): readonly BaseChain[] {
  const found: BaseChain[] = []
  let table = ''
  let chains = new Map<string, Rule[]>()
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) {
      table = line.slice(1)
      chains = new Map()
    }
    const [, name, policy] = /^:(\S+) (\S+)/.exec(line) ?? []
    const command = table === 'filter' ? program : `${program} -t ${table}`
    const hook = name === undefined ? undefined : hooks[name]
    if (name !== undefined && hook !== undefined && table !== 'nat') {
      const text = `${name} of ${program}${table === 'filter' ? '' : `, table ${table}`}`
      const append = (accept: string) => `${command} -A ${name} ${accept}`
      const rules = { policy: policy === 'DROP' ? ('drop' as const) : ('accept' as const), chains, append }
      found.push({ hook, name, text, families: [family], isOfIptables: true, table: [], ...rules })
    }
    const [, chain, words] = /^-A (\S+)(.*)$/.exec(line) ?? []
    if (chain === undefined || words === undefined) continue
    const rules = chains.get(chain) ?? []
    rules.push(readRule(words.trim(), { command, chain, number: rules.length + 1 }))
    chains.set(chain, rules)
  }
  return found
}

const verdicts: Readonly<Record<string, Rule['verdict']>> = {
  ACCEPT: 'accept',
  DROP: 'drop',
  REJECT: 'drop',
  RETURN: 'return',
}

/** Targets that let a packet go on. */
const passing = ['LOG', 'NFLOG', 'MARK', 'CONNMARK', 'TCPMSS', 'CT', 'NOTRACK', 'CLASSIFY', 'TRACE']

function readRule(words: string, at: { command: string; chain: string; number: number }): Rule {
  const { command, chain, number } = at
  const bare = words.replace(/-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+) ?/g, '')
  const [, jump, target = ''] = / ?-([jg]) (\S+)/.exec(bare) ?? []
  const conditions = bare.replace(/ ?-[jg] .*/, '').trim()
  const verdict =
    verdicts[target] ?? (jump === undefined || passing.includes(target) ? 'none' : jump === 'g' ? 'goto' : 'jump')
  return {
    verdict,
    ...(verdict === 'jump' || verdict === 'goto' ? { target } : {}),
    matches: (packet) => conditionsMatch(conditions, packet),
    text: `-A ${chain} ${words}`,
    insert: (accept) => `${command} -I ${chain} ${number} ${accept}`,
    remove: `${command} -D ${chain} ${words}`,
  }
}

const part = /(! )?(-[sdiop]|--ctstate|--state|--dport|--dports|--mark|-m|--\S+) (\S+)/g

function conditionsMatch(conditions: string, packet: Packet): Matches {
  const parts = [...conditions.matchAll(part)].map(([, not, option = '', value = '']): Matches => {
    return inverted(optionMatches(option, value, packet), not !== undefined)
  })
  const rest = conditions.replaceAll(part, '').trim()
  // -f is for fragments, and no packet here is one.
  if (rest !== '') parts.push(rest === '-f' ? 'no' : 'maybe')
  return all(parts)
}

function optionMatches(option: string, value: string, packet: Packet): Matches {
  switch (option) {
    case '-s':
      return addressMatches(packet.from, value)
    case '-d':
      return addressMatches(packet.to, value)
    case '-i':
      return linkMatches(packet.in, value)
    case '-o':
      return linkMatches(packet.out, value)
    case '-p':
      return value === 'tcp' || value === 'all' ? 'yes' : 'no'
    case '--ctstate':
    case '--state':
      return value.toLowerCase().split(',').includes(packet.state) ? 'yes' : 'no'
    case '--dport':
      return value.includes(':') ? 'maybe' : value === '443' ? 'yes' : 'no'
    case '--mark': {
      const [mark, mask] = value.split('/')
      return markMatches(packet, Number(mark), mask === undefined ? undefined : Number(mask))
    }
    case '-m':
      return ['conntrack', 'state', 'tcp', 'mark', 'udp'].includes(value) ? 'yes' : 'maybe'
    default:
      return 'maybe'
  }
}
