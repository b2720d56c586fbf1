// SPDX-License-Identifier: Apache-2.0
// What others have of a network's ranges. The ranges are looked at when the network is set up, before an address is
// given out: one process. Each address is asked about when it is reserved: each network has
// reservations of its own, and several may have a range in one place (a network that was renamed under its pods, two on
// one bridge, two of routed pods).

import { bareAddress } from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import type { FeatureConf, NetConf } from '../../config/net-conf.ts'
import type { GatewaySide } from '../../drivers/driver.ts'
import { bridgeOf, deviceOf, driverOf } from '../../drivers/drivers.ts'
import { gatewayLink } from '../../features/bridge-port.ts'
import type { AttachmentKey, NetworkSpec } from '../../model/attachment.ts'
import { bridgeMac } from '../../model/names.ts'
import type { AddressedLinks } from '../../model/observed.ts'
import { type AttachmentRecord, describeHolder, sameKey } from '../../model/record.ts'
import {
  defaultDestinations,
  describeOverlap,
  emptyInTheWay,
  excludedAddresses,
  gatewaysOf,
  hasHostGateway,
  hostRanges,
  judgeRanges,
  linksToKeep,
  overlapError,
  type PlacedPod,
  wasSetUp,
} from '../../plan/ipam/range-overlap.ts'
import type { Ranges } from '../../plan/order/facts.ts'
import { configDigestAs } from '../../plan/state/config-digest.ts'
import type { NamesIn } from '../../system/files/files.ts'
import { directoryNameOf, type NetworkFiles, networkDirectories, networkFiles } from '../../system/files/state.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import { observeHost } from '../../system/kernel/observe.ts'
import { uplinkName } from '../../system/kernel/uplink.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { allNetworks, findRecords, readNetwork } from '../../system/store/records.ts'
import { isReserved, reservationHolder } from '../../system/store/reservations.ts'
import { upstreamFileElsewhere } from '../../system/upstream/host-local-leases.ts'
import type { CallContext } from '../call/context.ts'
import { placedPods } from '../call/in-use.ts'
import { isDead } from '../teardown/attachments.ts'
import { removeEmpty } from '../teardown/remove-network.ts'

/**
 * What the network's ranges meet on the host. `key`: the call's attachment; `known`: the network as it was set up.
 * Throws CniError 110 for an overlap; of one that live pods of the network have already stderr tells.
 */
export async function requireApart(
  context: CallContext,
  conf: Pick<FeatureConf, 'allowOverlap' | 'ipam'>,
  about: { readonly key: AttachmentKey; readonly network: GatewaySide; readonly known: NetworkSpec | undefined },
): Promise<Ranges> {
  const { key, network, known } = about
  if (wasSetUp(network, known, linkExists)) {
    const around = {
      pods: () => placedPods(context, allNetworks()),
      host: async () => await observeHost(context.run),
    }
    await requireNobodys(conf.ipam, known?.excluded ?? [], around)
    return { excluded: known?.excluded ?? [], abandoned: [] }
  }
  const host = await observeHost(context.run, undefined, [
    ...defaultDestinations.map((each) => ['exact', each] as const),
    ...hostRanges(network).flatMap((range) =>
      (['root', 'match'] as const).map((selector) => [selector, range] as const),
    ),
  ])
  const question = await askedOf(context, network)
  const gateways = conf.ipam.kind === 'pool' ? conf.ipam.rangeSets.flat().map(({ gateway }) => gateway) : []
  const excluded = excludedAddresses(question, host, gateways)
  await requireNobodys(conf.ipam, excluded, { pods: () => question.pods, host: async () => host })
  if (conf.allowOverlap) return { excluded, abandoned: [] }
  const ownMac = (bridge: string) => bridgeMac(bridge, machineId())
  const { tolerated, refused, abandoned } = judgeRanges(question, key, { host, known, ownMac })
  if (refused !== undefined) throw overlapError(network.name, { overlaps: refused, kept: linksToKeep(host) })
  for (const each of tolerated) process.stderr.write(`trestle: ${describeOverlap(each)}: pods may be unreachable\n`)
  return { excluded, abandoned }
}

/** Throws CniError 102 for a requested address of the node, or that live pods of an earlier range have as gateway. */
async function requireNobodys(
  ipam: FeatureConf['ipam'],
  excluded: readonly string[],
  { pods, host }: { readonly pods: () => readonly PlacedPod[]; readonly host: () => Promise<AddressedLinks> },
): Promise<void> {
  const requested = ipam.kind === 'pool' ? ipam.requested : []
  for (const address of requested.filter((each) => excluded.includes(each))) {
    // What was excluded at the set-up may be free by now.
    const pod = pods().find(({ ips }) => ips.some(({ gateway }) => gateway === address))
    const { containerId, network } = pod?.key ?? {}
    const details = 'Ask for another address, or for none.'
    const message = `requested ip ${address} is the gateway of container ${containerId} of network ${network}`
    if (pod !== undefined) throw new CniError('requested-gateway', message, { details })
    const link = [...(await host()).links.values()].find((each) => each.addresses.map(bareAddress).includes(address))
    if (link === undefined) continue
    throw new CniError('requested-taken', `requested ip ${address} is an address of the node, on ${link.name}`, {
      details,
    })
  }
}

/** A routed network without a pod in the way is taken back: its next ADD sets it up again, if it can. */
async function askedOf(context: CallContext, network: GatewaySide) {
  const othersOf = (networks: readonly NetworkSpec[]) => networks.filter(({ name }) => name !== network.name)
  const networks = allNetworks()
  const [others, pods] = [othersOf(networks), placedPods(context, networks)]
  const empty = emptyInTheWay({ network, others, pods })
  for (const name of empty) await removeEmpty(context, networkFiles(name))
  return { network, pods, others: empty.length > 0 ? othersOf(allNetworks()) : others }
}

/** Who asks about an address. `names`: where networks have been looked at. */
interface Asking {
  readonly conf: NetConf
  readonly files: NetworkFiles
  readonly names: NamesIn
}

/**
 * Finds the live pod of another network that has an address, or the network that has it as its gateway. One look at the
 * name of a file for each other network, and one reading of its gateways; a record is read where it is there.
 */
export function holderElsewhere(context: CallContext, asking: Asking) {
  const others = otherNetworks(asking)
  let gateways: ReadonlyMap<string, string> | undefined
  return (address: string): string | undefined => {
    for (const network of others) {
      const holder = liveHolder(context, asking.conf, { network, name: address })
      if (holder !== undefined) return holder
    }
    const file = upstreamElsewhere(asking.conf, address)
    if (file !== undefined) return `the pod in ${file}`
    gateways ??= gatewaysElsewhere(asking)
    const network = gateways.get(address) ?? ownGateway(context, asking, address)
    return network === undefined ? undefined : `network ${network} as its gateway`
  }
}

/** Another live pod of the own network that has an address in the same place. One being made has no place yet. */
export function holderHere(context: CallContext, asking: Pick<Asking, 'conf' | 'files'> & { key: AttachmentKey }) {
  return (address: string): string | undefined => {
    const pod = livePod(context, asking.conf, { network: directoryNameOf(asking.files), name: address })
    return pod === undefined || sameKey(pod.key, asking.key) ? undefined : describeHolder(pod)
  }
}

function otherNetworks({ files, names }: Asking): readonly string[] {
  const own = directoryNameOf(files)
  return networkDirectories(undefined, names)
    .map(directoryNameOf)
    .filter((network) => network !== own)
}

/** Gateways of other networks in the way of the configuration's pods, each with its network. */
export function gatewaysElsewhere(asking: Asking): ReadonlyMap<string, string> {
  const { conf } = asking
  const networks =
    conf.role === 'main' ? otherNetworks(asking).flatMap((name) => readNetwork(networkFiles(name)) ?? []) : []
  const inTheWay = networks.flatMap((network) => {
    const { name, bridge, formerGateways = [] } = network
    const isBeside = bridge?.name === bridgeOf(conf) && (bridge?.gateway?.vlan ?? 0) === vlanOf(conf)
    const link = bridge && gatewayLink(bridge)
    const now = gatewaysOf(network).map((address) => ({ bridge: link, address }))
    return [...now, ...formerGateways]
      .filter((gateway) => isOnHost(conf) || (isBeside && gateway.bridge === link))
      .map(({ address }) => [bareAddress(address), name] as const)
  })
  return new Map(inTheWay)
}

/** A pod of another network of host-local may be anywhere: it counts where the host has the way to ours. */
function upstreamElsewhere(conf: NetConf, address: string): string | undefined {
  const { ipam, name } = conf
  return ipam.kind === 'pool' && isOnHost(conf) ? upstreamFileElsewhere(ipam.dataDir, name, address) : undefined
}

/**
 * The network itself, where it has the address as a gateway: live pods use it, or another IPAM plugin named it, whose
 * gateways stay on the bridge. A pool has none of its own to give.
 */
function ownGateway(context: CallContext, { conf, files }: Asking, address: string): string | undefined {
  if (conf.role !== 'main' || conf.ipam.kind === 'pool') return undefined
  if (
    !gatewaysOf(readNetwork(files) ?? {})
      .map(bareAddress)
      .includes(address)
  )
    return undefined
  const isUsed = (pod: PlacedPod) => pod.ips.some(({ gateway }) => gateway === address)
  return conf.ipam.kind === 'delegated' || placedPods(context, allNetworks()).some(isUsed) ? conf.name : undefined
}

/** Of another network: a reservation that cannot be read may be a live pod's, until that network's own look. */
function liveHolder(
  context: CallContext,
  conf: NetConf,
  reservation: { readonly network: string; readonly name: string },
): string | undefined {
  if (!isReserved(reservation)) return undefined
  if (reservationHolder(reservation) === undefined)
    return `a reservation that cannot be read, of network ${reservation.network}`
  const pod = livePod(context, conf, reservation)
  return pod && describeHolder(pod)
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
  const [bridge, device] = [bridgeOf(conf), deviceOf(conf)]
  const isInVlan = (spec.port?.vlans?.access ?? 0) === vlanOf(conf)
  if (bridge !== undefined && bridge === spec.port?.bridge && isInVlan) return true
  if (device !== undefined && spec.device !== undefined) return key.network === conf.name
  if (device !== undefined) return spec.macvlan?.master === (device.value ?? uplinkName())
  return isOnHost(conf) && (hasHostGateway(network) || driverOf(spec).isRouted)
}

/** Whether the host has the way to the configuration's pods: a gateway on their bridge, or routes. */
function isOnHost(conf: NetConf): boolean {
  return 'isGateway' in conf && (driverOf(conf).isRouted || conf.isGateway)
}

function vlanOf(conf: NetConf): number {
  return 'bridge' in conf ? conf.bridge.vlan : 0
}
