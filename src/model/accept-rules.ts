// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept in our own table: which forwarded packets other firewalls are to let pass. Sets keyed by network
// decide, one bit of the packet mark carries the decision to the chains of others (host-accept.ts).

import { markText } from '../features/firewall/accept-mark.ts'
import type { Hook } from './tables.ts'

/** What each says to nft is in tools/nft.ts. */
export type AcceptRuleName =
  | 'admit-clear'
  | `admit-${'from' | 'to'}${'' | 4 | 6}`
  | 'answer'
  | 'translated'
  | `new${4 | 6}`
  | `${'peer' | 'node'}-new${4 | 6}`
  | 'unmark'

/** A chain. `commentName`: what the rule's comment ends with; the ruleset's version stands before it (ruleset.ts). */
export interface AcceptChain {
  readonly name: string
  readonly hook?: Hook
  readonly rules: readonly {
    readonly name: AcceptRuleName
    readonly commentName: string
  }[]
}

/** Where packets are judged. A base chain that runs before it cannot be told anything by a mark. */
export const acceptPriority = -149

/** What is sent to pods. By peers: pods of other nodes, and those nodes, as the second hop of a NodePort is. */
const admitted: readonly AcceptRuleName[] = [
  'answer',
  'translated',
  'new4',
  'new6',
  'peer-new4',
  'peer-new6',
  'node-new4',
  'node-new6',
]

/** Whoever had the bit set before us would be let in by our accept. Then what pods send, and what is sent to them. */
const admit: readonly AcceptRuleName[] = [
  'admit-clear',
  'admit-from',
  'admit-from4',
  'admit-from6',
  'admit-to',
  'admit-to4',
  'admit-to6',
]

/**
 * The chains; without rules where no network wants an accept, so that nobody's marks are touched. They come right after
 * mangle (-150), where others set and save whole marks, and before every filter chain; the bit is gone again right
 * before mangle's postrouting, so that no CONNMARK saves it for packets to come.
 */
export function acceptChains(mark: number | undefined): readonly AcceptChain[] {
  const rulesOf = (names: readonly AcceptRuleName[]) =>
    mark === undefined
      ? []
      : names.map((name) => ({
          name,
          commentName: `${name} ${markText(mark)}`,
        }))
  return [
    { name: 'admitted', rules: rulesOf(admitted) },
    { name: 'admit', hook: { type: 'filter', at: 'forward', priority: acceptPriority }, rules: rulesOf(admit) },
    { name: 'unmark', hook: { type: 'filter', at: 'postrouting', priority: -151 }, rules: rulesOf(['unmark']) },
  ]
}
