// SPDX-License-Identifier: Apache-2.0
// The round's choice of mode, bridge and MTU for new pods, which depends on live pods.

import { bareAddress, familyOf, includes, parseAddress, parseCidr } from '../../cni/address.ts'
import { allNetworks, allRecords } from '../../core.ts'
import type { Mode } from '../../model/attachment.ts'
import type { AttachmentRecord } from '../../model/record.ts'
import { templateMtu } from '../../plan/agent/conflist.ts'
import { chooseMode, type ModeChoice, type MtuWanted, mtuProblems } from '../../plan/agent/new-pods.ts'
import type { Problem } from '../../plan/agent/problem.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import { uplinkMtu } from '../../system/kernel/uplink.ts'
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

/** Decides the place for today's ranges: those of live pods stay in force until the last of them is gone. */
export function lookAtPlace(
  { node, network }: Node,
  { mode, podCidrs }: { readonly mode: Mode; readonly podCidrs: readonly string[] },
): Place {
  const setUp = allNetworks().find(({ name }) => name === network)
  const addresses = livePods(network).flatMap(({ spec }) => spec?.ips.map(({ address }) => bareAddress(address)) ?? [])
  const isOf = (range: string) => {
    const cidr = parseCidr(range)
    return addresses.some((text) => {
      const address = parseAddress(text)
      return cidr !== undefined && address !== undefined && includes(cidr, address)
    })
  }
  const left = (setUp?.ranges ?? []).filter((range) => !podCidrs.includes(range) && isOf(range))
  const bridge = mode === 'ptp' ? {} : { bridge: setUp?.bridge?.name ?? 'cni0' }
  if (left.length === 0) return { ...bridge, problems: [] }
  return { ...bridge, ...refusal(node, podCidrs, `pods here have addresses of ${left.join(' and ')}`) }
}

/** Whether the network is set up with today's ranges: then ADD compares them with nothing. */
export function isSetUpWith(network: string, podCidrs: readonly string[]): boolean {
  const known = allNetworks().find(({ name }) => name === network)
  return known !== undefined && podCidrs.every((range) => known.ranges?.includes(range))
}

/** Drain leaves the pods of DaemonSets. */
const drainText = 'drain this node, then delete its remaining pods or reboot it'

function refusal(node: string, podCidrs: readonly string[], why: string) {
  const text = `${why}: new ones of ${podCidrs.join(', ')} are refused beside them: ${drainText}`
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
