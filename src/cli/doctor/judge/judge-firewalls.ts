// SPDX-License-Identifier: Apache-2.0
// Whether another firewall drops what pods send or get. A rule concerns pods when it names one of their ranges or
// links, or names nobody; one that names others is off their way.

import { familyOf, parseCidr } from '../../../cni/model/address.ts'
import { ruleRemovalLine, subnetAcceptLines } from '../../../compile/host-accept.ts'
import { placeText } from '../../../plan/rules/host-accept.ts'
import { overlapOf } from '../../lint/rules/overlaps.ts'
import { type Finding, findingOf } from '../checks/finding.ts'
import type { FirewallFacts, NodeFacts, PodNetwork } from '../look/facts.ts'
import { isPlainCommand } from './shell-word.ts'

type Rule = FirewallFacts['rules'][number]

/**
 * Each network against each firewall. A network with a `firewall` key has its accept before the tail (accept-missing).
 */
export function judgeFirewalls({ firewalls = [], networks, state }: NodeFacts): readonly Finding[] {
  const areAcceptsMissing = (state?.accepts.length ?? 0) > 0
  return firewalls.flatMap((firewall) =>
    networks.filter(({ isSetUp }) => isSetUp).flatMap((network) => judgeOne(firewall, network, areAcceptsMissing)),
  )
}

function judgeOne(firewall: FirewallFacts, network: PodNetwork, areAcceptsMissing: boolean): readonly Finding[] {
  const found: Finding[] = []
  for (const rule of firewall.rules.filter(({ matches }) => names(matches, network))) {
    // Whatever names the pods and lets them pass: what comes behind it is not on their way.
    if (rule.act === 'accept' && !rule.isOurs && !rule.matches.isNarrow) return found
    if (rule.act === 'drop' && !rule.isUnconditional) found.push(dropFinding(firewall, rule, network))
  }
  const isTailOpen = network.accepts || !firewall.endsInDrop
  if (isTailOpen || areAcceptsMissing || !isOfFamily(firewall, network)) return found
  const what = whatOf(firewall, network)
  const seen = `${placeText(firewall.base)} drops what no rule of it accepts, and none names ${what}`
  const run = acceptCommands(firewall, network)
  const more = run === undefined ? {} : { run }
  return [...found, findingOf({ id: 'firewall-drops', on: `network ${network.name}`, seen, ...more })]
}

function dropFinding({ base }: FirewallFacts, rule: Rule, { name }: PodNetwork): Finding {
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

function isOfFamily(firewall: FirewallFacts, network: PodNetwork): boolean {
  return network.subnets.length === 0 || seenBy(firewall, network).length > 0
}

/** The ranges whose packets this firewall sees. */
function seenBy({ base }: FirewallFacts, { subnets }: PodNetwork): readonly string[] {
  return subnets.filter((subnet) => familiesOf(base).includes(familyOf(subnet)))
}

function familiesOf(base: FirewallFacts['base']): readonly (4 | 6)[] {
  if (base.kind === 'iptables') return [base.program.startsWith('ip6') ? 6 : 4]
  return base.family === 'ip' ? [4] : base.family === 'ip6' ? [6] : [4, 6]
}

function whatOf(firewall: FirewallFacts, network: PodNetwork): string {
  const those = network.subnets.length > 0 ? seenBy(firewall, network) : network.links
  return those.join(' and ')
}

/** Whether a rule is about these pods: about all others where it is turned round, which is not told. */
function names({ addresses, links, isNegated }: Rule['matches'], network: PodNetwork): boolean {
  if (isNegated) return false
  const ofPods = overlapOf(network.subnets, addresses.flatMap(sound)) !== undefined
  return ofPods || links.some((name) => network.links.some(isMeant(name)))
}

/** What is no address after all, or means everybody, names nobody. */
function sound(cidr: string): readonly string[] {
  return parseCidr(cidr) === undefined || cidr.endsWith('/0') ? [] : [cidr]
}

/** `cni*` is a beginning. */
function isMeant(pattern: string): (name: string) => boolean {
  return (name) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern)
}
