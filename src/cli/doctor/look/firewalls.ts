// SPDX-License-Identifier: Apache-2.0
// Chains of other firewalls that forwarded packets pass, with the rules in the order in which packets meet them.

import { bitsOf, familyOf, firstOf, formatAddress, next, parseCidr } from '../../../cni/model/address.ts'
import { setMemberCommand } from '../../../compile/host-accept.ts'
import { readNftMatches } from '../../../compile/read-foreign-nft.ts'
import { readIptablesMatches } from '../../../compile/read-iptables.ts'
import type { NetworkSpec } from '../../../plan/model/attachment.ts'
import { acceptMark, defaultMarkBit } from '../../../plan/rules/accept-mark.ts'
import type { ForeignRule } from '../../../plan/rules/accept-place.ts'
import { type ChainPlace, placeText } from '../../../plan/rules/host-accept.ts'
import { type ForeignFirewall, lookForDrops, rulesOf, textsOf } from '../../../system/firewalls/foreign-firewalls.ts'
import type { Run } from '../../../system/process/runner.ts'
import type { FirewallFacts, PodNetwork } from './facts.ts'

/** A firewall of more chains is read so far: kube-proxy and policy agents have one for each service or pod. */
const mostChains = 60

type Placed = { readonly chain: string; readonly rule: ForeignRule }

/** `specs`: networks of trestle; `networks`: all. */
export interface FirewallSources {
  readonly specs: readonly NetworkSpec[]
  readonly networks: readonly PodNetwork[]
}

/**
 * Looks. A process or two for each chain, one more for each set that a drop names. Throws CniError 100 when nft does
 * not tell.
 */
export async function lookAtFirewalls(
  run: Run,
  { specs, networks }: FirewallSources,
): Promise<readonly FirewallFacts[]> {
  const mark = acceptMark(specs) ?? 2 ** defaultMarkBit
  const found = await lookForDrops(run, { mark, families: [4, 6] })
  const pods = networks.flatMap(({ subnets }) => subnets.flatMap(podOf))
  return await Promise.all(found.map(async (firewall) => await withSets(run, await factsOf(run, firewall), pods)))
}

/** An address that a pod of the range may have: the third, behind the gateway. */
function podOf(subnet: string): readonly string[] {
  const cidr = parseCidr(subnet)
  const address = cidr === undefined ? undefined : next(firstOf(cidr))
  const pod = address === undefined ? undefined : next(address)
  return pod === undefined ? [] : [formatAddress(pod)]
}

/** The same, where a rule that drops names a set with the address of a pod: as if it named that address. */
async function withSets(run: Run, facts: FirewallFacts, pods: readonly string[]): Promise<FirewallFacts> {
  const { base } = facts
  if (base.kind !== 'nft') return facts
  const rules = facts.rules.map(async (rule) => {
    const [, set] = rule.act === 'drop' ? (/ip6? [sd]addr @([A-Za-z_][\w/.-]*)/.exec(rule.text) ?? []) : []
    if (set === undefined) return rule
    const asked = pods.map(async (pod) => ({ pod, code: (await run(setMemberCommand(base, set, pod))).code }))
    const held = (await Promise.all(asked)).filter(({ code }) => code === 0).map(({ pod }) => pod)
    return { ...rule, matches: { ...rule.matches, addresses: [...rule.matches.addresses, ...held.map(asHost)] } }
  })
  return { ...facts, rules: await Promise.all(rules) }
}

function asHost(address: string): string {
  return `${address}/${bitsOf(familyOf(address))}`
}

async function factsOf(run: Run, { base, spot }: ForeignFirewall): Promise<FirewallFacts> {
  const placed = await rulesFrom(run, base, new Set())
  const texts = base.kind === 'iptables' ? placed.map(({ rule }) => rule.text) : await nftTexts(run, base, placed)
  const matchesOf = base.kind === 'iptables' ? readIptablesMatches : readNftMatches
  return {
    base,
    endsInDrop: spot !== undefined,
    rules: placed.map(({ chain, rule }, at) => {
      const text = texts[at] ?? rule.text
      const { id, act, isUnconditional, ourMark } = rule
      return { chain, id, act, isUnconditional, isOurs: ourMark !== undefined, text, matches: matchesOf(text) }
    }),
  }
}

async function rulesFrom(run: Run, place: ChainPlace, seen: Set<string>): Promise<readonly Placed[]> {
  if (seen.has(place.chain) || seen.size >= mostChains) return []
  seen.add(place.chain)
  const rules = (await rulesOf(run, place)) ?? []
  const all: Placed[] = []
  for (const rule of rules) {
    all.push({ chain: place.chain, rule })
    if (rule.target !== undefined) all.push(...(await rulesFrom(run, { ...place, chain: rule.target }, seen)))
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
