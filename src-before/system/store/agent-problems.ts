// SPDX-License-Identifier: Apache-2.0
// The problems that `trestle agent` reports now, for `trestle doctor` on the same node: most of them keep no node from
// being ready, so that /readyz is silent about them.

import { type Problem, problemIds } from '../../../src/agent/cluster.ts'
import { orElse } from '../../cni/error.ts'
import { parsedJson } from '../../cni/json.ts'
import { readableText } from '../files/files.ts'
import { stateRoot } from '../files/state.ts'

/** The last report of an agent; none where it reported none, or the file is damaged. */
export function readAgentProblems(): readonly Problem[] {
  const all = parsedJson(orElse(() => readableText(problemsFile()), '') ?? '')
  return Array.isArray(all) ? all.filter(isProblem) : []
}

function isProblem(value: unknown): value is Problem {
  const { id, node, text } = (value ?? {}) as Partial<Record<keyof Problem, unknown>>
  return problemIds.some((known) => known === id) && typeof node === 'string' && typeof text === 'string'
}

function problemsFile(): string {
  return `${stateRoot()}/agent-problems.json`
}
