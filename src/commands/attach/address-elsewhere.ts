// SPDX-License-Identifier: Apache-2.0
// Who has an address where a pod of the network would be in its way. Each network has reservations of its own, and
// several may have a range in one place: a network that was renamed under its pods, two on one bridge, two of routed
// pods.

import { bareAddress } from '../../cni/model/address.ts'
import type { NetConf } from '../../cni/model/net-conf.ts'
import { gatewaysOf, hasHostGateway } from '../../plan/ipam/range-overlap.ts'
import type { AttachmentKey } from '../../plan/model/attachment.ts'
import { type AttachmentRecord, describeHolder, sameKey } from '../../plan/model/record.ts'
import { bridgeOf, driverOf, masterOf } from '../../plan/modes/drivers.ts'
import { configDigestAs } from '../../plan/recovery/config-digest.ts'
import type { NamesIn } from '../../system/files/files.ts'
import { directoryNameOf, type NetworkFiles, networkDirectories, networkFiles } from '../../system/files/state.ts'
import { uplinkName } from '../../system/kernel/uplink.ts'
import { findRecords, readNetwork } from '../../system/store/records.ts'
import { isReserved, reservationHolder } from '../../system/store/reservations.ts'
import type { CallContext } from '../call/context.ts'
import { isDead } from '../teardown/teardown.ts'

/** Who asks. `names`: where networks have been looked at. */
interface Asking {
  readonly conf: NetConf
  readonly files: NetworkFiles
  readonly names: NamesIn
}

/**
 * Finds the live pod of another network that has an address, or the network that has it as its gateway. One look at the
 * name of a file for each other network, and one reading of its gateways; a record is read where it is there.
 */
export function holderElsewhere(context: CallContext, { conf, files, names }: Asking) {
  const own = directoryNameOf(files)
  const others = networkDirectories(undefined, names)
    .map(directoryNameOf)
    .filter((network) => network !== own)
  let gateways: ReadonlyMap<string, string> | undefined
  return (address: string): string | undefined => {
    for (const network of others) {
      const pod = livePod(context, conf, { network, name: address })
      if (pod !== undefined) return describeHolder(pod)
    }
    gateways ??= gatewaysIn(conf, others)
    const network = gateways.get(address)
    return network === undefined ? undefined : `network ${network} as its gateway`
  }
}

/** Another live pod of the own network that has an address in the same place. One being made has no place yet. */
export function holderHere(context: CallContext, asking: Pick<Asking, 'conf' | 'files'> & { key: AttachmentKey }) {
  const { conf, files, key } = asking
  return (address: string): string | undefined => {
    const pod = livePod(context, conf, { network: directoryNameOf(files), name: address })
    return pod === undefined || sameKey(pod.key, key) ? undefined : describeHolder(pod)
  }
}

/** Gateways of other networks in the way of the configuration's pods, each with its network. */
export function gatewaysElsewhere({ conf, files, names }: Asking): ReadonlySet<string> {
  const own = directoryNameOf(files)
  const others = networkDirectories(undefined, names).map(directoryNameOf)
  return new Set(
    gatewaysIn(
      conf,
      others.filter((network) => network !== own),
    ).keys(),
  )
}

function gatewaysIn(conf: NetConf, others: readonly string[]): ReadonlyMap<string, string> {
  if (conf.role !== 'main') return new Map()
  const networks = others.flatMap((name) => readNetwork(networkFiles(name)) ?? [])
  return new Map(
    networks.flatMap((network) => {
      const { name, bridge, formerGateways = [] } = network
      const isBeside = bridge?.name === bridgeOf(conf) && (bridge?.gateway?.vlan ?? 0) === vlanOf(conf)
      const isInPlace = (other: string | undefined) => isOnHost(conf) || (isBeside && other === bridge?.name)
      const now = gatewaysOf(network).map((address) => ({
        bridge: bridge?.name,
        address,
      }))
      return [...now, ...formerGateways]
        .filter((gateway) => isInPlace(gateway.bridge))
        .map(({ address }) => [bareAddress(address), name] as const)
    }),
  )
}

function livePod(
  context: CallContext,
  conf: NetConf,
  reservation: { readonly network: string; readonly name: string },
): AttachmentRecord | undefined {
  const holder = isReserved(reservation) ? reservationHolder(reservation) : undefined
  if (holder === undefined) return undefined
  const [found] = findRecords(networkFiles(reservation.network), holder.key)
  const stored = found ?? { file: '', isPending: false, record: holder }
  return !isDead(stored, context) && mayMeet(conf, stored.record) ? stored.record : undefined
}

/** Whether a pod of the configuration and that of the record may meet: on the host's routes, a bridge or a master. */
function mayMeet(conf: NetConf, record: AttachmentRecord): boolean {
  const { key, spec, network } = record
  if (key.role !== conf.role) return false
  if (key.role === 'ipam') return configDigestAs(conf, key.network) === record.configDigest
  if (spec === undefined || network === undefined) return true
  const [bridge, keys] = [bridgeOf(conf), masterOf(conf)]
  const isInVlan = (spec.port?.vlans?.access ?? 0) === vlanOf(conf)
  if (bridge !== undefined && bridge === spec.port?.bridge && isInVlan) return true
  if (keys !== undefined) return spec.macvlan?.master === (keys.master ?? uplinkName())
  return isOnHost(conf) && (hasHostGateway(network) || driverOf(spec).isRouted)
}

/** Whether the host has the way to the configuration's pods: a gateway on their bridge, or routes. */
function isOnHost(conf: NetConf): boolean {
  return 'isGateway' in conf && (driverOf(conf).isRouted || conf.isGateway)
}

function vlanOf(conf: NetConf): number {
  return 'bridge' in conf ? conf.bridge.vlan : 0
}
