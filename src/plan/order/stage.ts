// SPDX-License-Identifier: Apache-2.0
// What an order is made of: plans of stages, and what came of them. All of it is data: whoever runs it (commands),
// prints it (`trestle plan`) or compares it with the kernel (CHECK, restore) reads the same value.

import type { Result } from '../../cni/model/result.ts'
import type { AttachmentSpec, HostPort, NetworkSpec } from '../model/attachment.ts'
import type { ObservedLink } from '../model/observed.ts'
import type { Op } from '../model/op.ts'
import type { TableFamily } from '../model/sets.ts'
import type { FlowSelections } from '../recovery/orphan-flows.ts'
import type { ListedBase } from '../rules/ruleset.ts'
import type { Learnt } from './facts.ts'

/** Why a tool failed, as far as an order asks. */
export type Reason = 'exists' | 'absent' | 'denied' | 'busy' | 'full' | 'invalid' | 'other'

/** What is looked at. Each look fills the part of `Learnt` that it is about. */
export type LookRun =
  | {
      readonly kind: 'look'
      readonly what:
        | 'ranges'
        | 'known'
        | 'networks'
        | 'networks left'
        | 'vlans'
        | 'chained'
        | 'nft'
        | 'master'
        | 'orphan elements'
    }
  | { readonly kind: 'look'; readonly what: 'rules'; readonly spec?: AttachmentSpec }
  | { readonly kind: 'look'; readonly what: 'listeners'; readonly spec: AttachmentSpec }
  /** Of a teardown: which of these links are there, and which of these chains nobody else has. */
  | {
      readonly kind: 'look'
      readonly what: 'present'
      readonly links: readonly string[]
      readonly chains: readonly string[]
    }
  | { readonly kind: 'look'; readonly what: 'orphan link' | 'queues'; readonly dev: string }
  | { readonly kind: 'look'; readonly what: 'routing tables'; readonly families: readonly (4 | 6)[] }
  | { readonly kind: 'look'; readonly what: 'ranges of addresses'; readonly network: NetworkSpec }
  /** `unlessMade`: nothing is looked at where the network was set up meanwhile. `abandoned`: links that are to go. */
  | {
      readonly kind: 'look'
      readonly what: 'host'
      readonly network: NetworkSpec
      readonly unlessMade: boolean
      readonly abandoned: readonly string[]
      readonly spec?: AttachmentSpec
    }

/** What is written to our own state, or to the firewalls of others that are noted there. */
export type StateRun =
  | { readonly kind: 'state'; readonly what: 'addresses' | 'finished' }
  | { readonly kind: 'state'; readonly what: 'ports'; readonly spec: AttachmentSpec }
  | { readonly kind: 'state'; readonly what: 'intent'; readonly spec: AttachmentSpec; readonly network?: NetworkSpec }
  | {
      readonly kind: 'state'
      readonly what: 'accepts'
      readonly accepting: NetworkSpec
      readonly all: readonly NetworkSpec[]
    }
  | { readonly kind: 'state'; readonly what: 'accepts of all' }
  | { readonly kind: 'state'; readonly what: 'network'; readonly network: NetworkSpec }
  | { readonly kind: 'state'; readonly what: 'accepts taken out' | 'mark settled' | 'state removed' }
  | TeardownRun

/** What a teardown writes. `ports`, `addresses`: absent where what is reserved says itself whose it is. */
export type TeardownRun =
  | { readonly kind: 'state'; readonly what: 'leaving' }
  | { readonly kind: 'state'; readonly what: 'withdrawn' }
  | { readonly kind: 'state'; readonly what: 'forgotten' }
  | { readonly kind: 'state'; readonly what: 'pending cleanup'; readonly texts: readonly string[] }
  | { readonly kind: 'state'; readonly what: 'free ports'; readonly ports?: readonly HostPort[] }
  | {
      readonly kind: 'state'
      readonly what: 'free addresses'
      readonly addresses?: readonly string[]
      readonly cooldownS: number
    }

/** What a stage does apart from operations. */
export type OtherRun =
  | LookRun
  | StateRun
  /**
   * Operations of rules; elements of nobody that are in their way are taken out first
   * (commands/teardown/orphan-elements.ts).
   */
  | { readonly kind: 'rules'; readonly ops: readonly Op[] }
  | { readonly kind: 'delegate'; readonly type: string; readonly verb: 'ADD' | 'DEL' }
  /** `refill`: whoever fills sets anew has done so. `addresses`: no IPv6 address is tentative. */
  | { readonly kind: 'wait'; readonly until: 'refill' | 'addresses'; readonly spec: AttachmentSpec }
  /** `rebuilds`: whoever rebuilds rules has read what state says by now. */
  | { readonly kind: 'wait'; readonly until: 'rebuilds' }
  /** `list`: those of before the rules of `ports`. */
  | {
      readonly kind: 'flows'
      readonly verb: 'list'
      readonly flows: readonly FlowSelections[]
      readonly ports: readonly HostPort[]
    }
  | { readonly kind: 'flows'; readonly verb: 'delete'; readonly flows: readonly FlowSelections[] }
  /** What the upstream plugins keep for an attachment that was taken over from them goes. */
  | { readonly kind: 'upstream'; readonly dataDir: string; readonly addresses: readonly string[] }

/**
 * What a stage does. `tolerates`: failures that are none. `pod`: those of tolerance.ts. `absent`: what is not there any
 * more; the rest is done whatever fails. `refusals`: also what the kernel refuses.
 */
export type StageRun =
  | { readonly kind: 'batch'; readonly ops: readonly Op[]; readonly tolerates?: 'pod' | 'absent' | 'refusals' }
  | OtherRun

/** What the answer of a stage's tools has to show besides the exit. */
export type ShownProof =
  | { readonly kind: 'same bridge'; readonly bridge: string; readonly mac: string }
  | { readonly kind: 'rules'; readonly table: TableFamily; readonly mark: number | undefined }

/**
 * What shows before the exit that a batch of removals is done; where it does not show, the exit does. `gone`: the
 * kernel has none of the links any more. `generation`: nft has told the generation that it has committed.
 */
export type EarlyProof = { readonly kind: 'gone' } | { readonly kind: 'generation' }

export type Proof = ShownProof | EarlyProof

/**
 * One step. It gets its input when all of `after` have ended well, or, with `beside`, when that one has got its input.
 * `starts`: its processes may start, without input, when these have got theirs; absent: with its input. tc of iproute2
 * 7 learns the links' numbers when it starts, so what makes links is in `starts` of what is about them. `anyway`: also
 * when one of `after` failed. `proof`: absent: the exit alone; one that comes before it is for what tolerates 'absent'.
 */
export interface Stage {
  readonly id: string
  readonly run: StageRun
  readonly after: readonly string[]
  readonly starts?: readonly string[]
  readonly beside?: string
  readonly anyway?: true
  readonly proof?: Proof
}

/**
 * Stages that are known without a further answer. `lock`: under the machine's lock, held from one such plan to the
 * next.
 */
export interface Plan {
  readonly id: string
  readonly because: string
  readonly lock?: 'machine'
  readonly stages: readonly Stage[]
}

/**
 * Why a stage failed; an AggregateError of one that went on. `reason`: what a tool told; 'unproven': it ended well and
 * does not show what it has to.
 */
export interface Failure {
  readonly error: Error
  readonly op?: Op
  readonly reason?: Reason | 'unproven'
}

/** What a stage's tools printed, read. `routes`: destinations of the main table. */
export interface Shown {
  /** Our rules, where they were listed. */
  readonly rules?: ListedBase
  readonly links: ReadonlyMap<string, ObservedLink>
  readonly routes: readonly string[]
}

/** What came of one stage. `done`: the operations that hold now. `skipped`: a stage before it failed. */
export interface Outcome {
  readonly id: string
  readonly done: readonly Op[]
  readonly failed?: Failure
  readonly skipped?: true
  /** What the kernel refused, and the stage tolerates. */
  readonly refused?: readonly Error[]
  readonly shown?: Shown
  readonly learnt?: Learnt
}

/** The end of an order. */
export interface Answer<T = Result> {
  readonly result: T
}

/** What comes next: a plan, the answer, or what the call fails with. */
export type Step<T = Result> = Plan | Answer<T> | Error

/** A plan that was run. */
export interface PlanRun {
  readonly plan: Plan
  readonly outcomes: readonly Outcome[]
}

/** A plan without stages that have nothing to do; who waited for one of those waits for what it waited for. */
export function planOf(plan: Plan): Plan {
  const replaced = new Map<string, readonly string[]>()
  const resolved = (ids: readonly string[]) => [...new Set(ids.flatMap((id) => replaced.get(id) ?? [id]))]
  const stages: Stage[] = []
  for (const stage of plan.stages) {
    const after = resolved(stage.after)
    const { starts, beside, ...rest } = stage
    if (isEmpty(stage)) replaced.set(stage.id, after)
    else
      stages.push({
        ...rest,
        after,
        ...(starts && { starts: resolved(starts) }),
        ...(beside !== undefined && !replaced.has(beside) && { beside }),
      })
  }
  return { ...plan, stages }
}

function isEmpty({ run }: Stage): boolean {
  if (run.kind === 'batch' || run.kind === 'rules') return run.ops.length === 0
  return run.kind === 'flows' && run.flows.length === 0
}

/** The operations of a plan in the order of its stages, or those of one stage. */
export function opsOf({ stages }: Pick<Plan, 'stages'>, id?: string): readonly Op[] {
  return stages.flatMap((stage) => ('ops' in stage.run && (id ?? stage.id) === stage.id ? stage.run.ops : []))
}

/** What failed first, in the order of the stages. */
export function failureIn(run: PlanRun): Failure | undefined {
  return run.outcomes.find(({ failed }) => failed !== undefined)?.failed
}

/** All that failed, or what of the stages `ids`, in the order of the stages. */
export function errorsIn({ outcomes }: PlanRun, ...ids: readonly string[]): readonly Error[] {
  const meant = outcomes.filter(({ id }) => ids.length === 0 || ids.includes(id))
  return meant.flatMap(({ failed }) => {
    if (failed === undefined) return []
    return failed.error instanceof AggregateError ? failed.error.errors : [failed.error]
  })
}

/** What came of one stage of a plan. */
export function outcomeOf(run: PlanRun, id: string): Outcome | undefined {
  return run.outcomes.find((outcome) => outcome.id === id)
}
