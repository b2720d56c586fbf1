// SPDX-License-Identifier: Apache-2.0
// Which bridge new pods are plugged into. A Node that is registered again may have other ranges, a part of the earlier
// ones, or the earlier ones again, while pods live on bridges that have gateways of all of these. No two bridges may
// have one range: the kernel has one route to it.

import { type Cidr, firstOf, formatCidr, next, overlaps, parseCidr } from '../../cni/model/address.ts'
import { addressesInTheWay } from '../link/bridge-addresses.ts'

const first = 'cni0'

/** A bridge of ours as it is. `addresses`: gateway CIDRs; `isInUse`: something is plugged into it. */
export interface NodeBridge {
  readonly name: string
  readonly addresses: readonly string[]
  readonly isInUse: boolean
}

/** `setUp`: the bridge that the network was set up with last. `bridges`: all of ours, in the kernel's order. */
export interface BridgeFacts {
  readonly podCidrs: readonly string[]
  readonly setUp: string | undefined
  readonly bridges: readonly NodeBridge[]
}

/**
 * The bridge for new pods. `inTheWay`: the bridges in use that keep today's ranges from being one bridge's; the plugin
 * then refuses to set this bridge up, unless it was set up like this by an earlier release.
 */
export interface BridgeChoice {
  readonly name: string
  readonly inTheWay: readonly NodeBridge[]
}

/** Decides it: where one bridge in use has to do with today's ranges, it is that one. */
export function chooseBridge({ podCidrs, setUp, bridges }: BridgeFacts): BridgeChoice {
  const used = bridges.filter(({ isInUse }) => isInUse)
  const [touching, ...more] = used.filter(({ addresses }) => addresses.some((each) => isIn(each, podCidrs)))
  if (touching === undefined) return { name: freeName(setUp, used), inTheWay: [] }
  const fits = addressesInTheWay(touching.addresses, gatewaysOf(podCidrs)).length === 0
  if (more.length === 0 && fits) return { name: touching.name, inTheWay: [] }
  // Of two bridges with one range, the kernel's route leads to the first.
  return { name: touching.name, inTheWay: [touching, ...more] }
}

/** Whether the network was set up with today's ranges on this bridge: there is nothing to decide then. */
export function isAsToday(addresses: readonly string[], podCidrs: readonly string[]): boolean {
  const today = gatewaysOf(podCidrs)
  return today.length === addresses.length && today.every((each) => addresses.includes(each))
}

/** The gateway of each range with its prefix, as the plugin gives it to the bridge: the first address. */
export function gatewaysOf(podCidrs: readonly string[]): readonly string[] {
  return podCidrs.flatMap((text) => {
    const cidr = parseCidr(text)
    const gateway = cidr && next(firstOf(cidr))
    return cidr === undefined || gateway === undefined
      ? []
      : formatCidr({ ...gateway, prefixLength: cidr.prefixLength })
  })
}

/** A bridge that nothing is plugged into takes other addresses (plan/link/bridge-addresses.ts). */
function freeName(setUp: string | undefined, used: readonly NodeBridge[]): string {
  const isFree = (name: string) => !used.some((bridge) => bridge.name === name)
  if (setUp !== undefined && isFree(setUp)) return setUp
  for (let n = 0; ; n++) if (isFree(`cni${n}`)) return `cni${n}`
}

/** The name as the configuration says it: nothing for the one that the plugin takes by itself. */
export function bridgeKey(name: string): string | undefined {
  return name === first ? undefined : name
}

/** Whether a link of this name may be a bridge that the agent has named. */
export function isAgentBridge(name: string): boolean {
  return /^cni\d+$/.test(name)
}

/** What is said of each two bridges in use that have one range: what an earlier release has set up like this. */
export function sharedRanges(bridges: readonly NodeBridge[]): readonly string[] {
  const used = bridges.filter(({ isInUse }) => isInUse)
  return used.flatMap((one, at) =>
    used.slice(at + 1).flatMap((other) => {
      const shared = one.addresses.filter((address) => isIn(address, other.addresses))
      if (shared.length === 0) return []
      const texts = shared.join(' and ')
      return `${one.name} and ${other.name} both have ${texts}: pods on one of them are not reached; drain the node`
    }),
  )
}

function isIn(address: string, podCidrs: readonly string[]): boolean {
  const one = parseCidr(address)
  return podCidrs.some((text) => {
    const other: Cidr | undefined = parseCidr(text)
    return one !== undefined && other !== undefined && overlaps(one, other)
  })
}
