// SPDX-License-Identifier: Apache-2.0
// Plans of stages and their outcomes, as data: the runner (system/kernel/run-plan.ts) and `trestle plan` read the same
// value.

import type { FlowSelections } from '../../features/port-flows.ts'
import type { AttachmentSpec, HostPort } from '../../model/attachment.ts'
import type { ObservedLink } from '../../model/observed.ts'
import type { Op } from '../../model/op.ts'
import { isBaseComplete, type ListedBase, setSpec, type TableFamily } from '../../model/tables.ts'

/** Why a tool failed, as far as an order asks. */
export type Reason = 'exists' | 'absent' | 'denied' | 'busy' | 'full' | 'invalid' | 'other'

/** What a stage does besides operations, while tools of other stages are at work. */
export type BesideRun =
  /** `refill`: the call that fills the sets anew has done so. `addresses`: no IPv6 address is tentative. */
  | { readonly kind: 'wait'; readonly until: 'refill' | 'addresses'; readonly spec: AttachmentSpec }
  | { readonly kind: 'look'; readonly what: 'networks left' | 'nft' }
  | { readonly kind: 'look'; readonly what: 'listeners'; readonly spec: AttachmentSpec }
  /** Operations of rules. Elements of no attachment that collide with them are removed first. */
  | { readonly kind: 'rules'; readonly ops: readonly Op[] }
  /** Lists the flows that began before the rules of `ports`. */
  | {
      readonly kind: 'flows'
      readonly verb: 'list'
      readonly flows: readonly FlowSelections[]
      readonly ports: readonly HostPort[]
    }
  | { readonly kind: 'flows'; readonly verb: 'delete'; readonly flows: readonly FlowSelections[] }

/**
 * Operations of a stage. `tolerates`: failures that are none. `absent`: objects that are gone already; the other
 * operations run whatever fails. `refusals`: also operations that the kernel refuses.
 */
export interface BatchRun {
  readonly kind: 'batch'
  readonly ops: readonly Op[]
  readonly tolerates?: 'absent' | 'refusals'
}

export type StageRun = BatchRun | BesideRun

/** The answers of looks beside operations. `networksLeft`: names; `flows`: flows older than the rules. */
export interface Seen {
  readonly networksLeft?: ReadonlySet<string>
  readonly flows?: readonly FlowSelections[]
}

/** What the answer of a stage's tools has to show besides the exit. */
type ShownProof =
  | { readonly kind: 'same bridge'; readonly bridge: string; readonly mac: string }
  | { readonly kind: 'rules'; readonly table: TableFamily; readonly mark: number | undefined }

/**
 * What shows before the exit that a batch of removals is done; where it does not show, the exit does. `gone`: the
 * kernel has none of the links any more. `generation`: nft has told the generation that it has committed.
 */
export type EarlyProof = { readonly kind: 'gone' } | { readonly kind: 'generation' }

export type Proof = ShownProof | EarlyProof

/**
 * One step. It gets its input when all of `after` have ended well, or, with `beside`, when that stage has got its
 * input. `starts`: its processes may start, without input, when these stages have got theirs; absent: with its input.
 * tc of iproute2 7 learns the links' numbers when it starts, so a stage about links has in `starts` the stage that
 * makes them. `anyway`: also when one of `after` failed. `proof`: absent: the exit alone; an early proof needs
 * `tolerates`: 'absent'.
 */
export interface Stage<Run = StageRun> {
  readonly id: string
  readonly run: Run
  readonly after: readonly string[]
  readonly starts?: readonly string[]
  readonly beside?: string
  readonly anyway?: true
  readonly proof?: Proof
}

/** Stages that are known without a further answer, and run side by side as far as `after` lets them. */
export interface Plan<Run = StageRun> {
  readonly id: string
  readonly because: string
  readonly stages: readonly Stage<Run>[]
}

/** `error`: an AggregateError of a stage that went on. `reason`: a tool's; 'unproven': a good end without its proof. */
export interface Failure {
  readonly error: Error
  readonly op?: Op
  readonly reason?: Reason | 'unproven'
}

/** What a stage's tools printed, read. `routes`: destinations of the main table. */
export interface Shown {
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
  readonly seen?: Seen
}

export interface PlanRun {
  readonly plan: Plan
  readonly outcomes: readonly Outcome[]
}

/** Drops empty stages; a stage that depended on a dropped stage depends on the dependencies of that stage. */
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

export function planOfOne(id: string, because: string, run: StageRun): Plan {
  return { id, because, stages: [{ id, run, after: [] }] }
}

export function opsOf({ stages }: { readonly stages: readonly Stage<StageRun | { readonly kind: string }>[] }) {
  return stages.flatMap(({ run }): readonly Op[] => ('ops' in run ? run.ops : []))
}

export function failureIn(run: PlanRun): Failure | undefined {
  return run.outcomes.find(({ failed }) => failed !== undefined)?.failed
}

/** Throws the error of the first stage that failed. Returns the run. */
export function wellEnded(run: PlanRun): PlanRun {
  const failed = failureIn(run)
  if (failed !== undefined) throw failed.error
  return run
}

/** Every error of a run, in the order of the stages. */
export function errorsIn({ outcomes }: PlanRun): readonly Error[] {
  return outcomes.flatMap(({ failed }) => {
    if (failed === undefined) return []
    return failed.error instanceof AggregateError ? failed.error.errors : [failed.error]
  })
}

/** The outcome of a stage; undefined for a stage that was not in the plan, or was empty. */
export function outcomeOf(run: PlanRun, { id }: Pick<Stage, 'id'>): Outcome | undefined {
  return run.outcomes.find((outcome) => outcome.id === id)
}

export function isDone(run: PlanRun, stage: Pick<Stage, 'id'>): boolean {
  const outcome = outcomeOf(run, stage)
  return outcome !== undefined && !outcome.failed && !outcome.skipped
}

/** A run and its continuation as one: a stage of both has the later end, and everything that both have done. */
export function continued(before: PlanRun, after: PlanRun): PlanRun {
  const both = before.outcomes.map((old): Outcome => {
    const now = outcomeOf(after, old)
    if (now === undefined) return old
    const routes = [...(old.shown?.routes ?? []), ...(now.shown?.routes ?? [])]
    const shown = now.shown ?? old.shown
    return { ...now, done: [...old.done, ...now.done], ...(shown && { shown: { ...shown, routes } }) }
  })
  const added = after.outcomes.filter((now) => outcomeOf(before, now) === undefined)
  return { plan: before.plan, outcomes: [...both, ...added] }
}

// What shows that a stage is done, besides that its tools ended well, or before they end.

/**
 * Whether what was shown is what it has to be. A bridge that somebody made anew has another MAC, and none of the ports;
 * where nothing of it was shown, nothing tells against it.
 */
export function isProven(proof: ShownProof, shown: Shown): boolean {
  if (proof.kind === 'rules') {
    return shown.rules !== undefined && isBaseComplete(shown.rules, [proof.table], proof.mark)
  }
  const link = shown.links.get(proof.bridge)
  return link === undefined || link.mac === proof.mac
}

/** Whether it shows before a tool's exit. */
export function isEarly(proof: Proof): proof is EarlyProof {
  return proof.kind === 'gone' || proof.kind === 'generation'
}

/** What shows that the removals among these operations are done; undefined where there are none: exits tell. */
export function proofOfLinks(ops: readonly Op[]): EarlyProof | undefined {
  return ops.some(({ kind }) => kind === 'link.del' || kind === 'group.del') ? { kind: 'gone' } : undefined
}

/**
 * The same of rules, by nft's generation. nft tells it cheaply for elements of one table (tools/batches.ts); any other
 * removal waits for the exit.
 */
export function proofOfRules(ops: readonly Op[]): EarlyProof | undefined {
  const isOfElements = ops.every((op) => op.kind === 'nft.del' && setSpec(op.set).table === 'inet')
  return isOfElements && ops.length > 0 ? { kind: 'generation' } : undefined
}
