// SPDX-License-Identifier: Apache-2.0
// Runs one plan: each stage when those before it have ended well, its tools started beforehand where the plan says so.

import { mainTable, type Op } from '../../model/op.ts'
import {
  type BatchRun,
  type BesideRun,
  type Failure,
  isEarly,
  isProven,
  type Outcome,
  type Plan,
  type PlanRun,
  type Proof,
  type Seen,
  type Shown,
  type Stage,
  type StageRun,
} from '../../plan/order/stage.ts'
import { CommandError } from '../../tools/command-error.ts'
import { readDocuments, readLinks, readRoutes } from '../../tools/ip.ts'
import { readBase } from '../../tools/nft.ts'
import type { Prestarted } from '../process/runner.ts'
import { span } from '../process/trace.ts'
import { execute, executeAll, laterCommands, type Place } from './execute.ts'

/** How to run a plan. `prestarted`: tools that are started before their input is known. */
export interface PlanPlace extends Place {
  readonly prestarted?: Pick<Prestarted, 'start' | 'discard'> | undefined
}

/** Carries out a stage that is no batch, and returns what it saw. */
type Beside = (run: BesideRun) => Promise<Seen | undefined>

/**
 * Runs every stage that can be run, and resolves when all have come to rest: nothing runs on while the caller decides
 * what is next. Never rejects: what failed is in the outcomes.
 */
export async function runPlan(place: PlanPlace, plan: Plan, beside: Beside): Promise<PlanRun> {
  const under = { place, beside, plan, begun: new Begun(place, plan), ended: new Map<string, Promise<Outcome>>() }
  for (const stage of plan.stages) under.ended.set(stage.id, runStage(under, stage))
  const outcomes = await Promise.all(under.ended.values())
  under.begun.end()
  // Tools that were started for stages which do not come any more. They know the links of their start: the next plan
  // starts its own.
  if (outcomes.some(({ failed }) => failed !== undefined)) await place.prestarted?.discard()
  return { plan, outcomes }
}

interface Running {
  readonly place: PlanPlace
  readonly beside: Beside
  readonly begun: Begun
  readonly ended: ReadonlyMap<string, Promise<Outcome>>
}

async function runStage(under: Running, stage: Stage): Promise<Outcome> {
  const waits = stage.after.length > 0 || stage.beside !== undefined
  if (waits && !(await mayBegin(under, stage))) {
    under.begun.skip(stage.id)
    return { id: stage.id, done: [], skipped: true }
  }
  const ended = span(`${stage.id}, ${stage.run.kind}`)
  const ending = runIt(under, stage)
  under.begun.add(stage.id)
  const { failed, ...rest } = await ending
  ended()
  const failure = failed ?? unproven(stage, rest.shown)
  return { id: stage.id, ...rest, ...(failure && { failed: failure }) }
}

async function mayBegin({ ended, begun }: Running, { after, beside, anyway }: Stage): Promise<boolean> {
  if (beside !== undefined && !(await begun.of(beside))) return false
  const before = await Promise.all(after.map((id) => ended.get(id)))
  return before.every((outcome) => (anyway || outcome?.failed === undefined) && !outcome?.skipped)
}

type Ended = Omit<Outcome, 'id' | 'skipped'>

async function runIt({ place, beside }: Running, { run, proof }: Stage): Promise<Ended> {
  // What a tool printed may be no document: other stages are at work, so that nothing may end the plan before them.
  if (run.kind === 'batch')
    return await runBatches(place, run, proof).catch((error: unknown) => ({ done: [], failed: failureOf(error) }))
  const done = run.kind === 'rules' ? run.ops : []
  try {
    const seen = await beside(run)
    return { done, ...(seen && { seen }) }
  } catch (error) {
    return { done: [], failed: failureOf(error) }
  }
}

async function runBatches(place: Place, { ops, tolerates }: BatchRun, proof: Proof | undefined): Promise<Ended> {
  if (tolerates === undefined) return await runOps(place, ops)
  const failures = await executeAll(place, ops, proof)
  const refused = tolerates === 'refusals' ? failures.filter((each) => each instanceof CommandError) : []
  const [first, ...more] = failures.filter((each) => !refused.some((other) => other === each))
  const done = failures.length === 0 ? ops : []
  if (first === undefined) return { done, refused }
  return {
    done,
    refused,
    failed: more.length === 0 ? failureOf(first) : { error: new AggregateError([first, ...more]) },
  }
}

async function runOps(place: Place, ops: readonly Op[]): Promise<Ended> {
  try {
    const printed = await execute(place, ops)
    return {
      done: ops,
      shown: shownBy(
        ops,
        printed.map(({ stdout }) => stdout),
      ),
    }
  } catch (error) {
    const failed = failureOf(error)
    const done = failed.op === undefined ? [] : ops.slice(0, ops.indexOf(failed.op))
    return { done, failed, shown: shownBy(ops, error instanceof CommandError ? [error.stdout] : []) }
  }
}

function shownBy(ops: readonly Op[], printed: readonly string[]): Shown {
  const text = printed.join('\n')
  const isAsked = ops.some(({ kind }) => kind === 'addr.show' || kind === 'link.show' || kind === 'route.show-default')
  const documents = isAsked ? readDocuments(text) : []
  const routes = (readRoutes(documents).get(mainTable) ?? []).map(({ dst }) => dst)
  const rules = ops.some(({ kind }) => kind === 'nft.base.show') ? { rules: readBase(text) } : {}
  return { links: readLinks(documents), routes, ...rules }
}

function failureOf(error: unknown): Failure {
  if (!(error instanceof CommandError)) return { error: error instanceof Error ? error : new Error(String(error)) }
  return { error, reason: error.reason, ...(error.op && { op: error.op }) }
}

function unproven({ proof, id }: Stage, shown: Shown | undefined): Failure | undefined {
  if (proof === undefined || isEarly(proof) || (shown !== undefined && isProven(proof, shown))) return undefined
  return { error: new Error(`${id}: not as it was set up`), reason: 'unproven' }
}

/** Which stages have got their input, and the tools that may start then. */
class Begun {
  readonly #stages = new Map<string, PromiseWithResolvers<boolean>>()
  readonly #there = new Set<string>()
  readonly #place: PlanPlace
  #waiting: readonly Stage[]
  #isOver = false

  constructor(place: PlanPlace, { stages }: Plan) {
    this.#place = place
    this.#waiting = stages.filter(({ starts }) => starts !== undefined)
    for (const { id } of stages) this.#stages.set(id, Promise.withResolvers())
  }

  of(id: string): Promise<boolean> {
    return this.#stages.get(id)?.promise ?? Promise.resolve(true)
  }

  skip(id: string): void {
    this.#stages.get(id)?.resolve(false)
  }

  add(id: string): void {
    this.#there.add(id)
    this.#stages.get(id)?.resolve(true)
    const due = this.#waiting.filter(({ starts }) => starts?.every((each) => this.#there.has(each)))
    this.#waiting = this.#waiting.filter((stage) => !due.includes(stage))
    // After this turn of the event loop: a fork takes a millisecond, and would delay the input of other stages' tools.
    if (due.length > 0) setImmediate(() => this.#startAll(due))
  }

  /** All stages have come to rest: nothing starts any more. */
  end(): void {
    this.#isOver = true
  }

  #startAll(due: readonly Stage[]): void {
    for (const { id, run } of due) if (!this.#isOver && !this.#there.has(id)) this.#start(run)
  }

  #start(run: StageRun): void {
    const { netnsFd, prestarted } = this.#place
    if (run.kind === 'batch' && netnsFd !== undefined) prestarted?.start(laterCommands(netnsFd, run.ops))
  }
}
