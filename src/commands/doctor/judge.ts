// SPDX-License-Identifier: Apache-2.0
// Facts to findings, in the order of the groups. Pure.

import { type Finding, findingOf } from '../findings.ts'
import type { Step } from '../probe/pods.ts'
import { groups, type LimitFacts, type NodeFacts } from './facts.ts'
import { judgeEntries, judgeFirewalls } from './judge-firewalls.ts'
import { judgeKernel } from './judge-kernel.ts'
import { judgeAgents, judgeConfiguration, judgeLog, judgePools, judgeRuntimes } from './judge-node.ts'
import { few, judgeState } from './judge-state.ts'

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
  const place = ({ group }: Finding) => (groups as readonly (string | undefined)[]).indexOf(group)
  return all.toSorted((a, b) => place(a) - place(b))
}

/** Findings that another finding explains: without its link a route leads to the default route. */
const causesOf: Readonly<Record<string, readonly string[]>> = {
  'route-elsewhere': ['bridge-differs', 'port-differs', 'interface-lost', 'route-missing', 'rule-refuses'],
}

function withoutEffects(findings: readonly Finding[]): readonly Finding[] {
  const found = new Set(findings.map(({ id }) => id as string))
  return findings.filter(({ id }) => !causesOf[id]?.some((cause) => found.has(cause)))
}

/**
 * A bridge with pods has the intended network's address, so the file that comes first cannot have that bridge. The file
 * is the cause: its finding mentions the address.
 */
function withShadowedBridges(findings: readonly Finding[]): readonly Finding[] {
  const shadowed = findings.find(({ id }) => id === 'config-shadowed')
  const isEffect = ({ id, run }: Finding) => id === 'bridge-other-address' && run === undefined
  if (shadowed === undefined || !findings.some(isEffect)) return findings
  const message = [shadowed, ...findings.filter(isEffect)].map((each) => each.message).join('; ')
  return findings.filter((each) => !isEffect(each)).map((each) => (each === shadowed ? { ...each, message } : each))
}

/** Diagnoses that the configuration asks for. */
const meant = ['policy-isolated', 'ports-isolated']

/** Groups whose errors explain failed probes: then the failure is a note. */
const causingGroups = ['kernel', 'network', 'firewall', 'configuration', 'host', 'agents', 'addresses']

/** A finding for each cause. `others`: findings without pods; a probe does not repeat them. */
function judgeProbe({ probe }: NodeFacts, others: readonly Finding[]): readonly Finding[] {
  const failed = (probe?.steps ?? []).filter(({ outcome }) => outcome === 'failed')
  const byId = Map.groupBy(failed, ({ known, target }) => known?.id ?? `probe-${target}`)
  const isExplained = others.some(({ severity, group }) => severity === 'error' && causingGroups.includes(group ?? ''))
  return [...byId]
    .filter(([id]) => !others.some((other) => other.id === id))
    .flatMap(([id, steps]) => ofSteps(id, steps, `network ${probe?.network}`))
    .map((found) => (isExplained && found.id !== 'probe-del' ? { ...found, severity: 'note' } : found))
}

/** The texts are those of the cause; the severity is that of the failed target. */
function ofSteps(id: string, steps: readonly Step[], on: string): readonly Finding[] {
  const [first] = steps
  if (first === undefined) return []
  const texts = few(steps.map(({ detail = '', what }) => `${what}: ${detail.replaceAll('\n', '; ')}`))
  const base = findingOf({ id: `probe-${first.target}`, on, message: texts })
  const { known } = first
  if (known === undefined) return [base]
  const severity = meant.includes(id) ? 'note' : base.severity
  const { group, consequence } = base
  return [findingOf({ id, group, consequence, severity, on, message: `${known.message}: ${texts}` })]
}

const nearlyFull = 0.9

/** Disks are reported later than tables, and a full state directory by STATUS. */
function judgeLimits({ limits = [], readiness }: NodeFacts): readonly Finding[] {
  const isTold = readiness.some(({ id }) => id === 'not-ready-state')
  return limits
    .filter(({ id, used, most }) => used / most >= (id === 'disk-full' ? 0.97 : nearlyFull))
    .filter(({ id, used, most }) => !(isTold && id === 'disk-full' && used >= most))
    .map((limit) => {
      const { id, what, on, used, most } = limit
      const severity = used >= most ? 'error' : 'warning'
      return findingOf({ id, on, message: `${what}: ${used} of ${most} in use`, severity, run: raiseCommand(limit) })
    })
}

/**
 * Raises the limit at once, to a power of two of at least twice the use; a sysctl that is higher stays. Undefined: the
 * diagnosis has the command.
 */
function raiseCommand({ raisedBy, used, most }: LimitFacts): string | undefined {
  const enough = 2 ** Math.ceil(Math.log2(Math.max(used, most) * 2))
  const tooLow = raisedBy?.filter(({ value }) => value < enough)
  return tooLow && `sysctl -w ${tooLow.map(({ name }) => `${name}=${enough}`).join(' ')}`
}
