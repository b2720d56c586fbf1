// SPDX-License-Identifier: Apache-2.0
// STATUS of a network that the next ADD has to set up: whether that would be refused, by the judgement of the ADD
// itself, on what files tell.

import type { NetConf } from '../../cni/model/net-conf.ts'
import { type GatewaySide, judgeOverlaps, overlapError, wasSetUp } from '../../plan/ipam/range-overlap.ts'
import { agreeOnAddresses } from '../../plan/link/bridge-addresses.ts'
import type { NetworkSpec } from '../../plan/model/attachment.ts'
import { bridgeMac, keyOfHostLink } from '../../plan/model/names.ts'
import type { AddressedLinks } from '../../plan/model/observed.ts'
import { buildNetworkSpec, gatewaySide } from '../../plan/modes/build-spec.ts'
import { requireApart } from '../../plan/order/set-up.ts'
import { linksInFiles } from '../../system/kernel/links-in-files.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { allNetworks } from '../../system/store/records.ts'

/**
 * Throws CniError 110 for a range of the configuration that overlaps one of the host's, 108 for a bridge with another
 * address. Nothing is looked at of a network that was set up like this, nor where the addresses come with the ADD
 * (another IPAM plugin, `static`, ranges of the runtime). `known`: as it was set up.
 */
export function requireRoom(conf: NetConf, known: NetworkSpec | undefined): void {
  if (conf.role !== 'main' || conf.ipam.kind !== 'pool') return
  const network = gatewaySide(conf, [])
  const isApart = wasSetUp(network, known)
  if (isApart && network.bridge?.name === known?.bridge?.name) return
  const host = linksInFiles()
  if (host === undefined) return
  const others = allNetworks().filter(({ name }) => name !== conf.name)
  if (!isApart) requireOwnRanges(conf, network, { host, others })
  requireOwnBridge(conf, { host, others })
}

interface Around {
  readonly host: AddressedLinks
  readonly others: readonly NetworkSpec[]
}

function requireOwnRanges({ name, allowOverlap }: NetConf, network: GatewaySide, { host, others }: Around): void {
  const key = { network: name, containerId: '', ifName: '', role: 'main' } as const
  const { isLive, refused } = judgeOverlaps({ network, host, others, key, allowOverlap })
  // Which links have a default route is not known here: none is to be removed.
  if (refused !== undefined) throw overlapError(name, { overlaps: refused, kept: new Set(host.links.keys()) })
  if (!allowOverlap && !isLive) requireApart(network, others, new Set(host.links.keys()))
}

/** Ports of a network without state are the ADD's to rediscover: whose the addresses are is not known before. */
function requireOwnBridge(conf: NetConf, { host, others }: Around): void {
  const id = machineId()
  // No MTU decides anything here.
  const network = buildNetworkSpec(conf, [], { mtu: 1500, machineId: id })
  const bridge = network.bridge?.name
  if (bridge === undefined) return
  const known = [conf.name, ...others.map(({ name }) => name)]
  const ports = [...host.links.values()].filter(({ master }) => master === bridge)
  const owners = ports.flatMap(({ name, alias }) => keyOfHostLink(name, alias)?.network ?? [])
  if (owners.every((owner) => known.includes(owner)))
    agreeOnAddresses({ network, others, host, ownMac: bridgeMac(bridge, id) })
}
