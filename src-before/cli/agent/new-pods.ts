// SPDX-License-Identifier: Apache-2.0
// The round's choice of mode, bridge and MTU for new pods, which depends on live pods.

import { bareAddress, familyOf } from '../../cni/address.ts'
import type { CallContext } from '../../commands/call/context.ts'
import { placedPods } from '../../commands/call/in-use.ts'
import { driverOf } from '../../drivers/drivers.ts'
import type { BridgeSpec, Mode } from '../../model/attachment.ts'
import { bridgeMac } from '../../model/names.ts'
import type { AttachmentRecord } from '../../model/record.ts'
import { templateMtu } from '../../plan/agent/conflist.ts'
import {
  chooseBridge,
  chooseMode,
  gatewaysOf,
  isAgentBridge,
  isAsToday,
  type ModeChoice,
  type MtuWanted,
  mtuProblems,
  type NodeBridge,
  sharedRanges,
} from '../../plan/agent/new-pods.ts'
import type { Problem } from '../../plan/agent/problem.ts'
import { type GatewayFacts, gatewaysOver } from '../../plan/ipam/bridge-addresses.ts'
import { linkExists, linkNames } from '../../system/kernel/kernel-files.ts'
import { observeHost } from '../../system/kernel/observe.ts'
import { uplinkMtu } from '../../system/kernel/uplink.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { allNetworks, allRecords } from '../../system/store/records.ts'
import type { RoundInput } from './round.ts'
import type { Settings } from './settings.ts'

type Node = Pick<Settings, 'node' | 'network' | 'mode'>

/** The mode of new pods, from records alone. */
export function lookAtMode(settings: Node): ModeChoice {
  const modes = livePods(settings.network).flatMap(({ spec }) => spec?.mode ?? [])
  return chooseMode(settings.node, settings.mode, modes)
}

/**
 * The place of new pods. `bridge`: absent in a mode without bridges; `refused`: the reason why new pods get no network,
 * or a network that does not work.
 */
export interface Place {
  readonly bridge?: string
  readonly refused?: string
  readonly problems: readonly Problem[]
}

/** Decides the place for today's ranges, with one process if there is a choice. Throws CniError 100. */
export async function lookAtPlace(
  context: CallContext,
  { node, network }: Node,
  { mode, podCidrs }: { readonly mode: Mode; readonly podCidrs: readonly string[] },
): Promise<Place> {
  const pods = livePods(network)
  if (driverOf({ mode }).isRouted) return routedPlace(node, podCidrs, pods)
  const setUp = allNetworks().find(({ name }) => name === network)?.bridge
  const known = [setUp, ...pods.map((record) => record.network?.bridge)].filter((bridge) => bridge !== undefined)
  const isOther = (name: string) => name !== setUp?.name
  const isSettled = setUp !== undefined && isAsToday(setUp.addresses, podCidrs)
  if (isSettled && !known.some(({ name }) => isOther(name)) && !strayBridges(network)) return place(setUp.name)
  const host = await observeHost(context.run)
  const networks = allNetworks()
  const facts = { host, networks, pods: placedPods(context, networks) }
  const bridges = bridgesOf(facts, known)
  const choice = chooseBridge({ podCidrs, setUp: setUp?.name, bridges })
  const problems = sharedRanges(bridges).map((text): Problem => ({ id: 'TwoBridges', node, text }))
  if (choice.inTheWay.length === 0) return { bridge: choice.name, problems }
  const [shared] = problems
  if (shared !== undefined) return { bridge: choice.name, refused: shared.text, problems }
  const theirs = choice.inTheWay.map(({ name, addresses }) => `${addresses.join(' and ')} on ${name}`).join(', ')
  return { bridge: choice.name, ...refusal(node, podCidrs, `pods here have their gateway ${theirs}`) }
}

/** Whether the network is set up with today's ranges: then ADD compares them with nothing. */
export function isSetUpWith(network: string, podCidrs: readonly string[]): boolean {
  const known = allNetworks().find(({ name }) => name === network)
  const gateways = [...(known?.bridge?.addresses ?? []), ...(known?.ranges ?? [])]
  return gatewaysOf(podCidrs).every((gateway) => gateways.includes(gateway))
}

function place(bridge: string): Place {
  return { bridge, problems: [] }
}

/** Routed pods of several ranges live side by side, unless a pod has the address of the new range's gateway. */
function routedPlace(node: string, podCidrs: readonly string[], pods: readonly AttachmentRecord[]): Place {
  const gateways = gatewaysOf(podCidrs).map(bareAddress)
  const addresses = pods.flatMap(({ spec }) => spec?.ips.map(({ address }) => bareAddress(address)) ?? [])
  const taken = gateways.filter((gateway) => addresses.includes(gateway))
  return taken.length === 0
    ? { problems: [] }
    : refusal(node, podCidrs, `a pod here has the address ${taken.join(', ')}`)
}

function refusal(node: string, podCidrs: readonly string[], why: string) {
  const text = `${why}: new ones of ${podCidrs.join(', ')} are refused beside them, drain the node`
  return { refused: text, problems: [{ id: 'MovedPodCIDR', node, text }] satisfies readonly Problem[] }
}

/** Attachments of the network with a live interface, the newest first. */
export function livePods(network: string): readonly AttachmentRecord[] {
  return allRecords()
    .map(({ record }) => record)
    .filter(({ key, spec }) => key.network === network && key.role === 'main' && spec?.host !== undefined)
    .filter(({ spec }) => spec?.host !== undefined && linkExists(spec.host.name))
    .sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1))
}

/** True if the node has another bridge with a name of the agent beside the network's own; without a process. */
export function strayBridges(network: string): boolean {
  const own = allNetworks().find(({ name }) => name === network)?.bridge?.name
  return linkNames().some((name) => name !== own && isAgentBridge(name))
}

/**
 * trestle's bridges on the host, without gateways that the next ADD takes off. `known`: the bridges of the state, since
 * a VLAN's link may have the gateway.
 */
function bridgesOf(facts: Omit<GatewayFacts, 'ownMac'>, known: readonly BridgeSpec[]): readonly NodeBridge[] {
  const { links } = facts.host
  const id = machineId()
  const all = [...links.values()]
  const ours = all.filter(
    ({ name, kind, mac }) =>
      kind === 'bridge' && (known.some((each) => each.name === name) || mac === bridgeMac(name, id)),
  )
  return ours.map(({ name, addresses }) => {
    const gateway = known.find((each) => each.name === name)?.gateway
    const onVlan = gateway === undefined ? [] : (links.get(gateway.name)?.addresses ?? [])
    const over = gatewaysOver({ name, ...(gateway && { gateway }) }, { ...facts, ownMac: bridgeMac(name, id) })
    return {
      name,
      addresses: [...addresses, ...onVlan].filter((each) => !each.startsWith('fe80:') && !over.includes(each)),
      isInUse: all.some((link) => link.master === name && link.name !== gateway?.peer),
    }
  })
}

/** Compares pods' MTUs in whole rounds, and when new pods get another MTU than at the last look. */
export function lookAtMtu(
  { known, settings, isWhole }: Pick<RoundInput, 'known' | 'settings' | 'isWhole'>,
  ranges: readonly string[],
): readonly Problem[] {
  // The MTU of new pods is unknown before their ranges are known.
  if (ranges.length === 0) return known.mtu?.problems ?? []
  const packets = ranges.every((range) => familyOf(range) === 4) ? 'IPv4' : 'any'
  const asked = known.template?.good === undefined ? undefined : templateMtu(known.template.good)
  const wanted: MtuWanted =
    asked === undefined ? { bytes: uplinkMtu(packets), by: 'uplink' } : { bytes: asked, by: 'template' }
  if (isWhole || known.mtu === undefined || known.mtu.wanted.bytes !== wanted.bytes) {
    const specs = allRecords().flatMap(({ record }) =>
      record.key.network === settings.network ? (record.spec ?? []) : [],
    )
    const pods = specs.flatMap((spec) => (spec.chained === undefined ? spec.mtu : []))
    known.mtu = { wanted, problems: mtuProblems(settings.node, wanted, pods) }
  }
  return known.mtu.problems
}
