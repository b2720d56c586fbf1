// SPDX-License-Identifier: Apache-2.0
// State that was lost under live pods, found again by what the kernel says: a host link's alias has the ids and the pod's
// addresses, and an element's comment says whose it is. The signs: the marker file is missing, or there are fewer records
// than host links of ours. What these do not show (chained attachments, leases, macvlan) is a limit (docs/limits.md).

import { asPrefix, bareAddress } from '../cni/addresses.ts'
import { defined } from '../cni/json.ts'
import { attachmentDigest, hostLinkName, ifbName, networkDigest, ownBridgeAlias, readAlias } from '../drivers/names.ts'
import {
  type AttachmentId,
  type BridgeSpec,
  emptyNetwork,
  emptySpec,
  type HostPort,
  type HostPorts,
  type NetworkSpec,
  type Spec,
} from '../drivers/spec.ts'
import { lookAtHost, lookAtTable } from '../kernel/look.ts'
import type { Element } from '../kernel/nft-table.ts'
import type { ObservedLink } from '../kernel/observed.ts'
import { linkExists, podLinkNames } from '../kernel/proc.ts'
import { ownIdentity } from '../process/clock.ts'
import type { Machine } from '../process/machine.ts'
import { isTaken, linkOnce, readableText, removeFile, writeText } from './files.ts'
import { addressesDirectory, finishedFile, markerFile, networkFile, portsDirectory } from './layout.ts'
import {
  type AttachmentRecord,
  allRecords,
  countMainRecords,
  decodeRecord,
  findRecord,
  recordFormat,
  writeFinished,
  writeNetwork,
} from './records.ts'
import { portName } from './reservations.ts'

/** Whether there is a sign of lost state. No process. */
export function isStateLost(): boolean {
  const links = podLinkNames().length
  if (links === 0) return false
  return !isTaken(markerFile()) || countMainRecords() < links
}

/** The same where there is time to read: a record that cannot be read is missing, and one of an ADD at work has no link yet. */
export async function recoverIfLost(machine: Machine): Promise<void> {
  const named = new Set(allRecords().map(({ id }) => hostLinkName(id)))
  const hasOther = podLinkNames().some((name) => !named.has(name))
  if (hasOther || isStateLost()) await recoverLostState(machine)
}

/** Writes the marker of a state that is whole. */
export function markState(): void {
  if (!isTaken(markerFile())) writeText(markerFile(), `${recordFormat}\n`)
}

/** Writes a record, its reservations and its network for each host link of ours that has none. */
export async function recoverLostState(machine: Machine): Promise<void> {
  const { links } = await lookAtHost(machine, 'all')
  const tables = await Promise.all([lookAtTable(machine, 'inet'), lookAtTable(machine, 'bridge')])
  const elements = tables.flatMap((table) => [...(table?.elements.values() ?? [])])
  for (const link of links.values()) {
    const alias = readAlias(link.name, link.alias)
    // An ifb has the alias of its attachment, too.
    if (alias === undefined || link.kind !== 'veth' || findRecord(alias.id) !== undefined) continue
    // A DEL that ended meanwhile has removed the link before its record.
    if (!linkExists(link.name)) continue
    const own = elements.filter(({ comment }) => comment.endsWith(` ${attachmentDigest(alias.id)}`))
    const network = recoverNetwork(alias.id, link, links, elements)
    const spec = specOf(alias.id, link, alias.addresses, own, network)
    const [netns, createdAt] = [{ path: '', inode: 0 }, new Date().toISOString()]
    const record = { format: recordFormat, id: alias.id, writer: ownIdentity(), netns, createdAt, spec }
    writeFinished(record)
    reserveAgain(record)
  }
  markState()
}

/** What a host link, its alias and elements show of an attachment. */
export function specOf(
  id: AttachmentId,
  link: ObservedLink,
  addresses: readonly string[],
  givenElements: readonly Element[],
  network?: NetworkSpec,
): Spec {
  const { name, mac, mtu, master, hairpin = false, isolated = false } = link
  const hostPorts = hostPortsIn(givenElements, master ?? name, master === undefined)
  const port = master === undefined ? undefined : { bridge: master, hairpin, isolated }
  return {
    ...emptySpec(id, master === undefined ? 'ptp' : 'bridge'),
    host: { name, mac, mtu },
    addresses: addresses.map((address) => ({ address: asPrefix(address) })),
    givenElements,
    ...defined({ network, port, hostPorts }),
    ...limitsOf(id, name),
  }
}

/** The link of a limit, which goes with the attachment. What it limits to shows in queues alone. */
export function limitsOf(id: AttachmentId, link: string): Pick<Spec, 'bandwidth'> {
  const ifb = ifbName(id)
  return linkExists(ifb) ? { bandwidth: { link, mtu: 0, egress: { rateBits: 0, burstBytes: 0, ifb, ifbMac: '' } } } : {}
}

/** The host ports that the pod's elements serve. */
function hostPortsIn(elements: readonly Element[], link: string, isOwnLink: boolean): HostPorts | undefined {
  const ports = elements.flatMap(({ set, key, value = [] }): readonly HostPort[] => {
    const match = /^(any)?ports([46])$/.exec(set)
    if (match === null) return []
    const [protocol = '', hostPort = ''] = match[1] ? key : key.slice(1)
    const [podIp = '', containerPort = ''] = value
    const to = { podIp, containerPort: Number(containerPort), family: Number(match[2]) as 4 | 6 }
    const port = { ...to, protocol: protocol as HostPort['protocol'], hostPort: Number(hostPort) }
    return [match[1] ? port : { ...port, hostIp: key[0] ?? '' }]
  })
  return ports.length === 0 ? undefined : { link, isOwnLink, snat: true, masqAll: false, ports }
}

/** What the network had, until its next ADD brings its configuration. */
function recoverNetwork(
  id: AttachmentId,
  { master, mtu }: ObservedLink,
  links: ReadonlyMap<string, ObservedLink>,
  elements: readonly Element[],
): NetworkSpec {
  const bridge = master === undefined ? undefined : links.get(master)
  const network: NetworkSpec = {
    ...emptyNetwork,
    name: id.network,
    mode: bridge === undefined ? 'ptp' : 'bridge',
    allowOverlap: true,
    removeWhenEmpty: false,
    givenElements: elements.filter(({ comment }) => comment === networkDigest(id.network)),
    ...(bridge ? { bridge: bridgeOf(bridge, mtu) } : {}),
  }
  if (!isTaken(networkFile(network))) writeNetwork(network)
  return network
}

function bridgeOf(
  { name, mac, promisc, vlanFiltering = false, alias, addresses }: ObservedLink,
  mtu: number,
): BridgeSpec {
  const gateways = addresses.filter((cidr) => !cidr.startsWith('fe80:'))
  const isForeign = alias !== ownBridgeAlias
  return { name, mac, mtu, addresses: gateways, forceAddress: false, promisc, vlanFiltering, isForeign }
}

/** Addresses and ports of a record that was written again. A live pod's are given to nobody. */
function reserveAgain({ id, spec }: AttachmentRecord): void {
  const addresses = (spec?.addresses ?? []).map(
    ({ address }) => `${addressesDirectory(id.network)}/${bareAddress(address)}`,
  )
  const ports = (spec?.hostPorts?.ports ?? []).map((port) => `${portsDirectory()}/${portName(port)}`)
  for (const file of [...addresses, ...ports]) {
    // One that cannot be read names nobody; the kernel says that it is this pod's.
    if (isTaken(file) && decodeRecord(readableText(file) ?? '') === undefined) removeFile(file)
    linkOnce(finishedFile(id), file)
  }
}
