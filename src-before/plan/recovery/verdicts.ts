// SPDX-License-Identifier: Apache-2.0
// What becomes of attachments, reservations, links and rules that may be garbage, and what is known of attachments
// beyond their records. What no record and no live pod has is an orphan; what a pod may still use is reported.

import { bareAddress, canonicalAddress } from '../../cni/address.ts'
import { reservationName } from '../../features/host-ports.ts'
import type { AttachmentKey, AttachmentSpec, NetworkSpec } from '../../model/attachment.ts'
import {
  hostLinkName,
  ifbName,
  isIfbName,
  isPodLinkName,
  keyOfHostLink,
  keyOfIfb,
  networkDirName,
} from '../../model/names.ts'
import type { ObservedLink, ObservedTable } from '../../model/observed.ts'
import { type AttachmentRecord, knownSpec, type NetnsIdentity, sameKey } from '../../model/record.ts'
import { namedIn } from './from-kernel.ts'

/** A reserved address or host port. `network`: its directory's name; absent: a host port, which is the node's. */
export interface Reservation {
  readonly network?: string
  readonly name: string
}

/** What is known of a reservation. */
export interface ReservationFacts {
  readonly reservation: Reservation
  /** Some attachment's record has it. */
  readonly isClaimed: boolean
  /** Who the file says has it; undefined where it cannot be read. */
  readonly holder: AttachmentRecord | undefined
  /**
   * What there is of the holder: nothing, a call in progress, a pending cleanup, or a finished attachment that has it
   * not.
   */
  readonly holderHas: 'nothing' | 'pending' | 'others'
  /** The holder's namespace is gone or from before a restart. */
  readonly isHolderDead: boolean
  readonly isListed: boolean | undefined
  /** Whether it was made more than `youngestMs` ago. */
  readonly isOld: boolean
  /** Whether there may be attachments that no record is known of. */
  readonly mayBeOfUnknownPod: boolean
}

/** What becomes of it. */
interface Judged {
  readonly verdict: 'collect' | 'report' | 'keep'
  readonly why: string
}

export type ReservationVerdict = Pick<ReservationFacts, 'reservation' | 'holder'> & Judged

/** Decides about one reservation. */
export function judgeReservation(facts: ReservationFacts): ReservationVerdict {
  const { reservation, holder } = facts
  const say = (verdict: Judged['verdict'], why: string): ReservationVerdict => ({
    reservation,
    holder,
    verdict,
    why,
  })
  if (facts.isClaimed) return say('keep', 'its attachment has it')
  if (holder === undefined || facts.holderHas === 'others') {
    const what = holder === undefined ? 'it cannot be read' : 'the attachment it names has others'
    if (facts.mayBeOfUnknownPod) return say('report', `${what}, and a pod without a record may use it`)
    return facts.isOld ? say('collect', `${what}, and no attachment has it`) : say('keep', 'younger than five minutes')
  }
  if (facts.holderHas === 'pending') return say('keep', 'a call in progress has it')
  if (!facts.isHolderDead || facts.isListed) return say('report', 'the record of its attachment is lost')
  return facts.isOld
    ? say('collect', 'its pod is gone, and the record of it')
    : say('keep', 'younger than five minutes')
}

/** The names under which an attachment has addresses and host ports reserved; an intent record tells nothing. */
export function recordReservations(record: AttachmentRecord): readonly Reservation[] {
  const { key } = record
  const spec = knownSpec(record)
  if (spec === undefined) return []
  const network = networkDirName(key.network)
  const addresses = spec.ips.map(({ address }) => ({ network, name: bareAddress(address) }))
  return [...addresses, ...(spec.hostPorts?.ports ?? []).map((port) => ({ name: reservationName(port) }))]
}

/** A reservation in words. */
export function reservationText({ network, name }: Reservation): string {
  return network === undefined ? `host port ${name}` : `address ${name} of network ${network}`
}

// Links and elements of ours that no record names: of killed calls, or of records that were lost.
// An end of a pair is there because the pod's is: such a pod may live, and so may whatever has no name of its own.

/**
 * A link of the host, or what elements of our tables name: a link that is gone, or an address. `key`: whose it was, as
 * its alias tells.
 */
export interface Orphan {
  readonly kind: 'link' | 'elements'
  readonly name: string
  readonly key?: AttachmentKey
}

/** What there is. Links and tables are looked at before the records: an ADD writes its record first. */
interface OrphanFacts {
  readonly links: ReadonlyMap<string, ObservedLink>
  readonly table: ObservedTable
  readonly records: readonly AttachmentRecord[]
  /** Addresses with a reservation: whoever judges those takes the elements with them. */
  readonly reserved: ReadonlySet<string>
}

export type OrphanVerdict = { readonly orphan: Orphan } & Judged

/** Everything of ours that no record names. */
export function orphansOf({ links, table, records, reserved }: OrphanFacts): readonly Orphan[] {
  const known = new Set(records.flatMap(linksOf))
  const ofLinks = [...links.values()].flatMap((link) => (known.has(link.name) ? [] : orphanLink(link)))
  const recorded = new Set(
    records.flatMap(
      (record) => knownSpec(record)?.ips.map(({ address }) => canonicalAddress(bareAddress(address))) ?? [],
    ),
  )
  const isKnown = (address: string) => recorded.has(canonicalAddress(address)) || reserved.has(address)
  const named = namedIn(table)
  const lost = [
    ...[...named.addresses].filter((address) => !isKnown(address)),
    ...[...named.links].filter((name) => !known.has(name) && !links.has(name)),
  ]
  return [...ofLinks, ...lost.map((name): Orphan => ({ kind: 'elements', name }))]
}

/** Whether it is an end of a pair of ours: a pod without a record may live then. */
export function isLinkOfPod(orphan: Orphan): boolean {
  return isHostLink(orphan) || isUnnamedHostLink(orphan)
}

/**
 * Decides about one for `trestle gc`. `isListed`: by the runtime, where one was asked; `mayBeOfUnknownPod`: whether a
 * pod without a record may live.
 */
export function judgeOrphan(
  orphan: Orphan,
  facts: { links: ReadonlyMap<string, unknown>; isListed: boolean | undefined; mayBeOfUnknownPod: boolean },
): OrphanVerdict {
  const { kind, name, key } = orphan
  const say = (verdict: Judged['verdict'], why: string): OrphanVerdict => ({ orphan, verdict, why })
  if (kind === 'elements')
    return facts.mayBeOfUnknownPod
      ? say('report', 'no record has it, and a pod without a record may use it')
      : say('collect', 'no record has it')
  if (isUnnamedHostLink(orphan)) return say('report', 'no record names it, and it has lost its alias')
  if (key === undefined)
    return say('report', `no record names it, nor does it say whose it was; ip link del ${name} removes it`)
  if (isHostLink(orphan)) return say('report', 'no record names it, and the end in its pod exists')
  if (facts.isListed === true) return say('report', 'no record names it, and the runtime lists its container')
  const isBeside = key.role === 'main' ? !facts.links.has(hostLinkName(key)) : facts.isListed === false
  return isBeside
    ? say('collect', 'no record names it, and its pod is gone')
    : say('report', 'no record names it, and its pod may use it')
}

/** An orphan in words. */
export function orphanText({ kind, name, key }: Orphan): string {
  const whose =
    key === undefined ? '' : ` (network ${key.network}, container ${key.containerId.slice(0, 13)}, ${key.ifName})`
  return kind === 'link' ? `link ${name}${whose}` : `rules for ${name}`
}

function isHostLink({ kind, name, key }: Orphan): boolean {
  return kind === 'link' && key !== undefined && name === hostLinkName(key)
}

/** Of a pod's pair, whose alias was taken away. */
function isUnnamedHostLink({ kind, name, key }: Orphan): boolean {
  return kind === 'link' && key === undefined && !isIfbName(name)
}

function orphanLink({ name, alias }: ObservedLink): readonly Orphan[] {
  const key = keyOfHostLink(name, alias) ?? keyOfIfb(name, alias)
  if (key !== undefined) return [{ kind: 'link', name, key }]
  return isIfbName(name) || (isPodLinkName(name) && alias === undefined) ? [{ kind: 'link', name }] : []
}

function linksOf({ key, spec }: AttachmentRecord): readonly string[] {
  const made = [spec?.host?.name, spec?.bandwidth?.egress?.ifb].filter((name) => name !== undefined)
  return [hostLinkName(key), ifbName(key), ...made]
}

// What may be collected without the runtime asking (docs/design.md, "GC"): an attachment goes only when
// the runtime does not list it, its namespace is gone, and it is older than five minutes, since a
// sandbox being made is on no list yet. Everything doubtful stays and is reported.

/** Younger attachments may belong to a pod that the runtime is still making. */
export const youngestMs = 5 * 60 * 1000

/** What is known about one attachment. `isListed` is undefined where no runtime could be asked. */
export interface AttachmentFacts {
  readonly record: AttachmentRecord
  readonly netns: 'live' | 'gone' | 'unknown'
  /**
   * Whose network namespace it was made from: ours, another one that lives, or one that is over, as after a restart.
   */
  readonly host: 'here' | 'elsewhere' | 'ended'
  readonly isListed: boolean | undefined
  /** Whether more than `youngestMs` have passed since ADD; false where that cannot be told. */
  readonly isOld: boolean
}

export type AttachmentVerdict = Pick<AttachmentFacts, 'record'> & Judged

/** Decides about one attachment. */
export function judgeAttachment({ record, netns, host, isListed, isOld }: AttachmentFacts): AttachmentVerdict {
  const say = (verdict: Judged['verdict'], why: string): AttachmentVerdict => ({ record, verdict, why })
  const lease = leaseLeft(record)
  if (host === 'elsewhere') return say('report', 'it is of another host network namespace: run gc there')
  if (host === 'ended') return say('collect', `the machine was restarted since${lease}`)
  if (isListed === true) return say('keep', 'the runtime lists it')
  if (netns === 'live') {
    // A sandbox being made is on no list yet.
    if (isListed === false && !isOld) return say('keep', 'younger than five minutes')
    return isListed === undefined
      ? say('keep', 'its network namespace exists')
      : say('report', `the runtime does not list it, but its network namespace ${record.netns.path} exists`)
  }
  if (netns === 'unknown') return say('report', 'its network namespace cannot be seen from here, or a process holds it')
  if (!isOld) return say('keep', 'younger than five minutes')
  return say('collect', `${isListed === undefined ? 'its' : 'unlisted, and its'} network namespace is gone${lease}`)
}

/** Another plugin's lease needs a DEL or GC with the configuration, which only the runtime has. */
function leaseLeft({ delegatedIpam }: AttachmentRecord): string {
  return delegatedIpam === undefined ? '' : `; its lease stays with the IPAM plugin ${delegatedIpam}`
}

// What is known of attachments beyond their records: after state was removed or damaged, the links, the pods' ends of
// them, the tables, libcni's cache and prevResult tell it.

/**
 * An attachment without a record that can be read. `addresses` without prefix length; `ports`: names of reservations.
 */
export interface Rediscovered {
  readonly key: AttachmentKey
  /** `path` empty where its namespace was not found. */
  readonly netns: NetnsIdentity
  readonly addresses: readonly string[]
  readonly ports: readonly string[]
  /** What the kernel shows of it, and of its network (from-kernel.ts). */
  readonly seen?: AttachmentSpec
  readonly network?: NetworkSpec
}

/** One entry for each attachment, with what all sources tell; the first that tells counts. */
export function merged(found: readonly Rediscovered[]): readonly Rediscovered[] {
  const same = (key: AttachmentKey) => found.filter((other) => sameKey(other.key, key))
  return found
    .filter((each) => same(each.key)[0] === each)
    .map((each) => ({
      ...each,
      addresses: [...new Set(same(each.key).flatMap(({ addresses }) => addresses))],
      ports: [...new Set(same(each.key).flatMap(({ ports }) => ports))],
    }))
}

/** The names under which it has addresses and host ports reserved: a chained part has no addresses of its own. */
export function rediscoveredReservations({ key, addresses, ports }: Rediscovered): readonly Reservation[] {
  const network = networkDirName(key.network)
  const ownAddresses = key.role === 'chained' ? [] : addresses
  return [...ownAddresses.map((name) => ({ network, name })), ...ports.map((name) => ({ name }))]
}
