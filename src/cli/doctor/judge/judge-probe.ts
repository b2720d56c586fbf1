// SPDX-License-Identifier: Apache-2.0
// What the throw-away pods of --probe did not reach.

import type { Severity } from '../../lint/checks/check-texts.ts'
import { type Finding, findingOf } from '../checks/finding.ts'
import type { NodeFacts } from '../look/facts.ts'
import type { ProbeStep, ProbeTarget } from '../probe/probe-facts.ts'
import { few } from './judge-state.ts'

const checkIds = {
  add: 'probe-add',
  node: 'probe-node',
  gateway: 'probe-gateway',
  pod: 'probe-pod',
  outside: 'probe-outside',
  dns: 'probe-dns',
  'host-port': 'probe-host-port',
  del: 'probe-del',
} as const satisfies Readonly<Record<ProbeTarget, string>>

/** What the configuration asks for. */
const meant = ['policy-isolated', 'ports-isolated']

/** Where what was looked at already has a cause, the probe shows what comes of it, and is none itself. */
const causingGroups = ['kernel', 'network', 'firewall', 'configuration', 'host', 'agents', 'addresses']

/** A finding for each cause. `others`: what was found without the pods; the same is not told again. */
export function judgeProbe({ probe }: NodeFacts, others: readonly Finding[]): readonly Finding[] {
  const byId = new Map<string, ProbeStep[]>()
  for (const step of (probe?.steps ?? []).filter(({ outcome }) => outcome === 'failed')) {
    const id = step.known?.id ?? checkIds[step.target]
    byId.set(id, [...(byId.get(id) ?? []), step])
  }
  const isExplained = others.some(({ severity, group }) => severity === 'error' && causingGroups.includes(group))
  return [...byId]
    .filter(([id]) => !others.some((other) => other.id === id))
    .map(([id, steps]) => ofSteps(id, steps, `network ${probe?.network}`))
    .map((found) => (isExplained && found.id !== 'probe-del' ? { ...found, severity: 'note' } : found))
}

function ofSteps(id: string, steps: readonly ProbeStep[], on: string): Finding {
  const [first] = steps
  const known = first?.known
  const seen = few(steps.map(({ detail, what }) => detail ?? what))
  const base = findingOf({ id: checkIds[first?.target ?? 'pod'], on, seen })
  if (known === undefined) return base
  const severity: Severity = meant.includes(id) ? 'note' : base.severity
  return { ...base, id, severity, seen: `${known.message}: ${seen}`, cause: known.cause, cure: known.cure }
}
