// SPDX-License-Identifier: Apache-2.0
// Which bridge new pods are plugged into. One bridge has one IPv4 gateway: pods of a node that was registered again
// with another podCIDR keep theirs, and new pods get a bridge beside it.

import { includes, parseCidr } from '../../cni/model/address.ts'
import type { NetworkSpec } from '../model/attachment.ts'

const first = 'cni0'

/**
 * `network`: as it was set up last; `inUse`: asked for where it matters, the bridges that live pods of it are plugged
 * into.
 */
export interface BridgeFacts {
  readonly podCidrs: readonly string[]
  readonly network: Pick<NetworkSpec, 'bridge'> | undefined
  readonly inUse: () => ReadonlySet<string>
}

/** The bridge's name; undefined for the one that the plugin takes by itself. */
export function bridgeFor({ podCidrs, network, inUse }: BridgeFacts): string | undefined {
  const name = nameFor(podCidrs, network?.bridge, inUse)
  return name === first ? undefined : name
}

function nameFor(podCidrs: readonly string[], bridge: NetworkSpec['bridge'], inUse: BridgeFacts['inUse']): string {
  if (bridge === undefined) return first
  const ranges = podCidrs.flatMap((text) => parseCidr(text) ?? [])
  const isToday = bridge.addresses.every((text) => {
    const address = parseCidr(text)
    return address !== undefined && ranges.some((range) => includes(range, address))
  })
  const used = isToday ? new Set<string>() : inUse()
  // A bridge that nothing is plugged into takes other addresses (plan/link/bridge-addresses.ts).
  if (!used.has(bridge.name)) return bridge.name
  for (let n = 0; ; n++) if (!used.has(`cni${n}`)) return `cni${n}`
}
