// SPDX-License-Identifier: Apache-2.0
// Which bridge new pods are plugged into. A Node that is registered again may have other ranges, a part of the earlier
// ones, or the earlier ones again, while pods live on bridges that have gateways of all of these. No two bridges may
// have one range: the kernel has one route to it.

import { firstOf, formatCidr, isOverlap, next, parseCidr } from '../../cni/address.ts'
import type { Mode } from '../../model/attachment.ts'
import { addressesInTheWay } from '../ipam/bridge-addresses.ts'
import type { Problem } from './problem.ts'

const first = 'cni0'

/** A bridge of ours as it is. `addresses`: gateway CIDRs; `isInUse`: something is plugged into it. */
export interface NodeBridge {
  readonly name: string
  readonly addresses: readonly string[]
  readonly isInUse: boolean
}

/** `setUp`: the bridge that the network was set up with last. `bridges`: all of ours, in the kernel's order. */
interface BridgeFacts {
  readonly podCidrs: readonly string[]
  readonly setUp: string | undefined
  readonly bridges: readonly NodeBridge[]
}

/**
 * The bridge for new pods. `inTheWay`: the bridges in use that keep today's ranges from being one bridge's; the plugin
 * then refuses to set this bridge up, unless it was set up like this by an earlier release.
 */
interface BridgeChoice {
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

/** A bridge that nothing is plugged into takes other addresses (plan/ipam/bridge-addresses.ts). */
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
  return podCidrs.some((text) => isOverlap(address, text))
}

// Which mode new pods get. Bridged and routed pods of one range do not reach each other: the ones ask by ARP on a
// bridge where the others are not. So a node keeps the mode of its pods until none of them is left.

/** The mode of new pods, and what is to be done where it is not the one that is asked for. */
export interface ModeChoice {
  readonly mode: Mode
  readonly problems: readonly Problem[]
}

/** `live`: the modes of the pods that are there, the newest pod's first. */
export function chooseMode(node: string, asked: Mode, live: readonly Mode[]): ModeChoice {
  const [mode = asked] = live
  const all = [...new Set(live)].sort()
  const problem = (text: string): readonly Problem[] => [{ id: 'ModeChanged', node, text }]
  if (all.length > 1)
    return { mode, problems: problem(`pods of modes ${all.join(' and ')} do not reach each other: drain the node`) }
  if (mode === asked) return { mode, problems: [] }
  return { mode, problems: problem(`pods here are of mode ${mode}, and so are new ones: drain the node for ${asked}`) }
}

// A pod keeps the MTU that it was attached with: the uplink's, or the template's.

/** The MTU of new pods and who says so; `bytes` is undefined where nobody knows. */
export interface MtuWanted {
  readonly bytes: number | undefined
  readonly by: 'uplink' | 'template'
}

/** What is wrong where new pods get another MTU by now. `pods`: the MTU of each pod of the node; bytes. */
export function mtuProblems(node: string, { bytes, by }: MtuWanted, pods: readonly number[]): readonly Problem[] {
  if (bytes === undefined) return []
  const others = pods.filter((mtu) => mtu !== bytes)
  if (others.length === 0) return []
  const theirs = [...new Set(others)].sort((a, b) => a - b).join(', ')
  // Their number would make a new problem of it with each pod that goes.
  return [
    {
      id: 'MtuChanged',
      node,
      text: `the ${by} has MTU ${bytes}, pods here have ${theirs}: new ones get ${bytes}, start the others again`,
    },
  ]
}
