// SPDX-License-Identifier: Apache-2.0
// The agent's routes in the kernel: looked at with one process, changed with one.

import { hash } from 'node:crypto'
import { oneLine } from '../../../cni/model/error.ts'
import { readNodeRoutes, refusedRoutes, routeBatch, routeQueries } from '../../../compile/node-routes.ts'
import type { NodeRoute, RouteChange } from '../../../plan/agent/node-route.ts'
import type { Problem } from '../../../plan/agent/problem.ts'
import { requireSeen } from '../../../system/kernel/observe.ts'
import type { Run } from '../../../system/process/runner.ts'

/** The main table of both families. `digest`: of what `ip` printed. */
export interface LookedRoutes {
  readonly digest: string
  readonly routes: readonly NodeRoute[]
}

/**
 * Looks at it. `before`: is given back where `ip` prints the same again, which with thousands of nodes is a megabyte
 * to read. Throws CniError 100 when it cannot be seen.
 */
export async function lookAtRoutes(run: Run, before?: LookedRoutes): Promise<LookedRoutes> {
  const output = await run({ file: 'ip', args: ['-N', '-j', '-batch', '-'], stdin: routeQueries })
  requireSeen(output, 'ip')
  const digest = hash('sha256', output.stdout)
  return digest === before?.digest ? before : { digest, routes: readNodeRoutes(output.stdout) }
}

/**
 * Makes the changes, each whatever becomes of the others. Returns those that the kernel refused; a route that had gone
 * before it was removed is none. `self`: the node's name, for the problems.
 */
export async function changeRoutes(
  run: Run,
  changes: readonly RouteChange[],
  self: string,
): Promise<readonly Problem[]> {
  if (changes.length === 0) return []
  const { stderr } = await run({ file: 'ip', args: ['-force', '-batch', '-'], stdin: routeBatch(changes) })
  return refusedRoutes(changes, stderr)
    .filter(([{ verb }, refusal]) => verb !== 'del' || !/No such process/.test(refusal))
    .map(([{ why }, refusal]) => ({ id: 'RouteRefused', node: self, text: `could not ${why}: ${oneLine(refusal)}` }))
}
