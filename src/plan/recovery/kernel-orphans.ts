// SPDX-License-Identifier: Apache-2.0
// Links and elements of ours that no record names: of killed calls, or of records that were lost.
// An end of a pair is there because the pod's is: such a pod may live, and so may whatever has no name of its own.

import { bareAddress, formatAddress, parseAddress } from '../../cni/model/address.ts'
import type { AttachmentKey } from '../model/attachment.ts'
import { hostLinkName, ifbName, isIfbName, isPodLinkName, keyOfHostLink, keyOfIfb } from '../model/names.ts'
import type { ObservedLink, ObservedTable } from '../model/observed.ts'
import type { AttachmentRecord } from '../model/record.ts'
import { namedIn } from '../rules/orphan-elements.ts'

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
export interface OrphanFacts {
  readonly links: ReadonlyMap<string, ObservedLink>
  readonly table: ObservedTable
  readonly records: readonly AttachmentRecord[]
  /** Addresses with a reservation: whoever judges those takes the elements with them. */
  readonly reserved: ReadonlySet<string>
}

/** What becomes of an orphan, and why. */
export interface OrphanVerdict {
  readonly orphan: Orphan
  readonly verdict: 'collect' | 'report'
  readonly why: string
}

/** Everything of ours that no record names. */
export function orphansOf({ links, table, records, reserved }: OrphanFacts): readonly Orphan[] {
  const known = new Set(records.flatMap(linksOf))
  const ofLinks = [...links.values()].flatMap((link) => (known.has(link.name) ? [] : orphanLink(link)))
  const recorded = new Set(
    records.flatMap(({ spec }) => spec?.ips.map(({ address }) => canonical(bareAddress(address))) ?? []),
  )
  const isKnown = (address: string) => recorded.has(canonical(address)) || reserved.has(address)
  const named = namedIn(table)
  const lost = [
    ...[...named.addresses].filter((address) => !isKnown(address)),
    ...[...named.links].filter((name) => !known.has(name) && !links.has(name)),
  ]
  return [...ofLinks, ...lost.map((name): Orphan => ({ kind: 'elements', name }))]
}

/** Whether a pod without a record may live: its end of a pair of ours is there. */
export function hasPodWithoutRecord(orphans: readonly Orphan[]): boolean {
  return orphans.some((orphan) => isHostLink(orphan) || isUnnamedHostLink(orphan))
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
  const say = (verdict: OrphanVerdict['verdict'], why: string): OrphanVerdict => ({ orphan, verdict, why })
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

function canonical(address: string): string {
  const parsed = parseAddress(address)
  return parsed === undefined ? address : formatAddress(parsed)
}
