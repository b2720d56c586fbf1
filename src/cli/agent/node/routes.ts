// SPDX-License-Identifier: Apache-2.0
// The agent's routes in the kernel: one process to read them, one to change them.

import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { formatAddress, parseAddress } from '../../../cni/model/address.ts'
import { oneLine } from '../../../cni/model/error.ts'
import { readNodeRoutes, refusedRoutes, routeBatch, routeQueries } from '../../../compile/node-routes.ts'
import type { NodeRoute, RouteChange } from '../../../plan/agent/node-route.ts'
import type { Problem } from '../../../plan/agent/problem.ts'
import { requireSeen } from '../../../system/kernel/observe.ts'
import type { Run } from '../../../system/process/runner.ts'

/** The main table of both families. `digest`: of the output of `ip`. */
export interface LookedRoutes {
  readonly digest: string
  readonly routes: readonly NodeRoute[]
}

/**
 * Reads the main table. Returns `before` for equal output, since with thousands of nodes a parse takes a megabyte.
 * Throws CniError 100 when `ip` fails.
 */
export async function lookAtRoutes(run: Run, before?: LookedRoutes): Promise<LookedRoutes> {
  const output = await run({ file: 'ip', args: ['-N', '-j', '-batch', '-'], stdin: routeQueries })
  requireSeen(output, 'ip')
  const digest = hash('sha256', output.stdout)
  return digest === before?.digest ? before : { digest, routes: readNodeRoutes(output.stdout) }
}

/**
 * Makes all changes, independent of each other's failures. Returns refused changes; a missing route counts as removed.
 */
export async function changeRoutes(run: Run, changes: readonly RouteChange[]): Promise<readonly RefusedRoute[]> {
  if (changes.length === 0) return []
  const { stderr } = await run({ file: 'ip', args: ['-force', '-batch', '-'], stdin: routeBatch(changes) })
  return refusedRoutes(changes, stderr).filter(
    ([{ verb }, refusal]) => verb !== 'del' || !/No such process/.test(refusal),
  )
}

/** A change, and the kernel's text of the refusal. */
export type RefusedRoute = readonly [RouteChange, string]

/** The problem that reports a refusal. `self`: this node's name. */
export function refusalOf(self: string, [{ why }, refusal]: RefusedRoute): Problem {
  return { id: 'RouteRefused', node: self, text: `could not ${why}: ${oneLine(refusal)}` }
}

/**
 * This node's canonical addresses without link-local ones: IPv6 from proc_net(5), if_inet6 (the fourth column is the
 * scope); IPv4 of links with a carrier, since routes have the others.
 */
export function ownAddresses(): readonly string[] {
  const lines = (readFileIfThere('/proc/net/if_inet6') ?? '').split('\n').map((line) => line.split(/ +/))
  const of6 = lines.flatMap(([digits = '', , , scope]) => {
    const address = scope === '00' ? parseAddress(digits.replace(/(....)(?=.)/g, '$1:')) : undefined
    return address === undefined ? [] : formatAddress(address)
  })
  const all = Object.values(networkInterfaces()).flatMap((found) => found ?? [])
  const of4 = all.filter(({ family }) => family === 'IPv4').map(({ address }) => address)
  return [...new Set([...of4, ...of6])]
}

function readFileIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined
  }
}
