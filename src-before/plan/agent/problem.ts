// SPDX-License-Identifier: Apache-2.0
// What a person has to do something about: told in a log line, an event and a metric, each by the same id.

/** The ids, and what each means; docs/kubernetes.md has them with their cures. */
export const problemIds = [
  ...(['NoPodCIDR', 'BadPodCIDR', 'OverlappingPodCIDR', 'BeyondClusterCIDR', 'PublicPodCIDR'] as const),
  ...(['WideClusterCIDR', 'NoInternalIP', 'BadInternalIP', 'NotOnSegment', 'ForeignRoute'] as const),
  ...(['OverlapsHost', 'MovedPodCIDR', 'ModeChanged', 'MtuChanged'] as const),
  ...(['PoolNearlyFull', 'OtherConfiguration', 'BadTemplate', 'NoProgram', 'ProgramFails', 'RouteRefused'] as const),
] as const

export type ProblemId = (typeof problemIds)[number]

/** `node`: the one that it is about. `text`: one line, what is wrong and what follows. */
export interface Problem {
  readonly id: ProblemId
  readonly node: string
  readonly text: string
}

/** Those of `now` that were not there before, and those of `before` that are over. A changed text is a new problem. */
export function changedProblems(
  before: readonly Problem[],
  now: readonly Problem[],
): { readonly begun: readonly Problem[]; readonly over: readonly Problem[] } {
  const keys = (problems: readonly Problem[]) => new Set(problems.map(keyOf))
  const [old, current] = [keys(before), keys(now)]
  return {
    begun: now.filter((problem) => !old.has(keyOf(problem))),
    over: before.filter((problem) => !current.has(keyOf(problem))),
  }
}

/** A node that joins has no podCIDR and no address for some seconds: every other node would tell of it. */
export const graceMs = 10_000

/** When each problem was seen first (milliseconds), by what it is. */
export type SeenProblems = ReadonlyMap<string, number>

/** What is reported now: the own node's at once, another's when it has lasted. `isWaiting`: some are too young. */
export function ripeProblems(
  now: readonly Problem[],
  { self, nowMs, seen }: { readonly self: string; readonly nowMs: number; readonly seen: SeenProblems },
): { readonly ripe: readonly Problem[]; readonly seen: SeenProblems; readonly isWaiting: boolean } {
  const since = new Map(now.map((problem) => [keyOf(problem), seen.get(keyOf(problem)) ?? nowMs]))
  const ripe = now.filter((problem) => {
    return problem.node === self || nowMs - (since.get(keyOf(problem)) ?? nowMs) >= graceMs
  })
  return { ripe, seen: since, isWaiting: ripe.length < now.length }
}

function keyOf({ id, node, text }: Problem): string {
  return JSON.stringify([id, node, text])
}

// A range that is nearly full is told before it is full: then STATUS says no, and the node's pods may be evicted.

/** A range, how many addresses of it cannot be given out now, and how many it has. */
export interface PoolUse {
  readonly range: string
  readonly taken: number
  readonly total: number
}

/** `leaked`: addresses that are held for pods that are gone. */
export interface PoolLook extends PoolUse {
  readonly leaked: readonly string[]
}

const fullFrom = 0.9
/** Less, so that a pod that comes and goes begins no new problem each time. */
const fullUntil = 0.8
const mostNamed = 10

/** Whether a range is nearly full; `was`: whether it was at the last look. */
export function isNearlyFull({ taken, total }: PoolUse, was: boolean): boolean {
  return taken >= total * (was ? fullUntil : fullFrom)
}

/** What is wrong with ranges that are nearly full. Their numbers would make a new problem with each pod. */
export function poolProblems(node: string, full: readonly PoolLook[]): readonly Problem[] {
  return full.map(({ range, total, leaked }) => {
    const named = [...leaked].sort().slice(0, mostNamed).join(', ')
    const held = leaked.length === 0 ? '' : `; held for pods that are gone: ${named}, see trestle gc`
    const text = `nine of ten of the ${total} addresses of ${range} are in use: soon no further pod starts${held}`
    return { id: 'PoolNearlyFull', node, text }
  })
}
