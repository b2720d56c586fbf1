// SPDX-License-Identifier: Apache-2.0
// STATUS of a network that the next ADD has to set up: whether that would be refused, by the judgement of the ADD
// itself, on what files tell.

import type { InterfaceNetConf, NetConf } from '../../config/net-conf.ts'
import { bridgeOf, makesInterface } from '../../drivers/drivers.ts'
import { buildNetworkSpec, gatewaySide } from '../../drivers/specs.ts'
import type { NetworkSpec } from '../../model/attachment.ts'
import { bridgeMac, keyOfHostLink } from '../../model/names.ts'
import type { AddressedLinks } from '../../model/observed.ts'
import { agreeOnAddresses } from '../../plan/ipam/bridge-addresses.ts'
import { emptyInTheWay, judgeRanges, overlapError, wasSetUp } from '../../plan/ipam/range-overlap.ts'
import { linksInFiles } from '../../system/kernel/links-in-files.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { allNetworks } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { placedPods } from '../call/in-use.ts'

/**
 * Throws CniError 110 for a range of the configuration that overlaps one of the host's, 108 for a bridge with another
 * address. Nothing is looked at of a network that was set up like this, nor where the addresses come with the ADD
 * (another IPAM plugin, `static`, ranges of the runtime). `known`: as it was set up.
 */
export function requireRoom(context: CallContext, conf: NetConf, known: NetworkSpec | undefined): void {
  if (!makesInterface(conf) || conf.ipam.kind !== 'pool') return
  const isApart = wasSetUp(gatewaySide(conf, []), known)
  if (isApart && bridgeOf(conf) === known?.bridge?.name) return
  const host = linksInFiles()
  if (host === undefined) return
  const others = allNetworks().filter(({ name }) => name !== conf.name)
  if (!isApart && !conf.allowOverlap) requireOwnRanges(context, conf, { host, others, known })
  requireOwnBridge(context, conf, { host, others, known })
}

interface Around {
  readonly host: AddressedLinks
  readonly others: readonly NetworkSpec[]
  readonly known: NetworkSpec | undefined
}

/** A routed network without a pod makes room when the ADD comes. */
function requireOwnRanges(context: CallContext, conf: InterfaceNetConf, { host, others, known }: Around): void {
  const { name } = conf
  const key = { network: name, containerId: '', ifName: '', role: 'main' } as const
  const [network, pods] = [gatewaySide(conf, []), placedPods(context, others)]
  const empty = emptyInTheWay({ network, others, pods })
  const inTheWay = others.filter((other) => !empty.includes(other.name))
  const ownMac = (bridge: string) => bridgeMac(bridge, machineId())
  const { refused } = judgeRanges({ network, others: inTheWay, pods }, key, { host, known, ownMac })
  // Which links have a default route is not known here: none is to be removed.
  if (refused !== undefined) throw overlapError(name, { overlaps: refused, kept: new Set(host.links.keys()) })
}

/** Ports of a network without state are the ADD's to rediscover: whose the addresses are is not known before. */
function requireOwnBridge(context: CallContext, conf: InterfaceNetConf, { host, others, known: before }: Around): void {
  const id = machineId()
  // No MTU decides anything here.
  const network = buildNetworkSpec(conf, [], { mtu: 1500, machineId: id })
  const bridge = network.bridge?.name
  if (bridge === undefined) return
  const known = [conf.name, ...others.map(({ name }) => name)]
  const ports = [...host.links.values()].filter(({ master }) => master === bridge)
  const owners = ports.flatMap(({ name, alias }) => keyOfHostLink(name, alias)?.network ?? [])
  const pods = placedPods(context, others)
  if (owners.every((owner) => known.includes(owner)))
    agreeOnAddresses({ network, others, before, pods, host, ownMac: bridgeMac(bridge, id) })
}
