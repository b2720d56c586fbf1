// SPDX-License-Identifier: Apache-2.0
// Whom a firewall's rule names, from its text as its tool shows it.

import { familyOf } from '../cni/address.ts'

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
