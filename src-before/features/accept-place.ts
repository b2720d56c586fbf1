// SPDX-License-Identifier: Apache-2.0
// Where the accept of the mark goes in the chains of somebody else: behind every rule of the administrator, right
// before what drops the rest. That is the first unconditional drop or reject, found through unconditional jumps and
// gotos, or the end of a chain with the policy drop.

import { decodeFile, listOf, type Of, object, only, text } from '../model/kinds.ts'
import type { NftChain } from '../model/observed.ts'

/**
 * A chain of another program. `program`: the iptables variant that owns the chain; `table`: of iptables, absent for
 * filter, the only one that accepts are put into.
 */
export type ChainPlace =
  | { readonly kind: 'iptables'; readonly program: string; readonly chain: string; readonly table?: string }
  | ({ readonly kind: 'nft' } & NftChain)

/**
 * The firewalld zone of a bridge, or of a subnet of routed pods. `subject`: the bridge's name or the CIDR (no link's
 * name has a slash: dev_valid_name, net/core/dev.c).
 */
export type ZoneMember = Of<typeof zoneMember>

/** The accept of the mark: one for the machine, in every chain that drops. */
export type MarkAccept = Of<typeof markAccept>

// NETWORK-accept.json, and accept.json of the machine: where accepts were put for us in other firewalls. What goes into
// commands of those is checked here.

const textLike = <T extends string = string>(pattern: RegExp) =>
  only<T>((value) => typeof value === 'string' && pattern.test(value))

const plainName = textLike(/^[^\s"';{}#]+$/)

/** Its program is started: only the variants that we ask for a FORWARD chain. */
const iptablesPlace = object({
  kind: textLike<'iptables'>(/^iptables$/),
  program: textLike(/^ip6?tables(-nft|-legacy)?$/),
  chain: textLike(/^[^-\s"';{}#][^\s"';{}#]*$/),
})

const nftPlace = object({ kind: textLike<'nft'>(/^nft$/), family: plainName, table: plainName, chain: plainName })

const zoneMember = object({ subject: text, zone: plainName })

const zones = object({ zones: listOf(zoneMember) })

const markAccept = object({
  mark: only<number>(Number.isInteger),
  places: listOf(only<ChainPlace>((value) => iptablesPlace.accepts(value) || nftPlace.accepts(value))),
})

/** The zones of a network's bridge or subnets; undefined where the text is something else. */
export function decodeZones(json: string): readonly ZoneMember[] | undefined {
  return decodeFile(zones, json)?.zones
}

/** Where the accept of the mark was put; undefined where the text is something else. */
export function decodeMarkAccept(json: string): MarkAccept | undefined {
  return decodeFile(markAccept, json)
}

/** What a rule does to the packets that it matches. `end`: somebody else decides (a queue). `none`: nothing, here. */
export type ForeignAct = 'accept' | 'drop' | 'return' | 'jump' | 'goto' | 'log' | 'end' | 'none'

/** A rule of a foreign chain, as far as it matters here. */
export interface ForeignRule {
  /** What the tool knows it by: iptables its number in the chain, nft its handle. */
  readonly id: string
  readonly act: ForeignAct
  readonly target?: string
  readonly isUnconditional: boolean
  /** It is our accept, of this mark. */
  readonly ourMark?: number
  readonly text: string
}

export type ForeignRules = readonly ForeignRule[]

/** What is known of a firewall: a chain that is not there is undefined, one that was not read is missing. */
interface ForeignListing {
  readonly chains: ReadonlyMap<string, ForeignRules | undefined>
  /** How many rules of the table lead to a chain; absent: not counted yet. */
  readonly references?: ReadonlyMap<string, number>
}

/** A drop that comes before our accept, and stays in force for what it matches. */
interface EarlierDrop {
  readonly chain: string
  readonly text: string
}

/** Where our accept belongs. `before`: the rule that it stands before; absent: at the end. */
export interface AcceptSpot {
  readonly chain: string
  readonly before?: string
  /** Ours is there, and nowhere else in the chain. */
  readonly isTaken: boolean
  /** What is to be taken out once ours is there: ours, of another mark or in another place. */
  readonly orphans: readonly OurRule[]
}

/** An accept of ours in a chain. `isBehind`: it has the same mark as the one in place, and comes after that. */
export interface OurRule {
  readonly id: string
  readonly mark: number
  readonly isBehind: boolean
}

/** What came of the look. `unread`: a chain, or the references, have to be listed first. */
export type AcceptSearch =
  | { readonly unread: { readonly chain: string } | 'references' }
  | { readonly unread?: undefined; readonly spot?: AcceptSpot; readonly earlier: readonly EarlierDrop[] }

/**
 * Docker calls it before everything of its own, and administrators write what is to be dropped there. An accept in it
 * would come before both, and open Docker's bridges to pods.
 */
export const adminChains: readonly string[] = ['DOCKER-USER']

/** The place of the accept of `mark` in a base chain. No `spot`: nothing drops there behind what others decide. */
export function searchSpot(
  listing: ForeignListing,
  base: { readonly chain: string; readonly drops: boolean },
  mark: number,
): AcceptSearch {
  const earlier: EarlierDrop[] = []
  const end = walk({ listing, earlier }, base.chain, [])
  if ('unread' in end) return end
  if (end.kind === 'decided' || (end.kind === 'through' && !base.drops)) return { earlier }
  return { spot: spotAt(listing, end, mark), earlier }
}

interface Walk {
  readonly listing: ForeignListing
  readonly earlier: EarlierDrop[]
}

/** How a chain ends: before the rule at `at` of `chain`, or behind its last one. `through`: without a verdict. */
type End =
  | { readonly kind: 'tail' | 'through'; readonly chain: string; readonly at: number }
  | { readonly kind: 'decided' }
  | { readonly unread: { readonly chain: string } | 'references' }

function walk(state: Walk, chain: string, path: readonly string[]): End {
  const { chains } = state.listing
  if (!chains.has(chain)) return { unread: { chain } }
  const rules = chains.get(chain) ?? []
  for (const [at, rule] of rules.entries()) {
    if (rule.ourMark !== undefined) continue
    if (!rule.isUnconditional) {
      if (rule.act === 'drop') state.earlier.push({ chain, text: rule.text })
      continue
    }
    if (rule.act === 'drop') return { kind: 'tail', chain, at }
    if (rule.act === 'return') return { kind: 'through', chain, at }
    if (rule.act === 'accept' || rule.act === 'end') return { kind: 'decided' }
    const end =
      rule.target === undefined || path.includes(rule.target) ? undefined : led(state, { chain, at, rule }, path)
    if (end !== undefined) return end
  }
  return { kind: 'through', chain, at: rules.length }
}

/** Where an unconditional jump or goto leads to; undefined: back behind it. */
function led(
  state: Walk,
  from: { readonly chain: string; readonly at: number; readonly rule: ForeignRule },
  path: readonly string[],
): End | undefined {
  const { rule, chain, at } = from
  const target = rule.target ?? ''
  const known = state.earlier.length
  const end = walk(state, target, [...path, chain])
  if ('unread' in end || end.kind === 'decided') return end
  if (end.kind === 'through' && rule.act === 'jump') return undefined
  if (adminChains.includes(target)) {
    state.earlier.push({ chain: target, text: 'its last rule drops everything' })
    return { kind: 'decided' }
  }
  if (state.listing.references === undefined) return { unread: 'references' }
  // Others lead their packets there, too, to have them dropped: an accept in it would let them pass.
  const isShared = (state.listing.references.get(target) ?? 0) > 1
  if (!isShared) return end
  state.earlier.length = known
  return { kind: end.kind, chain, at }
}

function spotAt(
  listing: ForeignListing,
  end: { readonly chain: string; readonly at: number },
  mark: number,
): AcceptSpot {
  const rules = listing.chains.get(end.chain) ?? []
  let at = end.at
  const isOurs = (index: number) => rules[index]?.ourMark !== undefined
  // What is logged right before it is dropped is no matter of packets that pass.
  const isOfTail = (index: number) => isOurs(index) || logs(listing, rules[index])
  let first = at
  while (first > 0 && isOfTail(first - 1)) {
    first -= 1
    if (!isOurs(first)) at = first
  }
  // Ours stands right before `at`, or before others of ours there.
  const ours = [...rules.entries()].filter(([index]) => isOurs(index))
  const kept = ours
    .filter(([index, rule]) => rule.ourMark === mark && index < at && isOnlyOurs(rules, index, at))
    .at(-1)
  const before = rules[at]?.id
  return {
    chain: end.chain,
    ...(before === undefined ? {} : { before }),
    isTaken: kept !== undefined,
    orphans: ours
      .filter((each) => each !== kept)
      .map(([index, { id, ourMark = 0 }]) => {
        return { id, mark: ourMark, isBehind: kept !== undefined && ourMark === mark && index > kept[0] }
      }),
  }
}

export function ourRules(rules: ForeignRules): readonly OurRule[] {
  return rules.flatMap(({ id, ourMark }) => (ourMark === undefined ? [] : [{ id, mark: ourMark, isBehind: false }]))
}

function isOnlyOurs(rules: ForeignRules, from: number, to: number): boolean {
  return rules.slice(from, to).every((rule) => rule.ourMark !== undefined)
}

/** A rule that logs, or leads to nothing but such. */
function logs({ chains }: ForeignListing, rule: ForeignRule | undefined): boolean {
  if (rule?.act === 'log') return true
  if (rule?.act !== 'jump') return false
  const inner = chains.get(rule.target ?? '') ?? []
  return inner.length > 0 && inner.every(({ act }) => act === 'log')
}

export function samePlace(a: ChainPlace, b: ChainPlace): boolean {
  return placeText(a) === placeText(b)
}

export function placeText(place: ChainPlace): string {
  switch (place.kind) {
    case 'iptables': {
      const table = place.table === undefined ? '' : `, table ${place.table}`
      return `chain ${place.chain} of ${place.program}${table}`
    }
    case 'nft':
      return `nft chain ${place.family} ${place.table} ${place.chain}`
    default:
      return place satisfies never
  }
}
