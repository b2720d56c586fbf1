// SPDX-License-Identifier: Apache-2.0
// Whether another firewall drops what pods send or get on its way through the node. A rule concerns pods when it names
// one of their ranges or links, or names nobody; one that names others is off their way.

import { familyOf, parseCidr } from '../../cni/model/address.ts'
import { inputAcceptLine, ruleRemovalLine, subnetAcceptLines } from '../../compile/host-accept.ts'
import type { RuleEnd } from '../../compile/rule-matches.ts'
import { isPodLinkName } from '../../plan/model/names.ts'
import { placeText } from '../../plan/rules/host-accept.ts'
import { overlapOf } from '../lint/semantics.ts'
import type { Finding } from '../shell/findings.ts'
import type { FirewallFacts, NodeFacts, PodNetwork } from './facts.ts'
import { isPlainCommand } from './judge-kernel.ts'
import { findingOf } from './shared.ts'

/** A rule with whom it names. */
type Rule = FirewallFacts['rules'][number]

/**
 * Each network against each firewall. A network with a `firewall` key has its accept before the tail (accept-missing).
 */
export function judgeFirewalls({ firewalls = [], networks, state }: NodeFacts): readonly Finding[] {
  const areAcceptsMissing = (state?.accepts.length ?? 0) > 0
  const onTheWay = firewalls.filter(({ hook }) => hook === 'forward')
  return onTheWay.flatMap((firewall) =>
    networks.filter(({ isSetUp }) => isSetUp).flatMap((network) => judgeOne(firewall, network, areAcceptsMissing)),
  )
}

function judgeOne(firewall: FirewallFacts, network: PodNetwork, areAcceptsMissing: boolean): readonly Finding[] {
  const found: Finding[] = []
  for (const rule of firewall.rules.filter(({ matches }) => names(matches, network))) {
    // Whatever names the pods and lets them pass: what comes behind it is not on their way.
    if (rule.act === 'accept' && !rule.isOurs && !rule.matches.isNarrow) return found
    const share = rule.act === 'drop' && !rule.isUnconditional ? droppedShare(rule, network) : 'none'
    if (share !== 'none') found.push(dropFinding(firewall, share === 'some' ? asNarrow(rule) : rule, network))
  }
  const isTailOpen = network.accepts || !firewall.endsInDrop
  if (isTailOpen || areAcceptsMissing || !isOfFamily(firewall, network)) return found
  const what = whatOf(firewall, network)
  const message = `${placeText(firewall.base)} drops what no rule of it accepts, and none names ${what}`
  const run = acceptCommands(firewall, network)
  const more = run === undefined ? {} : { run }
  return [...found, findingOf({ id: 'firewall-drops', on: `network ${network.name}`, message, ...more })]
}

/** What a rule is to packets of the pods. `some`: those of them for which something else matches, too. */
type Share = 'all' | 'some' | 'none'

/**
 * How much of what pods send or get a rule on their way is about, by both of its ends: a range of theirs that comes in
 * by another link is forged, and one address that they do not reach (169.254.169.254) is meant.
 */
function droppedShare({ matches: { from, to } }: Rule, network: PodNetwork): Share {
  const isFrom = isOfPods(from, network) && !isOfOthers(from, network)
  const isTo = isOfPods(to, network) && !isOfOthers(to, network)
  if (!isFrom && !isTo) return 'none'
  const peer = isFrom ? to : from
  return isOfOthers({ ...peer, links: [] }, network) ? 'some' : 'all'
}

/** As one for which something else has to match. */
function asNarrow(rule: Rule): Rule {
  return { ...rule, matches: { ...rule.matches, isNarrow: true } }
}

/** Of a rule that names the pods, and drops. */
function dropFinding({ base }: FirewallFacts, rule: Rule, { name }: PodNetwork): Finding {
  const place = { ...base, chain: rule.chain }
  const [on, message] = [`network ${name}`, `${placeText(place)}: ${rule.text}`]
  if (rule.matches.isNarrow) return findingOf({ id: 'firewall-drops-some', on, message })
  const line = ruleRemovalLine(place, rule)
  const run = isPlainCommand(line) ? { run: line } : {}
  return findingOf({ id: 'firewall-drops', on, message, cure: 'remove the rule, or let it spare the pods', ...run })
}

/** What lets the pods' packets in, and the answers and what the node translated for them. */
function acceptCommands(firewall: FirewallFacts, network: PodNetwork): string | undefined {
  const lines = seenBy(firewall, network).flatMap((subnet) => subnetAcceptLines(firewall.base, subnet))
  return lines.length > 0 && lines.every(isPlainCommand) ? lines.join('\n') : undefined
}

/** Whether packets of a family that the network has pass the chain. */
function isOfFamily(firewall: FirewallFacts, network: PodNetwork): boolean {
  return network.subnets.length === 0 || seenBy(firewall, network).length > 0
}

/** The ranges whose packets this firewall sees. */
function seenBy({ base }: FirewallFacts, { subnets }: PodNetwork): readonly string[] {
  return subnets.filter((subnet) => familiesOf(base).includes(familyOf(subnet)))
}

/** The IP families of the packets of a chain. */
function familiesOf(base: FirewallFacts['base']): readonly (4 | 6)[] {
  if (base.kind === 'iptables') return [base.program.startsWith('ip6') ? 6 : 4]
  return base.family === 'ip' ? [4] : base.family === 'ip6' ? [6] : [4, 6]
}

/** The pods in words, as far as the chain sees them: their ranges, else their links. */
function whatOf(firewall: FirewallFacts, network: PodNetwork): string {
  const those = network.subnets.length > 0 ? seenBy(firewall, network) : network.links
  return those.join(' and ')
}

/** Whether a rule is about these pods: about all others where it is turned round, which is not told. */
function names(matches: Rule['matches'], network: PodNetwork): boolean {
  return !matches.isNegated && isOfPods(matches, network)
}

/** Whether addresses or links of a rule are the pods'. */
function isOfPods({ addresses, links }: RuleEnd, network: PodNetwork): boolean {
  const hasAddress = overlapOf(network.subnets, addresses.flatMap(sound)) !== undefined
  return hasAddress || links.some((name) => network.links.some(isMeant(name)))
}

/** Whether it has addresses, and none is the pods'; or links. A set of links may hold anything. */
function isOfOthers({ addresses, links }: RuleEnd, network: PodNetwork): boolean {
  const named = addresses.flatMap(sound)
  if (named.length > 0 && !isOfPods({ addresses: named, links: [] }, network)) return true
  const isKnown = links.length > 0 && links.every((name) => !name.startsWith('@'))
  return isKnown && !isOfPods({ addresses: [], links }, network)
}

/** What is no address after all, or means everybody, names nobody. */
function sound(cidr: string): readonly string[] {
  return parseCidr(cidr) === undefined || cidr.endsWith('/0') ? [] : [cidr]
}

/** `cni*` is a beginning. */
function isMeant(pattern: string): (name: string) => boolean {
  return (name) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern)
}

// Whether another firewall drops what pods send to the node itself, or anything of theirs before its way is chosen. A
// firewall of the node is usual there: it is an error only where it names the pods, or accepts nothing of theirs.

/** Each network against each chain of the prerouting and input hooks. */
export function judgeEntries({ firewalls = [], networks }: NodeFacts): readonly Finding[] {
  const entries = firewalls.filter(({ hook }) => hook !== 'forward')
  const there = networks.filter(({ isSetUp }) => isSetUp)
  return entries.flatMap((firewall) => there.flatMap((network) => judgeEntry(firewall, network)))
}

function judgeEntry(firewall: FirewallFacts, network: PodNetwork): readonly Finding[] {
  const found: Finding[] = []
  // Somebody chose what passes: whether pods are among it cannot be told.
  let isChosen = false
  for (const [at, rule] of firewall.rules.entries()) {
    const share = shareOf(rule, network)
    if (rule.isUnconditional && rule.act === 'drop') {
      if (isReturned(firewall, at)) isChosen = true
      else return [...found, ...tail(firewall, network, isChosen)]
    } else if (share !== 'none' && decides(rule, 'end')) {
      return found
    } else if (share !== 'none' && decides(rule, 'accept')) {
      if (share === 'all') return found
      isChosen = true
    } else if (rule.act === 'drop' && isNamed(rule, network)) {
      found.push(dropFinding(firewall, isChosen || share === 'some' ? asNarrow(rule) : rule, network))
    } else if (share !== 'none' && isChoice(rule)) {
      isChosen = true
    }
  }
  return firewall.endsInDrop ? [...found, ...tail(firewall, network, isChosen)] : found
}

function decides({ act, isUnconditional }: Rule, how: 'accept' | 'end'): boolean {
  return act === how && (how === 'accept' || isUnconditional)
}

/** Rules that may let some of the pods' packets pass: a map of verdicts, what leaves a chain before it drops. */
function isChoice({ act, isUnconditional, text }: Rule): boolean {
  return (act === 'return' && !isUnconditional) || act === 'end' || /\bvmap\b/.test(text)
}

/** Whether packets may have left the chain of a rule before they come to it. */
function isReturned({ base, rules }: FirewallFacts, at: number): boolean {
  const chain = rules[at]?.chain
  return chain !== base.chain && rules.slice(0, at).some((each) => each.chain === chain && each.act === 'return')
}

function shareOf({ matches, text }: Rule, network: PodNetwork): Share {
  const { from, to, isNegated, isNarrow, states } = matches
  if (isNegated) return isOfPods(matches, network) ? 'none' : isNarrow ? 'some' : 'all'
  if (isOfOthers(from, network)) return 'none'
  if (isOfOthers(to, network)) return 'some'
  // A firewall that knows connections lets pods begin them.
  if (isNarrow) return states?.includes('new') === true ? 'all' : 'some'
  return /@/.test(text) && !isOfPods(from, network) ? 'some' : 'all'
}

/** It names the pods as whose packets these are, or to whom they go. A rule that is turned round is not told. */
function isNamed({ matches }: Rule, network: PodNetwork): boolean {
  const { from, to, isNegated } = matches
  if (isNegated || isOfOthers(from, network)) return false
  return isOfPods(from, network) || isOfPods(to, network)
}

/** Of a chain that drops what nothing before accepts. */
function tail(firewall: FirewallFacts, network: PodNetwork, isChosen: boolean): readonly Finding[] {
  if (!isOfFamily(firewall, network)) return []
  const on = `network ${network.name}`
  const what = whatOf(firewall, network)
  const drops = `${placeText(firewall.base)} drops what no rule of it accepts, and none names ${what}`
  const run = inputAcceptCommands(firewall, network)
  const more = run === undefined ? {} : { run }
  return [findingOf({ id: isChosen ? 'node-firewall' : 'firewall-drops', on, message: drops, ...more })]
}

/** By the bridge, so that neighbour discovery passes; for routed pods, each with a link of its own, by the range. */
function inputAcceptCommands({ base }: FirewallFacts, { subnets, links }: PodNetwork): string | undefined {
  const shared = links.filter((name) => !isPodLinkName(name))
  const ranges = subnets.filter((subnet) => familiesOf(base).includes(familyOf(subnet)))
  const from = shared.length > 0 ? shared : ranges
  const lines = from.map((each) => inputAcceptLine(base, each))
  return lines.length > 0 && lines.every(isPlainCommand) ? lines.join('\n') : undefined
}
