// SPDX-License-Identifier: Apache-2.0
// What a person has to do something about: told in a log line, an event and a metric, each by the same id.

/** The ids, and what each means; docs/kubernetes.md has them with their cures. */
export const problemIds = [
  'NoPodCIDR',
  'BadPodCIDR',
  'OverlappingPodCIDR',
  'NoInternalIP',
  'NotOnSegment',
  'ForeignRoute',
  'OverlapsHost',
  'MovedPodCIDR',
  'OtherConfiguration',
  'NoProgram',
  'RouteRefused',
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

function keyOf({ id, node, text }: Problem): string {
  return JSON.stringify([id, node, text])
}
