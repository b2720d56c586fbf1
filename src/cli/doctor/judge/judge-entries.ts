// SPDX-License-Identifier: Apache-2.0
// Whether another firewall drops what pods send to the node itself, or anything of theirs before its way is chosen. A
// firewall of the node is usual there: it is an error only where it names the pods, or accepts nothing of theirs.

import { familyOf } from '../../../cni/model/address.ts'
import { inputAcceptLine } from '../../../compile/host-accept.ts'
import { isPodLinkName } from '../../../plan/model/names.ts'
import { placeText } from '../../../plan/rules/host-accept.ts'
import { type Finding, findingOf } from '../checks/finding.ts'
import type { FirewallFacts, NodeFacts, PodNetwork } from '../look/facts.ts'
import {
  asNarrow,
  dropFinding,
  familiesOf,
  isOfFamily,
  isOfOthers,
  isOfPods,
  type Rule,
  type Share,
  whatOf,
} from './judge-firewalls.ts'
import { isPlainCommand } from './shell-word.ts'

/** Each network against each chain of the prerouting and input hooks. */
export function judgeEntries({ firewalls = [], networks }: NodeFacts): readonly Finding[] {
  const entries = firewalls.filter(({ hook }) => hook !== 'forward')
  const there = networks.filter(({ isSetUp }) => isSetUp)
  return entries.flatMap((firewall) => there.flatMap((network) => judgeOne(firewall, network)))
}

function judgeOne(firewall: FirewallFacts, network: PodNetwork): readonly Finding[] {
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
  const run = acceptCommands(firewall, network)
  const more = run === undefined ? {} : { run }
  return [findingOf({ id: isChosen ? 'node-firewall' : 'firewall-drops', on, seen: drops, ...more })]
}

/** By the bridge, so that neighbour discovery passes; for routed pods, each with a link of its own, by the range. */
function acceptCommands({ base }: FirewallFacts, { subnets, links }: PodNetwork): string | undefined {
  const shared = links.filter((name) => !isPodLinkName(name))
  const ranges = subnets.filter((subnet) => familiesOf(base).includes(familyOf(subnet)))
  const from = shared.length > 0 ? shared : ranges
  const lines = from.map((each) => inputAcceptLine(base, each))
  return lines.length > 0 && lines.every(isPlainCommand) ? lines.join('\n') : undefined
}
