// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of pods whose state was removed: the alias of a link says whose it is, the other end of the pair
// which addresses the pod has, our table which host ports lead there. Rare, so that it may take a process for each pod.

import { existsSync } from 'node:fs'
import { bareAddress } from '../cni/address.ts'
import type { AttachmentKey } from '../plan/attachment.ts'
import { hostLinkName, keyOfHostLink, networkDirName } from '../plan/names.ts'
import type { ObservedLink } from '../plan/observed.ts'
import type { AttachmentRecord, NetnsStamp } from '../plan/record.ts'
import { portNamesTo } from '../plan/stale-elements.ts'
import type { Reservation } from '../plan/strays.ts'
import { createText } from '../system/files.ts'
import { linkExists, linkNames } from '../system/kernel-files.ts'
import { closeNetns } from '../system/netns.ts'
import { netnsPaths } from '../system/netns-ids.ts'
import { observeHost, observePod, observeTable } from '../system/observe.ts'
import { findRecords, recordsOf } from '../system/records.ts'
import { reservationFile } from '../system/reservations.ts'
import { networkFiles } from '../system/state.ts'
import { type CallContext, openIfThere } from './context.ts'

/** A pod that no record speaks of. */
interface FoundPod {
  readonly key: AttachmentKey
  readonly netns: NetnsStamp
  readonly addresses: readonly string[]
}

/** As hostLinkName has them. */
const hostLinkPattern = /^veth[0-9a-f]{11}$/

/**
 * Reserves what live pods have, of networks that nothing is known of. No process where there is no link that may be one
 * of theirs.
 */
export async function recallLinked(context: CallContext): Promise<void> {
  if (!linkNames().some((name) => hostLinkPattern.test(name))) return
  const links = [...(await observeHost(context.run)).links.values()]
  const lost = links.flatMap((link) => {
    const key = keyOfHostLink(link.name, link.alias)
    return key !== undefined && isUnknown(key) ? [{ key, link }] : []
  })
  if (lost.length > 0) await reserve(context, await podsBehind(context, lost))
}

/**
 * The same of one attachment without a record, for its DEL: what is reserved for it goes with it;
 * where the link is gone, host ports may still lead to `addresses`.
 */
export async function recallOne(context: CallContext, key: AttachmentKey, addresses: readonly string[]): Promise<void> {
  const name = hostLinkName(key)
  const link = linkExists(name) ? (await observeHost(context.cleanup, [name])).links.get(name) : undefined
  const isOwn = link !== undefined && keyOfHostLink(name, link.alias) !== undefined
  const behind = isOwn ? await podsBehind(context, [{ key, link }]) : []
  const told = { key, netns: { path: '', inode: 0 }, addresses }
  await reserve(context, behind.length > 0 ? behind : [told])
}

function isUnknown(key: AttachmentKey): boolean {
  const files = networkFiles(key.network)
  return !existsSync(files.network) && findRecords(files, key).length === 0
}

/** What the other ends have, of those that are in a namespace which can be found. */
async function podsBehind(
  context: CallContext,
  lost: readonly { readonly key: AttachmentKey; readonly link: ObservedLink }[],
): Promise<readonly FoundPod[]> {
  const paths = await netnsPaths(
    context.cleanup,
    lost.flatMap(({ link }) => link.peerNetnsId ?? []),
  )
  const found: FoundPod[] = []
  for (const { key, link } of lost) {
    const path = paths.get(link.peerNetnsId ?? -1)
    const pod = path === undefined ? undefined : await lookInto(context, path, key.ifName)
    if (pod?.end.peerIndex === link.index) found.push({ key, netns: pod.stamp, addresses: globalOf(pod.end) })
  }
  return found
}

/** The link `ifName` of a namespace; undefined where there is none, or the namespace cannot be looked at. */
async function lookInto(context: CallContext, path: string, ifName: string) {
  const netns = openIfThere(context, path)
  if (netns === undefined) return undefined
  try {
    const end = (await observePod(context.cleanup, netns.fd)).links.get(ifName)
    return end && { end, stamp: netns.stamp }
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

/** Reserves what nobody has. An address alone is worth it only while the pod lives. */
async function reserve(context: CallContext, found: readonly FoundPod[]): Promise<void> {
  const wanting = found.map((pod) => ({ ...pod, addresses: pod.addresses.filter((each) => !isUsed(pod.key, each)) }))
  if (!wanting.some(({ addresses }) => addresses.length > 0)) return
  const table = await observeTable(context.cleanup, 'inet')
  for (const { key, netns, addresses } of wanting) {
    const ports = table === 'absent' ? [] : portNamesTo(table, addresses)
    if (netns.path === '' && ports.length === 0) continue
    const network = networkDirName(key.network)
    const createdAt = new Date().toISOString()
    const claim: AttachmentRecord = { format: 1, key, writer: context.stamp, netns, createdAt, configDigest: '' }
    const names: readonly Reservation[] = [...addresses.map((name) => ({ network, name })), ...ports.map(toPort)]
    for (const each of names) createText(reservationFile(each), JSON.stringify(claim))
  }
}

function toPort(name: string): Reservation {
  return { name }
}

/** Addresses that come from no pool are in no reservation, but in records. */
function isUsed(key: AttachmentKey, address: string): boolean {
  return recordsOf(networkFiles(key.network)).some(
    ({ record }) => record.spec?.ips.some((ip) => bareAddress(ip.address) === address) === true,
  )
}
