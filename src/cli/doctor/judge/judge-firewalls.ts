// SPDX-License-Identifier: Apache-2.0
// Whether another firewall drops what pods send or get on its way through the node. A rule concerns pods when it names
// one of their ranges or links, or names nobody; one that names others is off their way.

import { familyOf, parseCidr } from '../../../cni/model/address.ts'
import { ruleRemovalLine, subnetAcceptLines } from '../../../compile/host-accept.ts'
import type { RuleEnd } from '../../../compile/rule-matches.ts'
import { placeText } from '../../../plan/rules/host-accept.ts'
import { overlapOf } from '../../lint/rules/overlaps.ts'
import { type Finding, findingOf } from '../checks/finding.ts'
import type { FirewallFacts, NodeFacts, PodNetwork } from '../look/facts.ts'
import { isPlainCommand } from './shell-word.ts'

/** A rule with whom it names. */
export type Rule = FirewallFacts['rules'][number]

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
  const seen = `${placeText(firewall.base)} drops what no rule of it accepts, and none names ${what}`
  const run = acceptCommands(firewall, network)
  const more = run === undefined ? {} : { run }
  return [...found, findingOf({ id: 'firewall-drops', on: `network ${network.name}`, seen, ...more })]
}

/** What a rule is to packets of the pods. `some`: those of them for which something else matches, too. */
export type Share = 'all' | 'some' | 'none'

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
export function asNarrow(rule: Rule): Rule {
  return { ...rule, matches: { ...rule.matches, isNarrow: true } }
}

/** Of a rule that names the pods, and drops. */
export function dropFinding({ base }: FirewallFacts, rule: Rule, { name }: PodNetwork): Finding {
  const place = { ...base, chain: rule.chain }
  const [on, seen] = [`network ${name}`, `${placeText(place)}: ${rule.text}`]
  if (rule.matches.isNarrow) return findingOf({ id: 'firewall-drops-some', on, seen })
  const line = ruleRemovalLine(place, rule)
  const run = isPlainCommand(line) ? { run: line } : {}
  return findingOf({ id: 'firewall-drops', on, seen, cure: 'remove the rule, or let it spare the pods', ...run })
}

/** What lets the pods' packets in, and the answers and what the node translated for them. */
function acceptCommands(firewall: FirewallFacts, network: PodNetwork): string | undefined {
  const lines = seenBy(firewall, network).flatMap((subnet) => subnetAcceptLines(firewall.base, subnet))
  return lines.length > 0 && lines.every(isPlainCommand) ? lines.join('\n') : undefined
}

/** Whether packets of a family that the network has pass the chain. */
export function isOfFamily(firewall: FirewallFacts, network: PodNetwork): boolean {
  return network.subnets.length === 0 || seenBy(firewall, network).length > 0
}

/** The ranges whose packets this firewall sees. */
function seenBy({ base }: FirewallFacts, { subnets }: PodNetwork): readonly string[] {
  return subnets.filter((subnet) => familiesOf(base).includes(familyOf(subnet)))
}

/** The IP families of the packets of a chain. */
export function familiesOf(base: FirewallFacts['base']): readonly (4 | 6)[] {
  if (base.kind === 'iptables') return [base.program.startsWith('ip6') ? 6 : 4]
  return base.family === 'ip' ? [4] : base.family === 'ip6' ? [6] : [4, 6]
}

/** The pods in words, as far as the chain sees them: their ranges, else their links. */
export function whatOf(firewall: FirewallFacts, network: PodNetwork): string {
  const those = network.subnets.length > 0 ? seenBy(firewall, network) : network.links
  return those.join(' and ')
}

/** Whether a rule is about these pods: about all others where it is turned round, which is not told. */
function names(matches: Rule['matches'], network: PodNetwork): boolean {
  return !matches.isNegated && isOfPods(matches, network)
}

/** Whether addresses or links of a rule are the pods'. */
export function isOfPods({ addresses, links }: RuleEnd, network: PodNetwork): boolean {
  const hasAddress = overlapOf(network.subnets, addresses.flatMap(sound)) !== undefined
  return hasAddress || links.some((name) => network.links.some(isMeant(name)))
}

/** Whether it has addresses, and none is the pods'; or links. A set of links may hold anything. */
export function isOfOthers({ addresses, links }: RuleEnd, network: PodNetwork): boolean {
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
