// SPDX-License-Identifier: Apache-2.0
// Chains of other firewalls on the path of the pods' packets, to the node or through it, with rules in evaluation
// order.

import { type ChainPlace, type ForeignRule, placeText } from '../../../src-before/features/accept-place.ts'
import { acceptMark, defaultMarkBit } from '../../../src-before/features/firewall.ts'
import type { NetworkSpec } from '../../../src-before/model/attachment.ts'
import {
  type ForeignFirewall,
  lookForDrops,
  rulesOf,
  textsOf,
} from '../../../src-before/system/firewalls/foreign-firewalls.ts'
import { lookingOnce } from '../../../src-before/system/firewalls/host-accept.ts'
import { listArguments } from '../../../src-before/tools/nft.ts'
import { asPrefix } from '../../cni/addresses.ts'
import type { Command, Run } from '../../process/runner.ts'
import { entryChains } from './entry-chains.ts'
import type { FirewallFacts, PodNetwork } from './facts.ts'
import { podOf } from './networks.ts'
import { type RuleEnd, readIptablesMatches, readNftMatches, within } from './rule-matches.ts'

/** Larger firewalls are cut: kube-proxy and policy agents have a chain for each service or pod. */
const mostChains = 60

/** `by`: the jumps to the chain, if a jump has a condition. */
interface Placed {
  readonly chain: string
  readonly rule: ForeignRule
  readonly by: readonly Placed[]
}

/** `specs`: networks of trestle; `networks`: all networks. */
interface FirewallSources {
  readonly specs: readonly NetworkSpec[]
  readonly networks: readonly PodNetwork[]
}

/**
 * Reads one chain with one or two processes, and each set that a drop names with one more. Throws CniError 100 if nft
 * fails.
 */
export async function lookAtFirewalls(
  each: Run,
  { specs, networks }: FirewallSources,
): Promise<readonly FirewallFacts[]> {
  const run = lookingOnce(each)
  const mark = acceptMark(specs) ?? 2 ** defaultMarkBit
  const found = await lookForDrops(run, { mark, families: [4, 6] })
  const entries = await entryChains(run)
  const all = [
    ...found.map((firewall): Chain => ({ hook: 'forward', base: firewall.base, ...tailOf(firewall) })),
    ...entries.map(({ hook, base, drops }): Chain => {
      return { hook, base, ...(drops ? { tail: { chain: base.chain } } : {}) }
    }),
  ]
  const pods = networks.flatMap(({ subnets }) => subnets.flatMap(podOf))
  const facts = all.map(async (chain) => {
    return (await isDormant(run, chain)) ? [] : [await withSets(run, await factsOf(run, chain), pods)]
  })
  return (await Promise.all(facts)).flat()
}

type Chain = Pick<FirewallFacts, 'hook' | 'base' | 'tail'>

function tailOf({ spot, unmarkedSpot }: ForeignFirewall): Pick<Chain, 'tail'> {
  const { chain, before } = spot ?? unmarkedSpot ?? {}
  if (chain === undefined) return {}
  const isUnmarked = spot === undefined
  return { tail: { chain, ...(before === undefined ? {} : { before }), ...(isUnmarked ? { isUnmarked } : {}) } }
}

/** The chains of a table with the flag `dormant` get no packets (nft(8), "TABLES"). */
async function isDormant(run: Run, { base }: Chain): Promise<boolean> {
  if (base.kind !== 'nft') return false
  const { stdout } = await run({ file: 'nft', args: listArguments.ofFlags(base) })
  return /^\tflags .*\bdormant\b/m.test(stdout)
}

/** Replaces a set in a dropping rule by the pod addresses in the set. */
async function withSets(run: Run, facts: FirewallFacts, pods: readonly string[]): Promise<FirewallFacts> {
  const { base, hook } = facts
  if (base.kind !== 'nft') return facts
  const decides = ({ act }: { readonly act: string }) => act === 'drop' || (act === 'accept' && hook !== 'forward')
  const rules = facts.rules.map(async (rule) => {
    const [, letter, set] = decides(rule) ? (/ip6? ([sd])addr @([A-Za-z_][\w/.-]*)/.exec(rule.text) ?? []) : []
    if (set === undefined) return rule
    const asked = pods.map(async (pod) => ({ pod, code: (await run(setMember(base, set, pod))).code }))
    const held = (await Promise.all(asked)).filter(({ code }) => code === 0).map(({ pod }) => asPrefix(pod))
    const { from, to, ...rest } = rule.matches
    const more = (end: RuleEnd, isMeant: boolean) => (isMeant ? withAddresses(end, held) : end)
    const ends = { from: more(from, letter === 's'), to: more(to, letter === 'd') }
    return { ...rule, matches: { ...rest, ...withAddresses(rule.matches, held), ...ends } }
  })
  return { ...facts, rules: await Promise.all(rules) }
}

/** Asks whether a set of others holds an address, in an interval too. The set itself, which may be huge, is not read. */
function setMember({ family, table }: Extract<ChainPlace, { kind: 'nft' }>, set: string, address: string): Command {
  return { file: 'nft', args: ['get', 'element', family, table, set, `{ ${address} }`] }
}

function withAddresses({ addresses, links }: RuleEnd, more: readonly string[]): RuleEnd {
  return { addresses: [...addresses, ...more], links }
}

async function factsOf(run: Run, chain: Chain): Promise<FirewallFacts> {
  const { hook, base } = chain
  const placed = await rulesFrom(run, { place: base, by: [] }, new Set())
  const texts = base.kind === 'iptables' ? placed.map(({ rule }) => rule.text) : await nftTexts(run, base, placed)
  const matchesOf = base.kind === 'iptables' ? readIptablesMatches : readNftMatches
  const textOf = new Map(placed.map((each, at) => [each, texts[at] ?? each.rule.text]))
  const own = (each: Placed) => matchesOf(textOf.get(each) ?? '')
  return {
    ...chain,
    rules: placed.map((each) => {
      const { id, act, isUnconditional, ourMark } = each.rule
      // In the forward hook, a drop counts by its own conditions, if it has some.
      const by = hook === 'forward' && act === 'drop' && !isUnconditional ? [] : each.by
      const jump = by.map((outer) => textOf.get(outer)).join('; ')
      return {
        chain: each.chain,
        id,
        act,
        isUnconditional: isUnconditional && by.length === 0,
        isOurs: ourMark !== undefined,
        text: textOf.get(each) ?? '',
        ...(isUnconditional && by.length > 0 ? { jump } : {}),
        matches: by.map(own).reduce((inner, outer) => within(outer, inner), own(each)),
      }
    }),
  }
}

async function rulesFrom(
  run: Run,
  { place, by }: { readonly place: ChainPlace; readonly by: readonly Placed[] },
  seen: Set<string>,
): Promise<readonly Placed[]> {
  if (seen.has(place.chain) || seen.size >= mostChains) return []
  seen.add(place.chain)
  const rules = (await rulesOf(run, place)) ?? []
  const all: Placed[] = []
  for (const rule of rules) {
    const placed = { chain: place.chain, rule, by }
    all.push(placed)
    if (rule.target === undefined) continue
    const inner = { place: { ...place, chain: rule.target }, by: rule.isUnconditional ? by : [...by, placed] }
    all.push(...(await rulesFrom(run, inner, seen)))
  }
  return all
}

/** Each text is `PLACE: RULE`. */
async function nftTexts(run: Run, base: ChainPlace, placed: readonly Placed[]): Promise<readonly string[]> {
  const texts = await textsOf(
    run,
    base,
    placed.map(({ chain, rule }) => ({ chain, text: rule.text })),
  )
  return texts.map((text, at) => text.slice(placeText({ ...base, chain: placed[at]?.chain ?? '' }).length + 2))
}
