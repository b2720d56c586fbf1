// SPDX-License-Identifier: Apache-2.0
// Routes of the node as the agent sees them, and which of them are its own.

/**
 * The protocol of the agent's routes (rtnetlink(7), rtm_protocol): free in iproute2's rt_protos. A network manager that
 * keeps its hands off other protocols leaves them alone.
 */
export const routeProtocol = 116

/** Their metric, likewise: below nothing that a person adds without one, and unlike the kernel's own. */
export const routeMetric = 116

/** A route of the main table. `dst`: a CIDR; absent `dev`: none, as of an unreachable one; `source`: an own address. */
export interface NodeRoute {
  readonly dst: string
  readonly type: string
  readonly gateway?: string
  readonly dev?: string
  readonly source?: string
  readonly metric: number
  readonly protocol: number
}

/** One change of a route of the agent's. Without `gateway` it is an unreachable one. `why` completes "could not …". */
export interface RouteChange {
  readonly verb: 'replace' | 'del'
  readonly dst: string
  readonly gateway?: string
  readonly dev?: string
  readonly why: string
}

/** Whether the agent made it. */
export function isOwnRoute({ protocol }: NodeRoute): boolean {
  return protocol === routeProtocol
}
