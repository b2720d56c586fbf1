// SPDX-License-Identifier: Apache-2.0
// A story of ADD or DEL as text: a line for each effect in its order, on the assumed answers of `trestle plan`, but for
// those that a case gives.

import { Recording, recordingTeardown, runStory, type ShownPlan } from '../../src-before/cli/plan/assume.ts'
import type { ChainedPort, InterfacePort } from '../../src-before/commands/attach/ports.ts'
import type { RunPort } from '../../src-before/commands/call/beside.ts'
import { removeAttachment, type TeardownPort } from '../../src-before/commands/teardown/remove-attachment.ts'
import { type Failure, isEarly, type Outcome, type Plan, type PlanRun, type Stage } from '../../src-before/plan/order/stage.ts'
import type { Removal } from '../../src-before/plan/order/teardown.ts'

/** The effects of an ADD of any mode. */
export type AddPort = InterfacePort & ChainedPort

export type ShownStage = ShownPlan['stages'][number]

/** `outcomes`: of stages, by "plan: stage", one for each time the plan runs; `answers`: effects in place of the assumed. */
export interface Happens<Port> {
  readonly outcomes?: Readonly<Record<string, readonly Partial<Omit<Outcome, 'id'>>[]>>
  readonly answers?: Partial<Port>
}

/** The effects of an ADD, then its end. */
export async function storyOfAdd(
  begun: ConstructorParameters<typeof Recording>[0],
  finds: ConstructorParameters<typeof Recording>[1],
  happens: Happens<AddPort> = {},
): Promise<readonly string[]> {
  const lines: string[] = []
  const port = traced<AddPort>(new Recording(begun, finds), happens, lines)
  await runStory(begun, port).then(
    () => lines.push('answer'),
    (error: Error) => lines.push(`error: ${error.message}`),
  )
  return lines
}

/** The effects of a teardown, then its end. */
export async function storyOfDel(
  removal: Removal,
  hasPod: boolean,
  happens: Happens<TeardownPort> = {},
): Promise<readonly string[]> {
  const lines: string[] = []
  const port = traced<TeardownPort>(recordingTeardown([]), happens, lines)
  await removeAttachment(port, removal, hasPod).then(
    ({ failures, refused }) =>
      lines.push(
        ...failures.map(({ message }) => `left: ${message}`),
        ...refused.map(({ message }) => `refused: ${message}`),
        'answer',
      ),
    (error: Error) => lines.push(`error: ${error.message}`),
  )
  return lines
}

type Effect = (...args: readonly unknown[]) => unknown

function traced<Port extends object>(base: Port, happens: Happens<Port>, lines: string[]): Port {
  const left = new Map(Object.entries(happens.outcomes ?? {}).map(([name, outcomes]) => [name, [...outcomes]]))
  return new Proxy(base, {
    get(target, name: string) {
      const effect =
        ({ ...happens.answers } as Record<string, Effect>)[name] ?? (target as Record<string, Effect>)[name]
      return (...args: readonly unknown[]) => {
        if (name === 'locked') {
          lines.push(`locked: ${args[0]}`)
          const body = args[1] as () => Promise<unknown>
          return body().finally(() => lines.push('unlocked'))
        }
        if (name !== 'run') {
          lines.push(name)
          return effect?.apply(target, [...args])
        }
        const plan = args[0] as Plan
        lines.push(plan.id, ...plan.stages.map(stageLine))
        const { run } = target as unknown as RunPort
        return run(plan).then((done) => withOutcomes(done, left))
      }
    },
  })
}

function withOutcomes({ plan, outcomes }: PlanRun, left: ReadonlyMap<string, Partial<Omit<Outcome, 'id'>>[]>): PlanRun {
  const failed = new Set<string>()
  const skipped = new Set<string>()
  const changed = outcomes.map((outcome): Outcome => {
    const { after = [], anyway } = plan.stages.find(({ id }) => id === outcome.id) ?? {}
    if (outcome.skipped || after.some((id) => skipped.has(id) || (failed.has(id) && !anyway))) {
      skipped.add(outcome.id)
      return { id: outcome.id, done: [], skipped: true }
    }
    const now = left.get(`${plan.id}: ${outcome.id}`)?.shift()
    const told =
      now === undefined ? outcome : { ...outcome, ...(now.failed && { done: doneBefore(now.failed, outcome) }), ...now }
    if (told.failed) failed.add(outcome.id)
    return told
  })
  return { plan, outcomes: changed }
}

/** The operations before the first of the failed one's kind. */
function doneBefore({ op }: Failure, { done }: Outcome): Outcome['done'] {
  return done.slice(
    0,
    Math.max(
      0,
      done.findIndex(({ kind }) => kind === op?.kind),
    ),
  )
}

/** One stage: its work, and the stages that it waits for. */
export function stageLine({ id, run, after, anyway, proof }: ShownStage): string {
  const what = 'what' in run ? ` ${run.what}` : 'until' in run ? ` ${run.until}` : 'verb' in run ? ` ${run.verb}` : ''
  const kinds = 'ops' in run && run.ops.length > 0 ? `: ${run.ops.map(({ kind }) => kind).join(' ')}` : ''
  const order = after.length === 0 ? '' : ` after ${after.join(', ')}${anyway ? ', anyway' : ''}`
  return `  ${id}${order}: ${run.kind}${what}${kinds}${proofText(proof)}`
}

function proofText(proof: Stage['proof']): string {
  if (proof === undefined) return ''
  return isEarly(proof) ? `, until ${proof.kind}` : ', proven'
}

/** A failure of a tool. */
export function failing(message: string, more: Omit<Failure, 'error'> = {}): { readonly failed: Failure } {
  return { failed: { error: new Error(message), ...more } }
}
