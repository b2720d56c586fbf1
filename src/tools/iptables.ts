// SPDX-License-Identifier: Apache-2.0
// What `iptables -S` prints, to the rules of a foreign chain (iptables(8), libxtables' xtables_save_string for quotes).

import { familyOf } from '../cni/address.ts'
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

/**
 * The rules of one chain, from `-S CHAIN`. A target of no built-in name may be a chain, or an extension that decides
 * nothing.
 */
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

/** Whom a line of `-S` names: -s, -d, -i, -o. */
export function readIptablesMatches(line: string): RuleMatches {
  const bare = withoutQuoted(line).replace(/-m comment --comment \S+ ?/g, '')
  const end = (source: RegExp, link: RegExp): RuleEnd => ({
    addresses: [...bare.matchAll(source)].flatMap(([, word = '']) => addressesIn(word)),
    links: [...bare.matchAll(link)].map(([, name = '']) => name.replace(/\+$/, '*')),
  })
  const [from, to] = [end(/ -s (\S+)/g, / -i (\S+)/g), end(/ -d (\S+)/g, / -o (\S+)/g)]
  const others = bare.replace(/ -[sdio] \S+| -[jg] .*| !|^-A \S+/g, '').trim()
  const states = /^-m (?:conntrack --ctstate|state --state) (\S+)$/.exec(others)?.[1]
  return {
    addresses: addressesIn(bare),
    links: [...from.links, ...to.links],
    from,
    to,
    ...statesIn(states),
    isNarrow: others !== '',
    isNegated: / ! /.test(bare),
  }
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
function withoutQuoted(text: string): string {
  return text.replace(/"(?:[^"\\]|\\.)*"/g, 'quoted')
}

// Whom a firewall's rule names, from its text as its tool shows it.

/** Addresses as CIDRs, links by name, by the beginning of one (`cni*`), or as a set of nft (`@trusted`). */
export interface RuleEnd {
  readonly addresses: readonly string[]
  readonly links: readonly string[]
}

/** `addresses` and `links`: of both directions. */
export interface RuleMatches extends RuleEnd {
  /** Source addresses, and links by which packets come in. */
  readonly from: RuleEnd
  readonly to: RuleEnd
  /** States of connections, in small letters, where nothing but these and the ends has to match. */
  readonly states?: readonly string[]
  /** Something else has to match, too: a port, a state, a mark. */
  readonly isNarrow: boolean
  /** A match is turned round: whom it names is whom it leaves out. */
  readonly isNegated: boolean
}

/** The states in the words of an option or a match: `NEW,ESTABLISHED`, `{ established, new }`. */
export function statesIn(words: string | undefined): Pick<RuleMatches, 'states'> {
  return words === undefined ? {} : { states: words.toLowerCase().match(/[a-z]+/g) ?? [] }
}

/** What matches where a rule lies in a chain that another rule leads to: what both have to match. */
export function within(outer: RuleMatches, inner: RuleMatches): RuleMatches {
  const isOuterOpen = outer.states === undefined && !outer.isNarrow
  const states = isOuterOpen ? inner.states : undefined
  return {
    ...endsWithin(outer, inner),
    from: endsWithin(outer.from, inner.from),
    to: endsWithin(outer.to, inner.to),
    ...(states === undefined ? {} : { states }),
    isNarrow: outer.isNarrow || inner.isNarrow,
    isNegated: outer.isNegated || inner.isNegated,
  }
}

function endsWithin(outer: RuleEnd, inner: RuleEnd): RuleEnd {
  return { addresses: [...outer.addresses, ...inner.addresses], links: [...outer.links, ...inner.links] }
}

const address = /(?<![\w.:])(?:\d+(?:\.\d+){3}|[0-9a-f]*:[0-9a-f:]+)(?:\/\d+)?(?![\w.:])/gi

/** Every address in a text, those without a prefix as hosts. */
export function addressesIn(text: string): readonly string[] {
  return [...text.matchAll(address)].map(([found]) => {
    return found.includes('/') ? found : `${found}/${familyOf(found) === 6 ? 128 : 32}`
  })
}
