// SPDX-License-Identifier: Apache-2.0
// The agent's routes in the kernel: looked at with one process, changed with one.

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
 * Makes the changes, each whatever becomes of the others. Returns those that the kernel refused, and in which words; a
 * route that had gone before it was removed is none.
 */
export async function changeRoutes(run: Run, changes: readonly RouteChange[]): Promise<readonly RefusedRoute[]> {
  if (changes.length === 0) return []
  const { stderr } = await run({ file: 'ip', args: ['-force', '-batch', '-'], stdin: routeBatch(changes) })
  return refusedRoutes(changes, stderr).filter(
    ([{ verb }, refusal]) => verb !== 'del' || !/No such process/.test(refusal),
  )
}

/** A change, and why the kernel did not make it. */
export type RefusedRoute = readonly [RouteChange, string]

/** What is told of it. `self`: the node's name. */
export function refusalOf(self: string, [{ why }, refusal]: RefusedRoute): Problem {
  return { id: 'RouteRefused', node: self, text: `could not ${why}: ${oneLine(refusal)}` }
}

/**
 * Addresses of this node's links, canonical, but link-local ones: those of IPv6 by proc_net(5), if_inet6, where the
 * scope is the fourth; of IPv4 where the link has a carrier, routes tell the others.
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
