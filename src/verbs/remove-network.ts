// SPDX-License-Identifier: Apache-2.0
// Removes what a network shared: its bridge, if trestle made it and nobody else uses it, and its rules.

import { type CniError, toCniError } from '../cni/errors.ts'
import { everyElement } from '../drivers/attachment.ts'
import { isPodLinkName, networkDigest, ownBridgeAlias } from '../drivers/names.ts'
import { type AttachmentId, type BridgeSpec, isSameNetwork, type NetworkSpec, sameId } from '../drivers/spec.ts'
import { settleAccepts } from '../features/host-accept.ts'
import { readCluster } from '../features/network-elements.ts'
import { lookAtHost } from '../kernel/look.ts'
import { type Element, tableOf } from '../kernel/nft-table.ts'
import { elementOps, type Op, removeLink, setTable } from '../kernel/operation.ts'
import { readSysctl } from '../kernel/proc.ts'
import type { Machine } from '../process/machine.ts'
import { stepsToAdd, stepsToRemove } from '../process/order.ts'
import { readableText } from '../state/files.ts'
import { clusterFile, machineLockFile } from '../state/layout.ts'
import { withLock } from '../state/lock.ts'
import { allRecords, knownNetworks, recordsOf, removeNetwork } from '../state/records.ts'
import type { Context } from './context.ts'

/**
 * Removes the network where no attachment but `own`, which is about to go, has a record. A new ADD writes its record
 * first and then waits for the machine's lock: it either is seen here, or finds the network gone and sets it up.
 */
export async function removeIfEmpty(
  network: NetworkSpec,
  own: AttachmentId,
  context: Context,
): Promise<readonly CniError[]> {
  const purpose = `remove the empty network ${network.name}`
  try {
    return await withLock(
      { file: machineLockFile(), purpose, deadline: context.deadline, isDispensable: true },
      async () => {
        const isUsed = recordsOf(network.name).some(({ id }) => id.role === network.role && !sameId(id, own))
        return isUsed ? [] : await removeShared([network], context.machine)
      },
    )
  } catch (error) {
    return [toCniError(error)]
  }
}

/** Removes bridges and rules of networks that have no attachments. */
export async function removeShared(gone: readonly NetworkSpec[], machine: Machine): Promise<readonly CniError[]> {
  const records = allRecords()
  const left = knownNetworks(records).filter((network) => !gone.some((each) => isSameNetwork(each, network)))
  for (const network of gone) removeNetwork(network)
  const bridges = gone.flatMap(({ bridge }) => bridge ?? []).map((bridge) => ownPartOf(bridge, left))
  const errors = [...(await removeBridges(bridges, machine))]
  const specs = records.flatMap(({ spec, isLeaving }) => (spec === undefined || isLeaving ? [] : [spec]))
  const elements = [...everyElement(left, specs, readCluster(readableText(clusterFile()) ?? '')), ...openGuards(left)]
  const hasAccept = left.some(({ accept }) => accept !== undefined)
  const { errors: refused } = await machine.run(stepsToAdd(refill(elements, hasAccept)), { goesOn: true })
  // Without a table there is nothing to refill.
  errors.push(...refused.filter((error) => !('reason' in error) || error.reason !== 'absent'))
  try {
    await settleAccepts(machine, left)
  } catch (error) {
    errors.push(toCniError(error))
  }
  return errors
}

/** A bridge of others, or that others use, stays (no name), and its VLAN's gateway link that others use. */
function ownPartOf(bridge: BridgeSpec, left: readonly NetworkSpec[]): BridgeSpec {
  const others = left.flatMap((network) => network.bridge ?? [])
  const { vlanGateway, ...rest } = bridge
  const isUsed = bridge.isForeign || others.some(({ name }) => name === bridge.name)
  const isGatewayUsed = others.some((other) => other.vlanGateway?.name === vlanGateway?.name)
  const own = isUsed ? { ...rest, name: '' } : rest
  return vlanGateway === undefined || isGatewayUsed ? own : { ...own, vlanGateway }
}

/** The guard of bridges that let 127.0.0.1 through since they had a host port: that setting stays. */
export function openGuards(networks: readonly NetworkSpec[]): readonly Element[] {
  const isOpen = (link: string) => readSysctl(`net/ipv4/conf/${link}/route_localnet`) === '1'
  return networks.flatMap(({ name, bridge }) => {
    const links = [bridge?.name, bridge?.vlanGateway?.name].filter((link) => link !== undefined && isOpen(link))
    return links.map((link): Element => ({ set: 'loopback', key: [link ?? ''], comment: networkDigest(name) }))
  })
}

/** Writes the rules again with the elements of those who are left. */
function refill(elements: readonly Element[], hasAccept: boolean): readonly Op[] {
  const hasBridgeTable = elements.some(({ set }) => tableOf(set) === 'bridge')
  const tables = hasBridgeTable ? (['inet', 'bridge'] as const) : (['inet'] as const)
  return [...tables.map((table) => setTable(table, hasAccept, true)), ...elementOps(elements)]
}

/** Bridges with a port of somebody else stay. A VLAN's gateway link goes with its bridge, or alone (without a name). */
export async function removeBridges(bridges: readonly BridgeSpec[], machine: Machine): Promise<readonly CniError[]> {
  if (bridges.length === 0) return []
  const { links } = await lookAtHost(machine, 'all')
  const ops: Op[] = []
  for (const { name, vlanGateway } of bridges) {
    const ports = [...links.values()].filter(
      ({ master, name: port }) => master === name && port !== vlanGateway?.peer && !isPodLinkName(port),
    )
    const isOurs = links.get(name)?.alias === ownBridgeAlias
    if (vlanGateway !== undefined && links.has(vlanGateway.name)) ops.push(removeLink(vlanGateway.name))
    if (isOurs && ports.length === 0) ops.push(removeLink(name))
  }
  const { errors } = await machine.run(stepsToRemove(ops), { goesOn: true })
  return errors
}
