// SPDX-License-Identifier: Apache-2.0
// What a live pod has is written again. Looks at attachments without a record that can be read: the aliases of links,
// the pods' ends of them, our tables and libcni's cache tell what they have. What is missing of that, and of the
// reservations that records have, is written: a record, reservations, and what is told of rules and network.
// What another attachment has reserved is nobody's to take. Rare, so that it may take a process for each pod.

import { existsSync } from 'node:fs'
import { bareAddress, bitsOf, familyOf } from '../../cni/address.ts'
import { defined } from '../../cni/json.ts'
import type { NetConf } from '../../config/net-conf.ts'
import { isInPodAlone } from '../../drivers/drivers.ts'
import { hostPortsOf, reservationName } from '../../features/host-ports.ts'
import type { AttachmentKey } from '../../model/attachment.ts'
import { hostLinkName, keyOfHostLink } from '../../model/names.ts'
import { emptyNamespace, type ObservedLink, type ObservedNamespace, type ObservedTable } from '../../model/observed.ts'
import { forwardingKey, mainTable } from '../../model/op.ts'
import type { AttachmentRecord } from '../../model/record.ts'
import { toldOf } from '../../plan/recovery/from-cache.ts'
import {
  addressesIn,
  gatewaysOf,
  isGlobal,
  isPlaced,
  portNamesTo,
  type SeenPod,
  seenAttachment,
  seenNetwork,
} from '../../plan/recovery/from-kernel.ts'
import { lackingPrefixes, type PartlyKnown, withTold } from '../../plan/recovery/pod-addresses.ts'
import {
  merged,
  type Rediscovered,
  type Reservation,
  recordReservations,
  rediscoveredReservations,
  reservationText,
} from '../../plan/recovery/verdicts.ts'
import {
  type CachedAttachment,
  hasOurPorts,
  isLeaseOurs,
  isMainOurs,
  mappingsOf,
  podIpsOf,
} from '../../plan/upstream/libcni-cache.ts'
import { createText, type NamesIn, namesIn, readText } from '../../system/files/files.ts'
import {
  directoryNameOf,
  type NetworkFiles,
  networkDirectories,
  networkFiles,
  networkParts,
} from '../../system/files/state.ts'
import { hostStateOf } from '../../system/kernel/host-namespace.ts'
import { linkExists, linkNames, readKey } from '../../system/kernel/kernel-files.ts'
import { closeNetns, identityOfNetns, netnsPaths, netnsState } from '../../system/kernel/netns.ts'
import { observeHost, observeNeighbours, observePod, observeTables } from '../../system/kernel/observe.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { withLock } from '../../system/store/lock.ts'
import {
  allRecords,
  findFinished,
  findRecords,
  forgetUnreadable,
  knownNetwork,
  readNetwork,
  writeFinished,
  writeNetwork,
} from '../../system/store/records.ts'
import {
  intentReservedBy,
  isReserved,
  reservationFile,
  reservationHolder,
  reserveAgain,
} from '../../system/store/reservations.ts'
import { cachedAttachment, cachedAttachments, isOfThisBoot } from '../../system/upstream/read-libcni-cache.ts'
import { withoutSpec } from '../call/attachment-records.ts'
import { type CallContext, contextOfLooks, openIfThere } from '../call/context.ts'
import { attachmentLock } from '../call/locks.ts'

// When: calls that do not look as a rule count names of files and links.

/**
 * An ADD that is to reserve something. `perPod`: how many addresses of the pool each pod of the network has; `names`:
 * what it has looked at by now.
 */
interface Reserving {
  readonly files: NetworkFiles
  readonly conf: NetConf
  readonly perPod: number
  readonly names: NamesIn
}

/**
 * Before an ADD reserves anything: where records or reservations are missing, what live pods have is theirs again.
 * Nothing is read but the names of files and links where none is. Resolves to whether anything was. Throws what keeps
 * it from looking.
 */
export async function healBeforeAdd(context: CallContext, reserving: Reserving): Promise<boolean> {
  const { files, conf, names } = reserving
  const isFirst = !existsSync({ main: files.network, chained: files.attachments, ipam: files.addresses }[conf.role])
  const links = conf.role === 'main' ? countHostLinks(names) : 0
  const hasMissingReservations = hasTooFewReservations(reserving)
  // What cannot be read is set aside with that, and no record any more.
  if (hasMissingReservations) allRecords()
  const hasMissingRecords = isFirst || hasFewerRecords(links, hasMissingReservations ? namesIn : names)
  if (hasMissingRecords) await heal(contextOfLooks(context), conf)
  else if (hasMissingReservations) await mendAll(missingOfRecords(contextOfLooks(context)))
  return hasMissingRecords || hasMissingReservations
}

/**
 * The same before all rules are built anew by the records: what they do not tell of is not in the rules from then on.
 */
export async function healBeforeRules(context: CallContext): Promise<void> {
  if (hasFewerRecords(countHostLinks(namesIn), namesIn)) await heal(contextOfLooks(context))
}

/**
 * The record of an attachment that lives without one: written again first. An ADD of the same ids is refused then.
 */
export async function livingWithoutRecord(
  context: CallContext,
  { files, key, conf }: { files: NetworkFiles; key: AttachmentKey; conf: NetConf },
): Promise<AttachmentRecord | undefined> {
  if (key.role === 'main' && linkExists(hostLinkName(key))) {
    await heal(contextOfLooks(context), conf)
    return findFinished(files, key)
  }
  if (hasLinkOfOurs(conf) || !hasMoreReservations(files, conf)) return undefined
  const holder = intentReservedBy(key, directoryNameOf(files))
  return holder !== undefined && netnsState(holder.netns) === 'live' ? holder : undefined
}

/** Of others (macvlan, IPAM alone) nothing but the reservations tells that they live. */
function hasLinkOfOurs(conf: NetConf): boolean {
  return conf.role === 'chained' || (conf.role === 'main' && !isInPodAlone(conf))
}

/** Whether addresses are reserved that no record may have. */
function hasMoreReservations({ addresses, attachments, pending }: NetworkFiles, { ipam }: NetConf): boolean {
  if (ipam.kind !== 'pool') return false
  const owners = [...namesIn(attachments), ...namesIn(pending)].filter(isOwner)
  return namesIn(addresses).length > owners.length * ipam.rangeSets.length
}

/** The names that hostLinkName gives. */
const hostLinkPattern = /^veth[0-9a-f]{11}$/

function countHostLinks(names: NamesIn): number {
  return linkNames(names).filter((name) => hostLinkPattern.test(name)).length
}

/**
 * An intent record is written before its link is made, and goes after it, so that links are counted first. The caller's
 * own intent record has none yet. As far as counts tell: of a dead pod the link may be gone.
 */
function hasFewerRecords(links: number, names: NamesIn): boolean {
  if (links === 0) return false
  const isLinked = (name: string) => isOwner(name) && !name.endsWith(':ipam')
  const networks = networkDirectories(undefined, names)
  const finished = networks.flatMap(({ attachments }) =>
    names(attachments)
      .filter(isLinked)
      .map((name) => `${attachments}/${name}`),
  )
  const pending = networks.flatMap((each) => names(each.pending).filter(isLinked))
  return links >= pending.length + finished.length || isSomeCutShort(finished)
}

/** How many files an ADD looks into: those of a usual node within a few ADDs, at a cost that does not grow. */
const mostLookedInto = 8

/** Whether one of a few records, others with each call, is not whole: its name alone counts for a record. */
function isSomeCutShort(files: readonly string[]): boolean {
  const first = files.length > mostLookedInto ? process.pid % files.length : 0
  const some = [...files.slice(first), ...files.slice(0, first)].slice(0, mostLookedInto)
  return some.some((file) => {
    const found = readText(file)
    return found !== undefined && (found === 'unreadable' || !found.text.endsWith('}'))
  })
}

/**
 * An address is reserved before its record is finished, and given back after that. Pods with an address of no pool make
 * it look in vain.
 */
function hasTooFewReservations({ files, conf, perPod, names }: Reserving): boolean {
  if (perPod === 0) return false
  const isOfRole = (name: string) => name.endsWith(':ipam') === (conf.role === 'ipam')
  const finished = names(files.attachments).filter((name) => isOwner(name) && isOfRole(name))
  return finished.length * perPod > names(files.addresses).length
}

/** A chained attachment has neither link nor address of its own; a name with a dot is being written. */
function isOwner(name: string): boolean {
  return !name.startsWith('.') && !name.endsWith(':chained')
}

// The look.

/**
 * `unsure`: attachments that live, as their links tell, and whose addresses nothing tells. `unnamed`: pods whose
 * link has lost its alias, of the network of `remembered`: their container id is the link's name. `unowned`: what
 * elements lead to of pods of which nothing tells an address.
 */
interface Rediscovery {
  readonly found: readonly Rediscovered[]
  readonly unsure: readonly AttachmentKey[]
  readonly unnamed: readonly Rediscovered[]
  readonly unowned: readonly Reservation[]
}

/**
 * Reads it; nothing is changed. No process where every link has a good record, and libcni remembers no other pod.
 * `remembered`: the configuration of a network whose pods libcni may remember.
 */
export async function rediscover(context: CallContext, remembered?: NetConf): Promise<Rediscovery> {
  const { host, pods, unsure, ...looked } = await podsWithoutRecord(context, remembered)
  const told = remembered === undefined ? [] : rememberedBy(remembered)
  if (pods.length + told.length === 0) return { found: [], unsure, unnamed: [], unowned: [] }
  const table = looked.table ?? (await observeTables(context.cleanup))
  const seen = withSeen(pods, { host, table })
  // What leads to a leased address is for the chained part to tell.
  const withPorts = (each: Rediscovered) =>
    each.key.role === 'ipam' ? each : { ...each, ports: withPortsTo(table, each) }
  const found = merged([...seen.filter((_, at) => pods[at]?.isNamed), ...told]).map(withPorts)
  const unnamed = seen.filter((_, at) => !pods[at]?.isNamed).map(withPorts)
  const owned = new Set([...found, ...unnamed].flatMap(({ addresses }) => addresses))
  const unowned = pods.flatMap(({ key, netns, lacking }) => {
    const addresses = addressesIn(table, lacking).filter((address) => !owned.has(address))
    return rediscoveredReservations({ key, netns, addresses, ports: portNamesTo(table, addresses) })
  })
  return { found, unsure, unnamed, unowned }
}

/** Its host ports, with those that our tables lead to its addresses. */
export function withPortsTo(
  table: ObservedTable,
  { addresses, ports }: Pick<Rediscovered, 'addresses' | 'ports'>,
): readonly string[] {
  return [...new Set([...ports, ...portNamesTo(table, addresses)])]
}

/**
 * A link that no good record speaks of, and the pod behind it. `isNamed`: the link's alias says whose it is; `lacking`:
 * the prefixes of its network in which nothing tells its address.
 */
type PodWithoutRecord = Rediscovered & SeenPod & { readonly isNamed: boolean; readonly lacking: readonly string[] }

/**
 * The pods behind such links. `links`: those to look at; absent: all that may be ours; `host` and `table`: what was
 * looked at.
 */
export async function podsWithoutRecord(
  context: CallContext,
  remembered?: NetConf,
  links?: readonly string[],
): Promise<LookedAt> {
  const { all, host } = await linksWithoutRecord(context, { remembered, links })
  if (all.length === 0) return { host, pods: [], unsure: [] }
  const table = await observeTables(context.cleanup)
  const pods = await podsBehind(context, all, { host, table, remembered })
  const isSeen = ({ link }: LinkOf) =>
    pods.some(({ lacking, ...pod }) => pod.link === link && pod.addresses.length > 0 && lacking.length === 0)
  return { host, table, pods, unsure: all.filter((each) => each.isNamed && !isSeen(each)).map(({ key }) => key) }
}

interface LookedAt {
  readonly host: ObservedNamespace
  readonly table?: ObservedTable
  readonly pods: readonly PodWithoutRecord[]
  readonly unsure: readonly AttachmentKey[]
}

type LinkOf = Pick<PodWithoutRecord, 'key' | 'link' | 'isNamed'>

interface Unrecorded {
  readonly all: readonly LinkOf[]
  readonly host: ObservedNamespace
}

async function linksWithoutRecord(
  { cleanup }: CallContext,
  { remembered, links }: { readonly remembered: NetConf | undefined; readonly links: readonly string[] | undefined },
): Promise<Unrecorded> {
  const names = links ?? linkNames().filter((name) => hostLinkPattern.test(name))
  const records = allRecords()
  const linksOf = (stored: typeof records) => new Set(stored.map(({ record }) => hostLinkName(record.key)))
  const known = linksOf(records.filter(({ isPending, record }) => isPending || record.spec !== undefined))
  if (names.every((name) => known.has(name))) return { all: [], host: emptyNamespace }
  // All of them: a pod's link is on a bridge that has the gateways.
  const host = await observeHost(cleanup)
  const recorded = linksOf(records)
  const asked = new Set(names)
  const all = [...host.links.values()].flatMap((link): readonly LinkOf[] => {
    if (!asked.has(link.name)) return []
    const key = keyOfHostLink(link.name, link.alias)
    if (key !== undefined) return isWithoutRecord(key) ? [{ key, link, isNamed: true }] : []
    const isOurs = hostLinkPattern.test(link.name) && link.alias === undefined && !recorded.has(link.name)
    if (!isOurs || remembered === undefined) return []
    const made = { network: remembered.name, containerId: link.name, ifName: 'unknown', role: 'main' } as const
    return [{ key: made, link, isNamed: false }]
  })
  return { all, host }
}

/** A record without a spec says whose it is and no more; one that a call works on is that call's. */
function isWithoutRecord(key: AttachmentKey): boolean {
  return findRecords(networkFiles(key.network), key).every(
    ({ isPending, record }) => !isPending && record.spec === undefined,
  )
}

/** What pods are looked at by: links and tables of the host, and the configuration of the call. */
interface Around {
  readonly host: ObservedNamespace
  readonly table: ObservedTable
  readonly remembered: NetConf | undefined
}

/** What the other ends have, of those that are in a namespace which can be found. */
async function podsBehind(
  context: CallContext,
  links: readonly LinkOf[],
  around: Around,
): Promise<readonly PodWithoutRecord[]> {
  if (links.length === 0) return []
  const ids = links.flatMap(({ link }) => link.peerNetnsId ?? [])
  const paths = await netnsPaths(context.cleanup, ids)
  const found: (PartlyKnown & LinkOf & Pick<Rediscovered, 'netns'>)[] = []
  for (const each of links) {
    const { key, link } = each
    const path = paths.get(link.peerNetnsId ?? -1)
    const pod = path === undefined ? undefined : await lookInto(context, path, { ...key, index: link.index })
    if (pod === undefined) continue
    const prefixes = [...gatewaysOf(link, around.host.links), ...rangesOf(key, around.remembered)]
    const known = await ownAddresses(context, { key, link, end: pod.end }, prefixes)
    found.push({ ...each, ...pod, prefixes, known })
  }
  const isLacking = found.some((pod) => lackingPrefixes(pod).length > 0)
  const seen = isLacking ? await observeNeighbours(context.cleanup) : { neighbours: new Map(), learned: new Map() }
  return withTold(found, { table: around.table, ...seen }).map(({ beside: _, prefixes, known, end, ...pod }) => {
    const lacking = lackingPrefixes({ known, prefixes })
    return { ...pod, end: { ...end, addresses: known }, addresses: known.map(bareAddress), ports: [], lacking }
  })
}

function rangesOf({ network }: AttachmentKey, conf: NetConf | undefined): readonly string[] {
  return conf?.name === network && conf.ipam.kind === 'pool'
    ? conf.ipam.rangeSets.flat().map(({ subnet }) => subnet)
    : []
}

/** gVisor and KubeVirt take the addresses off the pod's end: the host's routes over its link and libcni tell them. */
async function ownAddresses(
  context: CallContext,
  { key, link, end }: SeenPod,
  prefixes: readonly string[],
): Promise<readonly string[]> {
  const own = end.addresses.filter(isGlobal)
  if (own.length > 0 && lackingPrefixes({ known: own, prefixes }).length === 0) return own
  const routed = link.master === undefined ? await routedOver(context, link) : []
  const cached = cachedAttachment(key)
  const told = cached === undefined ? [] : podIpsOf(cached).map(({ address }) => address)
  // libcni knows the prefix length, which a route does not tell.
  const all = new Map([...routed, ...told, ...own].map((cidr) => [bareAddress(cidr), cidr]))
  return [...all.values()]
}

/** The single addresses that the host routes over a link, which has gateways of its own. One process. */
async function routedOver({ cleanup }: CallContext, { name, addresses }: ObservedLink): Promise<readonly string[]> {
  const asked = (['0.0.0.0/0', '::/0'] as const).map((all) => ['root', all, 'dev', name] as const)
  const { routes } = await observeHost(cleanup, [], asked)
  const routed = (routes.get(mainTable) ?? []).map(({ dst }) => dst)
  return routed.filter((dst) => dst.endsWith(`/${bitsOf(familyOf(dst))}`) && !addresses.includes(dst))
}

/** With what libcni's cache tells of each, else what the kernel shows, and of networks that nothing else is known of. */
function withSeen(
  pods: readonly PodWithoutRecord[],
  { host, table }: { readonly host: ObservedNamespace; readonly table: ObservedTable },
): readonly Rediscovered[] {
  const isOn = (family: 4 | 6) => readKey(forwardingKey(family)) === '1'
  const around = { links: host.links, table, forwarded: ([4, 6] as const).filter(isOn) }
  const unknown = [...Map.groupBy(pods.filter(isPlaced), ({ key }) => key.network)].filter(
    ([name]) => knownNetwork(networkFiles(name)) === undefined,
  )
  const networks = new Map(unknown.map(([name, members]) => [name, seenNetwork(name, members, around)]))
  return pods.map((pod) => {
    const { key, netns, addresses } = pod
    const cached = cachedAttachment(key)
    const told = cached && toldOf(cached, { key, mtu: pod.link.mtu, links: host.links, machineId: machineId() })
    const ports = (told?.spec.hostPorts?.ports ?? []).map(reservationName)
    if (told === undefined && !isPlaced(pod)) return { key, netns, addresses, ports }
    const { spec: seen = seenAttachment(pod, around), network = networks.get(key.network) } = told ?? {}
    return { key, netns, addresses, ports, seen, ...defined({ network }) }
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
    // A link without an end elsewhere is one that the pod has made for itself.
    const inside = [...links.values()].filter((link) => link !== end && link.peerNetnsId === undefined)
    const beside = inside.flatMap(({ addresses }) => addresses.map(bareAddress))
    return end && { end, beside, netns: netns.identity }
  } catch (error) {
    process.stderr.write(`trestle: cannot tell what ${path} has: ${(error as Error).message}\n`)
    return undefined
  } finally {
    closeNetns(netns)
  }
}

/** Of other plugins it is theirs to tell (host-local-leases.ts, `trestle adopt`). */
function rememberedBy(conf: NetConf): readonly Rediscovered[] {
  const { role } = conf
  const isOurs = { main: isMainOurs, chained: hasOurPorts, ipam: isLeaseOurs }[role]
  const ours = cachedAttachments(conf.name).filter((cached) => isOurs(cached, conf))
  return ours.flatMap((cached) => {
    const { network, containerId, ifName } = cached
    const key = { network, containerId, ifName, role } as const
    const netns = identityOfNetns(cached.netns)
    const isLive = netnsState(netns) === 'live' && isAttached(key, conf)
    const { addresses, ports } = cachedParts(cached)
    return isLive && isWithoutRecord(key) ? [{ key, netns, addresses, ports: role === 'ipam' ? [] : ports }] : []
  })
}

/**
 * Without its link it has no network any more: libcni forgets a pod only after its DEL, which may have been just now.
 * What is in the pod alone, or part of another plugin's interface, has no link of ours: there libcni's word since the
 * machine started has to do.
 */
function isAttached(key: AttachmentKey, remembered: NetConf | undefined): boolean {
  const hasNoLink = key.role !== 'main' || (remembered?.name === key.network && isInPodAlone(remembered))
  return hasNoLink ? isOfThisBoot(key) : linkExists(hostLinkName(key))
}

/** The addresses and host ports of an attachment by its result and what the runtime said of ports. */
export function cachedParts(
  cached: Pick<CachedAttachment, 'result' | 'ifName' | 'capabilityArgs'>,
): Pick<Rediscovered, 'addresses' | 'ports'> {
  const ips = podIpsOf(cached).map(({ address }) => ({ address }))
  const ports = mappingsOf(cached.capabilityArgs).flatMap((mapping) => hostPortsOf(mapping, ips))
  return { addresses: ips.map(({ address }) => bareAddress(address)), ports: ports.map(reservationName) }
}

// What is missing, and how it is written again.

/** Something that is not as records or the kernel say. */
interface MissingState {
  readonly text: string
  readonly mend: () => Promise<void>
}

/** Writes again what is missing of attachments, but not what networks share: that is for who sets it up. */
export async function heal(context: CallContext, remembered?: NetConf): Promise<void> {
  await mendAll(await missingOfAttachments(context, remembered))
}

/** What is missing or cannot be read, also of what networks share. One process, and more where a pod has no record. */
export async function missingState(context: CallContext): Promise<readonly MissingState[]> {
  return [...networkParts().flatMap(missingOfNetwork), ...(await missingOfAttachments(context))]
}

async function mendAll(missing: readonly MissingState[]): Promise<void> {
  for (const { mend } of missing) await mend()
}

async function missingOfAttachments(context: CallContext, remembered?: NetConf): Promise<readonly MissingState[]> {
  const ofRecords = missingOfRecords(context)
  const { found, unnamed, unowned } = await rediscover(context, remembered)
  return [
    ...ofRecords,
    ...found.flatMap((each) => missingOfFound(context, each, remembered)),
    // Nobody knows its ids, so that it gets no record: what it has is not given to others.
    ...unnamed.map((each) => ({
      text: `link ${each.key.containerId} has no alias`,
      mend: () => reserveFound(context, each),
    })),
    // Of which pod is unknown: taken by what cannot be read, until that pod's DEL or no such pod is left.
    ...unowned
      .filter((each) => !isReserved(each))
      .map((each) => ({
        text: `the reservation of ${reservationText(each)} is missing`,
        mend: async () => void createText(reservationFile(each), 'a live pod without a record'),
      })),
  ]
}

function missingOfNetwork(files: NetworkFiles): readonly MissingState[] {
  if (readNetwork(files) !== undefined) return []
  const network = knownNetwork(files)
  if (network === undefined) return []
  return [{ text: `${files.network} is missing`, mend: async () => writeNetwork(files, network) }]
}

/** Reservations of the attachments of this host. */
function missingOfRecords(context: CallContext): readonly MissingState[] {
  const isOfThisHost = ({ writer }: AttachmentRecord) => hostStateOf(writer, context.identity) === 'here'
  const records = allRecords().filter(({ isPending, record }) => !isPending && isOfThisHost(record))
  return records.flatMap(({ record }) => missingOfRecord(context, record))
}

function missingOfRecord(context: CallContext, record: AttachmentRecord): readonly MissingState[] {
  const reserved = recordReservations(record).filter(
    ({ network }) => network === undefined || record.key.role !== 'chained',
  )
  const isStill = () => {
    const now = findRecords(networkFiles(record.key.network), record.key).find(({ isPending }) => !isPending)?.record
    return now?.createdAt === record.createdAt
  }
  return reserved.filter(isNobodys).map((reservation) => ({
    text: `the reservation of ${reservationText(reservation)} is missing`,
    mend: () => reserve(context, { reservation, record, isStill }),
  }))
}

/**
 * One whose record was lost has a record without a spec from then on, as of another format, with what is told of
 * it: its rules are built again by that, and DEL finds the rest by names.
 */
function missingOfFound(
  context: CallContext,
  found: Rediscovered,
  remembered: NetConf | undefined,
): readonly MissingState[] {
  const { key, netns, seen, network } = found
  const files = networkFiles(key.network)
  const isRecorded = () => findRecords(files, key).length > 0
  const reserved = rediscoveredReservations(found)
  const isMissing = !isRecorded() || reserved.some(isNobodys)
  // What has been seen of it before is in its record (missingOfRecord).
  if (!isMissing || (findFinished(files, key)?.seen?.ips ?? []).length > 0) return []
  const mend = async () => {
    const lock = { ...attachmentLock(context, key, 'write its record again'), waitMs: removalWaitMs }
    await withLock(lock, async () => {
      // Its DEL may be over by now, or a new ADD under way.
      if (!isAttached(key, remembered) || findRecords(files, key).some(({ isPending }) => isPending)) return
      const record = withoutSpec(context, key, netns)
      for (const reservation of reserved) await reserve(context, { reservation, record, isStill: () => true })
      if (isRecorded()) return
      writeFinished(files, { ...record, ...defined({ seen, network }) })
      if (network !== undefined && readNetwork(files) === undefined) writeNetwork(files, network)
      forgetUnreadable(files, key)
    }).catch((error: Error) => {
      process.stderr.write(
        `trestle: ${key.ifName} of container ${key.containerId} stays without a record: ${error.message}\n`,
      )
    })
  }
  return [
    { text: `the record of ${key.ifName} of container ${key.containerId} (network ${key.network}) is missing`, mend },
  ]
}

/** Whose removal keeps an attachment's lock for longer is not waited for: its link is about to go. */
const removalWaitMs = 1000

/** Reserves what was rediscovered. `isStill`: whether the attachment still has what is reserved under a name. */
export async function reserveFound(
  context: CallContext,
  found: Rediscovered,
  isStill: (reservation: Reservation) => boolean = () => true,
): Promise<void> {
  const record = withoutSpec(context, found.key, found.netns)
  for (const reservation of rediscoveredReservations(found)) {
    await reserve(context, { reservation, record, isStill: () => isStill(reservation) })
  }
}

/** No lock is asked for where it is somebody's. */
async function reserve(
  { identity, whole }: CallContext,
  { reservation, record, isStill }: { reservation: Reservation; record: AttachmentRecord; isStill: () => boolean },
): Promise<void> {
  if (!isNobodys(reservation)) return
  const isFree = () => isStill() && isNobodys(reservation)
  await reserveAgain({ reservation, record, owner: identity, deadline: whole }, isFree)
}

/** Whether it is missing, cannot be read, or names an attachment whose record has others. */
function isNobodys(reservation: Reservation): boolean {
  const holder = reservationHolder(reservation)
  if (holder === undefined) return true
  const stored = findRecords(networkFiles(holder.key.network), holder.key)
  const has = (record: AttachmentRecord) =>
    record.spec === undefined || recordReservations(record).some(({ name }) => name === reservation.name)
  return stored.length > 0 && !stored.some(({ isPending, record }) => isPending || has(record))
}
