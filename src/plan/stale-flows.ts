// SPDX-License-Identifier: Apache-2.0
// Which conntrack entries must go with a host port. A UDP client that keeps its source port stays on
// the old translation, or on none, as long as it sends (plugins#123, plugins#1190). Only flows to the
// node's own addresses and the port, or into the pod that goes: nobody else's are touched.

import type { HostPort } from './attachment.ts'

/** Entries to delete of one family, as conntrack(8) arguments without -D and the family. */
export interface StaleFlows {
  readonly family: 4 | 6
  readonly selections: readonly (readonly string[])[]
}

/** After the rules of a new pod are in: flows to its host ports that began before. `addresses`: the node's. */
export function flowsBeforeAdd(ports: readonly HostPort[], addresses: readonly string[]): readonly StaleFlows[] {
  return byFamily(ports, (port) => {
    const own = addresses.filter((address) => address.includes(':') === (port.family === 6))
    return (port.hostIp === undefined ? own : [port.hostIp]).map((address) => [...toPort(port), '--orig-dst', address])
  })
}

/** After the rules of a pod are gone: flows that were translated to it. */
export function flowsAfterDel(ports: readonly HostPort[]): readonly StaleFlows[] {
  return byFamily(ports, (port) => [[...toPort(port), '--reply-src', port.podIp]])
}

function toPort(port: HostPort): readonly string[] {
  return ['-p', port.protocol, '--orig-port-dst', `${port.hostPort}`]
}

/** The ports whose flows have no connection. TCP needs none of this: a connection to a pod that is gone ends by itself. */
export function withoutConnections(ports: readonly HostPort[]): readonly HostPort[] {
  return ports.filter((port) => port.protocol !== 'tcp')
}

function byFamily(
  ports: readonly HostPort[],
  select: (port: HostPort) => readonly (readonly string[])[],
): readonly StaleFlows[] {
  return ([4, 6] as const).flatMap((family) => {
    const selections = withoutConnections(ports)
      .filter((port) => port.family === family)
      .flatMap(select)
    return selections.length === 0 ? [] : [{ family, selections }]
  })
}
