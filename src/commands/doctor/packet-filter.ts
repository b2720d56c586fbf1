// SPDX-License-Identifier: Apache-2.0
// A packet on its way through the chains of a filter, of nftables or of iptables. A condition that cannot be decided
// lets an accept count, and a drop not: a drop that is found is certain.

import { includes, parseAddress, parsePrefix } from '../../cni/addresses.ts'
import { acceptMark } from '../../kernel/nft-table.ts'

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

/** What drops a packet: a rule, or the policy. */
export interface Drop {
  readonly text: string
  readonly rule?: Rule
}

type Outcome = 'accepted' | 'through' | Drop

/** What drops the packet, if anything does. */
export function dropOf(chain: BaseChain, packet: Packet): Drop | undefined {
  const outcome = follow(chain, chain.name, { packet, depth: 0 })
  if (typeof outcome === 'object') return outcome
  return outcome === 'through' && chain.policy === 'drop' ? { text: 'its policy' } : undefined
}

/** Deeper than any firewall that ends. */
const deepest = 16

function follow(chain: BaseChain, name: string, at: { packet: Packet; depth: number }): Outcome {
  // After a return that may have happened, a drop is not certain.
  let hasReturned = false
  for (const rule of chain.chains.get(name) ?? []) {
    const matches = rule.matches(at.packet)
    if (matches === 'no' || at.depth > deepest) continue
    if (rule.verdict === 'accept') return 'accepted'
    if (rule.verdict === 'return' && matches === 'yes') return 'through'
    if (rule.verdict === 'return') hasReturned = true
    const isCertain = matches === 'yes' && !hasReturned
    if (rule.verdict === 'drop' && isCertain) return { text: `\`${rule.text}\``, rule }
    if (rule.target === undefined) continue
    const inner = follow(chain, rule.target, { ...at, depth: at.depth + 1 })
    if (inner === 'accepted') return inner
    if (isCertain && (typeof inner === 'object' || rule.verdict === 'goto')) return inner
  }
  return 'through'
}

export function all(parts: readonly Matches[]): Matches {
  if (parts.includes('no')) return 'no'
  return parts.includes('maybe') ? 'maybe' : 'yes'
}

export function inverted(part: Matches, isNegated: boolean): Matches {
  return part === 'maybe' || !isNegated ? part : part === 'yes' ? 'no' : 'yes'
}

export function addressMatches(address: string, cidr: string): Matches {
  const [one, range] = [parseAddress(address), parsePrefix(cidr)]
  if (one === undefined || range === undefined) return 'maybe'
  return one.family === range.family && includes(range, one) ? 'yes' : 'no'
}

/** `mask`: of the bits that are compared, all without it. */
export function markMatches({ isMarked }: Packet, value: number, mask = -1): Matches {
  return ((isMarked ? acceptMark : 0) & mask) === value ? 'yes' : 'no'
}

/** `pattern`: a name, or the beginning of one before * or +. */
export function linkMatches(link: string, pattern: string): Matches {
  const isPrefix = /[*+]$/.test(pattern)
  return (isPrefix ? link.startsWith(pattern.slice(0, -1)) : link === pattern) ? 'yes' : 'no'
}
