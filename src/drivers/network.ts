// SPDX-License-Identifier: Apache-2.0
// The operations for the links that a network's attachments share: forwarding, and its bridge.

import type { NetworkSpec } from '../model/attachment.ts'
import type { Op } from '../model/op.ts'
import { bridgeSysctlOps, keepBridgeOps, newBridgeOps, type Port, portOps } from './bridge.ts'

/** Forwarding for the network's families. */
function forwardingOps(network: NetworkSpec): readonly Op[] {
  return network.forwarding.map((family) => ({
    in: 'host',
    kind: 'forwarding.on',
    family,
    why: `forward IPv${family} packets`,
  }))
}

/** The sysctl that switches forwarding on for a family, `net/…`. */
export function forwardingKey(family: 4 | 6): string {
  return family === 4 ? 'net/ipv4/ip_forward' : 'net/ipv6/conf/all/forwarding'
}

/** A network's bridge and forwarding, and the ports that belong on the bridge. */
export function bridgeOps(network: NetworkSpec, attachments: readonly Port[]): readonly Op[] {
  const { bridge } = network
  if (bridge === undefined) return forwardingOps(network)
  const ports = attachments.filter(({ port }) => port?.bridge === bridge.name)
  return [...forwardingOps(network), ...newBridgeOps(bridge), ...ports.flatMap(portOps)]
}

/** Operations about the bridge for an ADD that has no sign of a change. */
export function fastPathBridgeOps(network: NetworkSpec): readonly Op[] {
  const { bridge } = network
  return [...forwardingOps(network), ...(bridge ? [...bridgeSysctlOps(bridge), ...keepBridgeOps(bridge)] : [])]
}
