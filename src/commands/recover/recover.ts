// SPDX-License-Identifier: Apache-2.0
// One way back from lost state: reads what is known of attachments whose records are gone or cannot be read, from the
// aliases of links, the pods' ends of them, libcni's cache, the table, and what the caller was told. Rare, so that it
// may take a process for each pod.

import { bareAddress } from '../../cni/address.ts'
import { defined } from '../../cni/json.ts'
import type { NetConf } from '../../config/net-conf.ts'
import { isInPodAlone } from '../../drivers/drivers.ts'
import { hostPortsOf, reservationName } from '../../features/host-ports.ts'
import type { AttachmentKey } from '../../model/attachment.ts'
import { hostLinkName, keyOfHostLink } from '../../model/names.ts'
import { emptyNamespace, type ObservedLink, type ObservedNamespace, type ObservedTable } from '../../model/observed.ts'
import { forwardingKey } from '../../model/op.ts'
import { isPlaced, type SeenPod, seenAttachment, seenNetwork } from '../../plan/recovery/from-kernel.ts'
import { portNamesTo } from '../../plan/recovery/orphan-elements.ts'
import { merged, type Rediscovered } from '../../plan/recovery/verdicts.ts'
import { type CachedAttachment, isMainOurs, mappingsOf, podIpsOf } from '../../plan/upstream/libcni-cache.ts'
import { networkFiles } from '../../system/files/state.ts'
import { linkExists, linkNames, readKey } from '../../system/kernel/kernel-files.ts'
import { closeNetns, identityOfNetns, netnsPaths, netnsState } from '../../system/kernel/netns.ts'
import { observeHost, observePod, observeTables } from '../../system/kernel/observe.ts'
import { allRecords, findRecords, knownNetwork, recordsOf } from '../../system/store/records.ts'
import { cachedAttachments } from '../../system/upstream/read-libcni-cache.ts'
import { type CallContext, openIfThere } from '../call/context.ts'

/** What is looked for. */
export interface Search {
  /** Which attachments, of those that no record speaks of; absent: all. */
  readonly isMeant?: (key: AttachmentKey) => boolean
  /** The links to look at; absent: all that may be ours. */
  readonly links?: readonly string[]
  /** The configuration of a network whose pods libcni may remember. */
  readonly remembered?: NetConf
  /** What the caller knows: the prevResult of a DEL. */
  readonly named?: readonly Rediscovered[]
}

/**
 * `unsure`: attachments that live, as their links tell, and whose pods could not be looked at. `unnamed`: pods whose
 * link has lost its alias, of the network of `remembered`: their container id is the link's name.
 */
export interface Rediscovery {
  readonly found: readonly Rediscovered[]
  readonly unsure: readonly AttachmentKey[]
  readonly unnamed: readonly Rediscovered[]
}

/** The names that hostLinkName gives. */
export const hostLinkPattern = /^veth[0-9a-f]{11}$/

/** Reads it; nothing is changed. No process where every link has a good record, and nothing was told. */
export async function rediscover(context: CallContext, search: Search): Promise<Rediscovery> {
  const { all, host } = await linksWithoutRecord(context, search)
  const links = all.filter(({ isNamed }) => isNamed)
  const pods = await podsBehind(context, all)
  const unsure = links.filter(({ key }) => !pods.some((pod) => pod.key === key)).map(({ key }) => key)
  const isNamed = ({ key }: Rediscovered) => links.some((link) => link.key === key)
  const told = [...rememberedBy(search), ...(search.named ?? [])]
  if (pods.length + told.length === 0) return { found: [], unsure, unnamed: [] }
  const table = await observeTables(context.cleanup)
  const behind = search.links === undefined ? withSeen(pods, { host, table }) : pods
  const withPorts = (each: Rediscovered) => ({ ...each, ...freeParts(each, table) })
  return {
    found: merged([...behind.filter(isNamed), ...told]).map(withPorts),
    unsure,
    unnamed: behind.filter((pod) => !isNamed(pod)).map(withPorts),
  }
}

/** `host`: what was looked at for them. */
interface Unrecorded {
  readonly all: readonly LinkOf[]
  readonly host: ObservedNamespace
}

const nothing: Unrecorded = { all: [], host: emptyNamespace }

/** `isNamed`: its alias says whose it is. */
interface LinkOf {
  readonly isNamed: boolean
  readonly key: AttachmentKey
  readonly link: ObservedLink
}

async function linksWithoutRecord({ cleanup }: CallContext, search: Search): Promise<Unrecorded> {
  const names = search.links ?? linkNames().filter((name) => hostLinkPattern.test(name))
  if (names.length === 0) return nothing
  const records = allRecords()
  const linksOf = (stored: typeof records) => new Set(stored.map(({ record }) => hostLinkName(record.key)))
  const known = linksOf(records.filter(({ isPending, record }) => isPending || record.spec !== undefined))
  if (names.every((name) => known.has(name))) return nothing
  const host = await observeHost(cleanup, search.links)
  const recorded = linksOf(records)
  const all = [...host.links.values()].flatMap((link): readonly LinkOf[] => {
    const key = keyOfHostLink(link.name, link.alias)
    if (key !== undefined) return isSought(search, key) ? [{ key, link, isNamed: true }] : []
    const isOurs = hostLinkPattern.test(link.name) && link.alias === undefined && !recorded.has(link.name)
    if (!isOurs || search.remembered === undefined) return []
    const made = { network: search.remembered.name, containerId: link.name, ifName: 'unknown', role: 'main' } as const
    return [{ key: made, link, isNamed: false }]
  })
  return { all, host }
}

/** A record without a spec says whose it is and no more; one that a call works on is that call's. */
function isSought({ isMeant = () => true }: Search, key: AttachmentKey): boolean {
  const stored = findRecords(networkFiles(key.network), key)
  return isMeant(key) && stored.every(({ isPending, record }) => !isPending && record.spec === undefined)
}

/** What the other ends have, of those that are in a namespace which can be found. */
async function podsBehind(
  context: CallContext,
  links: readonly LinkOf[],
): Promise<readonly (Rediscovered & SeenPod)[]> {
  if (links.length === 0) return []
  const ids = links.flatMap(({ link }) => link.peerNetnsId ?? [])
  const paths = await netnsPaths(context.cleanup, ids)
  const found: (Rediscovered & SeenPod)[] = []
  for (const { key, link } of links) {
    const path = paths.get(link.peerNetnsId ?? -1)
    const pod =
      path === undefined ? undefined : await lookInto(context, path, { ifName: key.ifName, index: link.index })
    if (pod === undefined) continue
    const { end, identity: netns } = pod
    found.push({ key, netns, addresses: globalOf(end), ports: [], isCertain: true, link, end })
  }
  return found
}

/** With what the kernel shows of each, and of networks that nothing else is known of. */
function withSeen(
  pods: readonly (Rediscovered & SeenPod)[],
  { host, table }: { readonly host: ObservedNamespace; readonly table: ObservedTable },
): readonly Rediscovered[] {
  const isOn = (family: 4 | 6) => readKey(forwardingKey(family)) === '1'
  const around = { links: host.links, table, forwarded: ([4, 6] as const).filter(isOn) }
  const placed = pods.filter(isPlaced)
  const unknown = [...Map.groupBy(placed, ({ key }) => key.network)].filter(
    ([name]) => knownNetwork(networkFiles(name)) === undefined,
  )
  const networks = new Map(unknown.map(([name, members]) => [name, seenNetwork(name, members, around)]))
  return pods.map(({ link, end, ...each }) => {
    if (!isPlaced({ key: each.key, link, end })) return each
    const seen = seenAttachment({ key: each.key, link, end }, around)
    return { ...each, seen, ...defined({ network: networks.get(each.key.network) }) }
  })
}

/**
 * The link of a namespace whose other end has this index, `ifName` first; undefined where there is none, or it cannot
 * be looked at.
 */
async function lookInto(context: CallContext, path: string, { ifName, index }: { ifName: string; index: number }) {
  const netns = openIfThere(context, path)
  if (netns === undefined) return undefined
  try {
    const { links } = await observePod(context.cleanup, netns.fd)
    const end = [links.get(ifName), ...links.values()].find((link) => link?.peerIndex === index)
    return end && { end, identity: netns.identity }
  } catch (error) {
    process.stderr.write(`trestle: cannot tell what ${path} has: ${(error as Error).message}\n`)
    return undefined
  } finally {
    closeNetns(netns)
  }
}

function globalOf({ addresses }: ObservedLink): readonly string[] {
  return addresses.map(bareAddress).filter((address) => !address.startsWith('fe80:'))
}

/** Of other plugins it is theirs to tell (upstream-leases.ts, `trestle adopt`). */
function rememberedBy(search: Search): readonly Rediscovered[] {
  const { remembered } = search
  if (remembered === undefined) return []
  const ours = cachedAttachments(remembered.name).filter((cached) => isMainOurs(cached, remembered))
  return ours.flatMap((cached) => {
    const { network, containerId, ifName } = cached
    const key = { network, containerId, ifName, role: 'main' } as const
    const netns = identityOfNetns(cached.netns)
    // Without its link it has no network any more: libcni forgets a pod only after its DEL, which may have been just
    // now. What is in the pod alone has no link: there libcni's word has to do.
    const isLive = netnsState(netns) === 'live' && (isInPodAlone(remembered) || linkExists(hostLinkName(key)))
    return isLive && isSought(search, key) ? [{ key, netns, ...cachedParts(cached), isCertain: true }] : []
  })
}

/** The addresses and host ports of an attachment by its result and what the runtime said of ports. */
export function cachedParts(
  cached: Pick<CachedAttachment, 'result' | 'ifName' | 'capabilityArgs'>,
): Pick<Rediscovered, 'addresses' | 'ports'> {
  const ips = podIpsOf(cached).map(({ address }) => ({ address }))
  const ports = mappingsOf(cached.capabilityArgs).flatMap((mapping) => hostPortsOf(mapping, ips))
  return { addresses: ips.map(({ address }) => bareAddress(address)), ports: ports.map(reservationName) }
}

/** Its addresses without those that a record has, and its host ports with those that lead to them. */
function freeParts({ key, addresses, ports }: Rediscovered, table: ObservedTable) {
  const free = addresses.filter((one) => !isUsed(key, one))
  return { addresses: free, ports: [...new Set([...ports, ...portNamesTo(table, free)])] }
}

/** Addresses that come from no pool are in no reservation, but in records. */
function isUsed(key: AttachmentKey, address: string): boolean {
  return recordsOf(networkFiles(key.network)).some(
    ({ record }) => record.spec?.ips.some((ip) => bareAddress(ip.address) === address) === true,
  )
}
