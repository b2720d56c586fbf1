// SPDX-License-Identifier: Apache-2.0
// Facts to findings, in the order of the groups. Pure: what was seen is given, nothing is looked at.

import { groups } from '../checks/check.ts'
import type { Finding } from '../checks/finding.ts'
import type { NodeFacts } from '../look/facts.ts'
import { judgeEntries } from './judge-entries.ts'
import { judgeFirewalls } from './judge-firewalls.ts'
import { judgeKernel } from './judge-kernel.ts'
import { judgeLimits } from './judge-limits.ts'
import { judgeAgents, judgeConfiguration, judgeLog, judgePools, judgeRuntimes } from './judge-node.ts'
import { judgeProbe } from './judge-probe.ts'
import { judgeState } from './judge-state.ts'

/** Everything that is wrong with the node, each cause once. */
export function judge(facts: NodeFacts): readonly Finding[] {
  const ofConfiguration = judgeConfiguration(facts)
  const ofKernel = judgeKernel(facts)
  const found = [
    ...ofConfiguration,
    ...judgeRuntimes(facts, ofConfiguration),
    ...ofKernel,
    ...judgeAgents(facts),
    ...judgeState(
      facts.state,
      ofKernel.filter(({ id }) => id === 'ipv6-disabled').map(({ on }) => on),
    ),
    ...judgePools(facts),
    ...judgeFirewalls(facts),
    ...judgeEntries(facts),
    ...judgeLimits(facts),
  ]
  const all = [...withShadowedBridges(withoutEffects(found)), ...judgeLog(facts, found), ...judgeProbe(facts, found)]
  return all.toSorted((a, b) => groups.indexOf(a.group) - groups.indexOf(b.group))
}

/**
 * Findings that are none of their own beside one of their causes: what is not there where it should be leads elsewhere,
 * to the default route as a rule, and STATUS refuses what is wrong with a configuration.
 */
const causesOf: Readonly<Record<string, readonly string[]>> = {
  'route-elsewhere': ['bridge-differs', 'port-differs', 'interface-lost', 'route-missing', 'rule-refuses'],
  'not-ready-network': ['subnet-in-use', 'bridge-other-address', 'config-shadowed'],
}

function withoutEffects(findings: readonly Finding[]): readonly Finding[] {
  const found = new Set(findings.map(({ id }) => id as string))
  return findings.filter(({ id }) => !causesOf[id]?.some((cause) => found.has(cause)))
}

/**
 * A bridge with pods on it has the address of the network that is meant; the one whose file comes first cannot have it
 * too. Its file is the cause: the address is seen with it.
 */
function withShadowedBridges(findings: readonly Finding[]): readonly Finding[] {
  const shadowed = findings.find(({ id }) => id === 'config-shadowed')
  const isEffect = ({ id, run }: Finding) => id === 'bridge-other-address' && run === undefined
  if (shadowed === undefined || !findings.some(isEffect)) return findings
  const seen = [shadowed, ...findings.filter(isEffect)].map((each) => each.seen).join('; ')
  return findings.filter((each) => !isEffect(each)).map((each) => (each === shadowed ? { ...each, seen } : each))
}
