// SPDX-License-Identifier: Apache-2.0
// What `iptables -S` prints, to the rules of a foreign chain (iptables(8), libxtables' xtables_save_string for quotes).

import type { ForeignAct, ForeignRule, ForeignRules } from '../features/accept-place.ts'
import { acceptMarkOf } from './accept-commands.ts'

const acts: Readonly<Record<string, ForeignAct>> = {
  ACCEPT: 'accept',
  DROP: 'drop',
  REJECT: 'drop',
  RETURN: 'return',
  QUEUE: 'end',
  NFQUEUE: 'end',
  LOG: 'log',
  NFLOG: 'log',
  ULOG: 'log',
}

/** The rules of `-S CHAIN`. A target of no built-in name is a chain, or an extension that decides nothing. */
export function readIptablesRules(listing: string, chain: string): ForeignRules {
  const start = `-A ${chain} `
  const lines = listing.split('\n').filter((line) => line.startsWith(start))
  return lines.map((line, at) => ruleOf(line, line.slice(start.length), at + 1))
}

/** Whether `-S CHAIN` of a built-in chain says that what comes to its end is dropped. */
export function dropsByPolicy(listing: string, chain: string): boolean {
  return listing.split('\n').includes(`-P ${chain} DROP`)
}

/** How many rules lead to each chain, from `-S` of the whole table. */
export function countIptablesTargets(listing: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const line of listing.split('\n')) {
    const target = line.startsWith('-A ') ? / -[jg] (\S+)/.exec(withoutQuoted(line))?.[1] : undefined
    if (target !== undefined) counts.set(target, (counts.get(target) ?? 0) + 1)
  }
  return counts
}

function ruleOf(line: string, words: string, number: number): ForeignRule {
  const bare = withoutQuoted(words).replace(/-m comment --comment \S+ ?/g, '')
  const [, letter, target = ''] = /(?:^| )-([jg]) (\S+)/.exec(bare) ?? []
  const act = letter === 'g' ? 'goto' : (acts[target] ?? (letter === undefined ? 'none' : 'jump'))
  const comment = /--comment (?:"((?:[^"\\]|\\.)*)"|(\S+))/.exec(words)
  const ourMark = act === 'accept' ? acceptMarkOf(comment?.[1] ?? comment?.[2] ?? '') : undefined
  return {
    id: String(number),
    // Packets of no connection that conntrack knows are nobody's that our accept would let pass.
    act: act === 'drop' && /--(?:ctstate|state) INVALID(?: |$)/.test(bare) ? 'none' : act,
    ...(act === 'jump' || act === 'goto' ? { target } : {}),
    isUnconditional: /^-[jg] /.test(bare),
    ...(ourMark === undefined ? {} : { ourMark }),
    text: line,
  }
}

/** A quoted text may hold what looks like an option: it becomes one word. */
export function withoutQuoted(text: string): string {
  return text.replace(/"(?:[^"\\]|\\.)*"/g, 'quoted')
}
