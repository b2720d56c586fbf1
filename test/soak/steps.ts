// SPDX-License-Identifier: Apache-2.0
// What a soak does, step by step: decided from the random numbers alone and never from what became of an earlier
// step, so that a seed always gives the same steps.

import type { Fault } from '../support/faults/faults.ts'
import { damageNames } from './damage.ts'
import { networkNames, slots } from './networks.ts'
import type { Random } from './random.ts'

/** What disturbs a call: a signal after so many ms, or a fault at the nth call of a tool. */
export type Disturbance =
  | { readonly kind: 'signal'; readonly signal: 'SIGKILL' | 'SIGTERM'; readonly afterMs: number }
  | {
      readonly kind: 'tool'
      readonly tool: 'ip' | 'nft' | 'nsenter' | 'tc'
      readonly nth: number
      readonly fault: Fault
    }

/** ADD or DEL of whatever pod has the slot, which may be none. */
export interface PodCall {
  readonly verb: 'ADD' | 'DEL'
  readonly slot: number
  readonly withNetns: boolean
  readonly disturbance?: Disturbance
}

/** One step. `chosen`: a fraction that picks from what there is then. */
export type Step =
  | {
      readonly kind: 'calls'
      readonly calls: readonly PodCall[]
      readonly beside?: 'restore' | 'status' | 'gc-apply'
      readonly settles: boolean
    }
  | { readonly kind: 'check'; readonly slot: number }
  | { readonly kind: 'gc'; readonly network: string; readonly forgotten: number }
  | { readonly kind: 'status' | 'restore' | 'gc-apply'; readonly network: string }
  | {
      readonly kind: 'damage'
      readonly damage: string
      readonly chosen: number
      readonly how: number
      readonly after: readonly PodCall[]
    }

const weights: Readonly<Record<Exclude<Step['kind'], 'calls'> | 'one' | 'many', number>> = {
  one: 45,
  many: 18,
  check: 4,
  gc: 6,
  status: 3,
  restore: 3,
  'gc-apply': 4,
  damage: 17,
}

/** The next step. */
export function nextStep(random: Random): Step {
  const kind = weighted(random)
  const network = random.pick(networkNames)
  const slot = random.pick(slots).number
  switch (kind) {
    case 'one':
      return { kind: 'calls', calls: [podCall(random, slot, 0.35)], settles: random.chance(0.7) }
    case 'many':
      return manyCalls(random)
    case 'check':
      return { kind, slot }
    case 'gc':
      return { kind, network, forgotten: slot }
    case 'status':
    case 'restore':
    case 'gc-apply':
      return { kind, network }
    case 'damage':
      return {
        kind,
        damage: random.pick(damageNames),
        chosen: random.fraction(),
        how: random.fraction(),
        after: distinctSlots(random, random.between(0, 2)).map((each) => podCall(random, each, 0)),
      }
    default:
      return kind satisfies never
  }
}

/** A step in a few words. */
export function describeStep(step: Step): string {
  switch (step.kind) {
    case 'calls':
      return `${step.calls.map(describeCall).join(' | ')}${step.beside ? ` | ${step.beside}` : ''}${step.settles ? '' : ' (not settled)'}`
    case 'damage':
      return `damage: ${step.damage} (${step.chosen.toFixed(3)}, ${step.how.toFixed(3)})${step.after.map((call) => `, then ${describeCall(call)}`).join('')}`
    case 'check':
      return `CHECK of slot ${step.slot}`
    case 'gc':
      return `GC of ${step.network}, without slot ${step.forgotten}`
    default:
      return `${step.kind} (${step.network})`
  }
}

function describeCall({ verb, slot, withNetns, disturbance }: PodCall): string {
  const where = `${verb} of slot ${slot}${verb === 'DEL' && !withNetns ? ' without namespace' : ''}`
  if (disturbance === undefined) return where
  if (disturbance.kind === 'signal') {
    return `${where}, ${disturbance.signal} after ${disturbance.afterMs} ms`
  }
  const { tool, nth, fault } = disturbance
  return `${where}, ${fault.kind} at call ${nth} of ${tool}`
}

function manyCalls(random: Random): Step {
  const calls = distinctSlots(random, random.between(2, 6))
  const disturbed = random.chance(0.4) ? random.between(0, calls.length - 1) : -1
  const beside = random.pick([undefined, undefined, 'restore', 'status', 'gc-apply'] as const)
  return {
    kind: 'calls',
    calls: calls.map((slot, at) => podCall(random, slot, at === disturbed ? 1 : 0)),
    ...(beside === undefined ? {} : { beside }),
    settles: random.chance(0.7),
  }
}

/** `faulty`: how likely the call is disturbed. */
function podCall(random: Random, slot: number, faulty: number): PodCall {
  const verb = random.chance(0.55) ? 'ADD' : 'DEL'
  const call = { verb, slot, withNetns: random.chance(0.7) } as const
  return random.chance(faulty) ? { ...call, disturbance: disturbanceOf(random) } : call
}

function disturbanceOf(random: Random): Disturbance {
  if (random.chance(0.55)) {
    return { kind: 'signal', signal: random.pick(['SIGKILL', 'SIGKILL', 'SIGTERM']), afterMs: random.between(0, 160) }
  }
  const kind = random.pick([
    'error',
    'kill-before',
    'kill-held',
    'kill-held',
    'kill-after',
    'term-before',
    'slow',
  ] as const)
  const tool = random.pick(['ip', 'ip', 'nft', 'nft', 'nsenter', 'tc'] as const)
  return { kind: 'tool', tool, nth: random.between(1, 3), fault: { kind } }
}

function distinctSlots(random: Random, count: number): readonly number[] {
  const chosen = new Set<number>()
  while (chosen.size < count) chosen.add(random.pick(slots).number)
  return [...chosen]
}

function weighted(random: Random): keyof typeof weights {
  const entries = Object.entries(weights) as [keyof typeof weights, number][]
  let left = random.fraction() * entries.reduce((sum, [, weight]) => sum + weight, 0)
  for (const [kind, weight] of entries) {
    left -= weight
    if (left < 0) return kind
  }
  return 'one'
}
