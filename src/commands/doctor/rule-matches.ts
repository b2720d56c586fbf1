// SPDX-License-Identifier: Apache-2.0
// Whom a firewall's rule names, from its text as its tool shows it: a line of `iptables -S`, a rule of `nft -a list`.

import { withoutQuoted } from '../../../src-before/tools/iptables.ts'
import { asPrefix } from '../../cni/addresses.ts'

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
function statesIn(words: string | undefined): Pick<RuleMatches, 'states'> {
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
function addressesIn(text: string): readonly string[] {
  return [...text.matchAll(address)].map(([found]) => asPrefix(found))
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

/** What a match compares with: a word, a set in place. A map of verdicts is none. */
const value = String.raw`(?:!= )?(\{[^}]*\}|(?!vmap\b)\S+)`
const sources = new RegExp(String.raw`\bip6? saddr ${value}`, 'g')
const destinations = new RegExp(String.raw`\bip6? daddr ${value}`, 'g')
const incoming = new RegExp(String.raw`\biif(?:name)? ${value}`, 'g')
const outgoing = new RegExp(String.raw`\boif(?:name)? ${value}`, 'g')

/** What narrows nothing: the ends, counters, what is logged, the verdict. */
const open = new RegExp(
  [
    String.raw`\bip6? [sd]addr ${value}`,
    String.raw`\b[io]if(?:name)? ${value}`,
    String.raw`\bcounter(?: packets \d+ bytes \d+)?`,
    String.raw`\blog(?: (?:prefix "(?:[^"\\]|\\.)*"|(?:level|group|flags) \w+))*`,
    String.raw`\b(?:accept|drop|reject\b.*|(?:jump|goto) \S+)`,
  ].join('|'),
  'g',
)

/** Its addresses and links. */
export function readNftMatches(text: string): RuleMatches {
  const bare = text.replace(/comment "(?:[^"\\]|\\.)*"/g, '').replace(/#.*$/, '')
  const valuesOf = (match: RegExp) => [...bare.matchAll(match)].map(([, found = '']) => found)
  const end = (address: RegExp, link: RegExp): RuleEnd => ({
    addresses: valuesOf(address).flatMap(addressesIn),
    links: valuesOf(link).flatMap((words) => words.match(/[\w.@*-]+/g) ?? []),
  })
  const [from, to] = [end(sources, incoming), end(destinations, outgoing)]
  const others = bare.replace(open, '').trim()
  return {
    addresses: addressesIn(bare),
    links: [...from.links, ...to.links],
    from,
    to,
    ...statesIn(/^ct state (\{[^}]*\}|[\w,]+)$/.exec(others)?.[1]),
    isNarrow: others !== '',
    isNegated: bare.includes('!='),
  }
}
