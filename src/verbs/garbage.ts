// SPDX-License-Identifier: Apache-2.0
// What runtimes left behind: attachments, reservations, links and rules, each judged by what may still use it. containerd
// never calls GC (go-cni has no caller for it). Whatever may be in use is reported and stays.

import { lstatSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CniError, Code } from '../cni/errors.ts'
import { attachmentDigest, hostLinkName, networkDigest, readAlias } from '../drivers/names.ts'
import type { AttachmentId } from '../drivers/spec.ts'
import { lookAtHost, lookAtTable } from '../kernel/look.ts'
import { netnsState } from '../kernel/netns.ts'
import type { Element } from '../kernel/nft-table.ts'
import type { ObservedLink } from '../kernel/observed.ts'
import { elementOps } from '../kernel/operation.ts'
import { linkExists } from '../kernel/proc.ts'
import { isOlder } from '../process/clock.ts'
import { stepsToRemove } from '../process/order.ts'
import { namesIn, readableText } from '../state/files.ts'
import { addressesDirectory, networkNames, portsDirectory } from '../state/layout.ts'
import {
  type AttachmentRecord,
  allRecords,
  decodeRecord,
  findFinished,
  findRecord,
  isDead,
  isOfEarlierBoot,
  knownNetworks,
} from '../state/records.ts'
import type { Context } from './context.ts'
import { detach, detachWithoutRecord } from './detach.ts'

/** What becomes of an attachment, a reservation, a link or elements, and why. */
export interface Judged {
  readonly part: 'attachments' | 'reservations' | 'orphans'
  readonly text: string
  readonly verdict: 'collect' | 'report' | 'keep'
  readonly why: string
  /** For -o json. */
  readonly document: object
  readonly remove?: (context: Context) => Promise<readonly CniError[]>
}

/** Container ids that runtimes list; undefined where none could be asked. */
export type Listed = ReadonlySet<string> | undefined

/** Changes nothing. Throws CniError 5 where namespaces cannot be told from plain files: every pod would look dead. */
export async function judgeAll({ machine }: Context, listed: Listed): Promise<readonly Judged[]> {
  // Links and rules are looked at before the records: an ADD writes its record first.
  const { links } = await lookAtHost(machine, 'all')
  const tables = await Promise.all([lookAtTable(machine, 'inet'), lookAtTable(machine, 'bridge')])
  const elements = tables.flatMap((table) => [...(table?.elements.values() ?? [])])
  const records = await settledRecords()
  return [
    ...records.map((record) => judgeAttachment(record, listed)),
    ...judgeReservations(listed),
    ...judgeLinks(links),
    ...judgeElements(elements, links, records),
  ]
}

/** A namespace that a runtime is just making or removing is a plain file for a moment. */
async function settledRecords(): Promise<readonly AttachmentRecord[]> {
  for (let looks = 1; ; looks++) {
    const records = allRecords().filter(({ id }) => findFinished(id) !== undefined)
    const unseen = records.filter(isUnseen)
    if (unseen.length === 0) return records
    if (looks < 10) {
      await sleep(100)
      continue
    }
    // Beside a namespace that is seen, a plain file is one that somebody left.
    const seen = new Set(records.filter(({ netns }) => netnsState(netns) === 'live').map(directoryOf))
    const hidden = unseen.find((record) => !seen.has(directoryOf(record)))
    if (hidden === undefined) return records
    const message = `cannot see network namespaces from here: ${hidden.netns.path}`
    throw new CniError(Code.ioFailure, 'netns-not-visible', message, {
      details: 'it is no namespace file in this mount namespace; run gc where the runtime runs (nsenter -t 1 -m)',
    })
  }
}

function isUnseen(record: AttachmentRecord): boolean {
  return record.netns.path !== '' && !isOfEarlierBoot(record) && netnsState(record.netns) === 'unknown'
}

/** Runtimes write /var/run/netns and /run/netns for one directory. */
function directoryOf({ netns }: AttachmentRecord): string {
  return dirname(netns.path).replace(/^\/var\/run\//, '/run/')
}

/** Younger attachments may belong to a pod that the runtime is still making. */
const youngestMs = 5 * 60 * 1000
const young = 'younger than five minutes'

function judgeAttachment(record: AttachmentRecord, listed: Listed): Judged {
  const { id, pod, netns, writer, createdAt, delegated } = record
  // CRI lists sandboxes, whose ids have 64 digits: of containers of ctr, nerdctl or a person it says nothing.
  const isListed = /^[\da-f]{64}$/.test(id.containerId) ? listed?.has(id.containerId) : undefined
  const isOld = isOlder(writer, Date.parse(createdAt), youngestMs)
  const lease = delegated === undefined ? '' : `; its lease stays with the IPAM plugin ${delegated.type}`
  const say = (verdict: Judged['verdict'], why: string): Judged => ({
    part: 'attachments',
    text: `${id.network}  ${id.containerId.slice(0, 13)}  ${id.ifName}${pod ? ` (${pod.namespace}/${pod.name})` : ''}`,
    verdict,
    why,
    document: { ...id, pod },
    remove: (context) => detach(record, context),
  })
  if (isOfEarlierBoot(record)) return say('collect', `the machine was restarted since${lease}`)
  if (isListed) return say('keep', 'the runtime lists it')
  if (netnsState(netns) === 'live') {
    if (isListed === undefined) return say('keep', 'its network namespace exists')
    if (!isOld) return say('keep', young)
    return say('report', `the runtime does not list it, but its network namespace ${netns.path} exists`)
  }
  if (netns.path === '' && !isDead(record)) return say('keep', 'found again by its link, which is there')
  if (!isDead(record)) return say('report', 'its network namespace cannot be seen from here, or a process holds it')
  if (!isOld) return say('keep', young)
  return say('collect', `${isListed === undefined ? 'its' : 'unlisted, and its'} network namespace is gone${lease}`)
}

/** Reservations whose attachment has no record. */
function judgeReservations(listed: Listed): readonly Judged[] {
  const directories = [
    ...networkNames().map((network) => ({ directory: addressesDirectory(network), of: ` of network ${network}` })),
    { directory: portsDirectory(), of: '' },
  ]
  return directories.flatMap(({ directory, of }) =>
    namesIn(directory)
      .filter((name) => !name.startsWith('.'))
      .flatMap((name) =>
        judgeReservation(`${directory}/${name}`, `${of ? 'address' : 'host port'} ${name}${of}`, listed),
      ),
  )
}

function judgeReservation(file: string, text: string, listed: Listed): readonly Judged[] {
  const holder = decodeRecord(readableText(file) ?? '')
  if (holder !== undefined && findRecord(holder.id) !== undefined) return []
  const say = (verdict: Judged['verdict'], why: string): readonly Judged[] => [
    {
      part: 'reservations',
      text,
      verdict,
      why,
      document: { name: text },
      remove: async (context) => (holder ? await detachWithoutRecord(holder.id, context) : []),
    },
  ]
  const writtenMs = lstatSync(file, { throwIfNoEntry: false })?.mtimeMs
  if (writtenMs === undefined) return []
  if (holder === undefined) return say('report', `it cannot be read: remove ${file} when no pod has it`)
  if (!isDead(holder) || listed?.has(holder.id.containerId))
    return say('report', 'the record of its attachment is lost')
  const isOld = isOfEarlierBoot(holder) || isOlder(holder.writer, Date.parse(holder.createdAt), youngestMs)
  return isOld ? say('collect', 'its pod is gone, and the record of it') : say('keep', young)
}

/** Links of ours that no record names. The host's end of a pair is there because the pod's is: such a pod may live. */
function judgeLinks(links: ReadonlyMap<string, ObservedLink>): readonly Judged[] {
  const judged: Judged[] = []
  for (const { name, alias, kind } of links.values()) {
    const id = readAlias(name, alias)?.id
    if (id === undefined || findRecord(id) !== undefined) continue
    const isEnd = kind === 'veth' || linkExists(hostLinkName(id))
    judged.push({
      part: 'orphans',
      text: `link ${name} (network ${id.network}, container ${id.containerId.slice(0, 13)}, ${id.ifName})`,
      verdict: isEnd ? 'report' : 'collect',
      why: `no record names it, and ${isEnd ? 'the end in its pod exists' : 'its pod is gone'}`,
      document: { kind: 'link', name, id },
      remove: (context) => detachWithoutRecord(id, context),
    })
  }
  return judged
}

/** Elements of pods, by their comments, whose attachment has neither record nor link. */
function judgeElements(
  elements: readonly Element[],
  links: ReadonlyMap<string, ObservedLink>,
  records: readonly AttachmentRecord[],
): readonly Judged[] {
  const ids: AttachmentId[] = [...allRecords(), ...records].map(({ id }) => id)
  for (const { name, alias } of links.values())
    ids.push(...([readAlias(name, alias)?.id].filter((id) => !!id) as AttachmentId[]))
  const known = new Set(ids.map(attachmentDigest))
  const networks = new Set(knownNetworks().flatMap(({ name, role }) => (role === 'main' ? [networkDigest(name)] : [])))
  const orphans = elements.filter(({ comment }) => {
    const [, digest] = comment.split(' ')
    return digest !== undefined && !known.has(digest)
  })
  return [...Map.groupBy(orphans, ({ comment }) => comment)].map(([comment, own]): Judged => {
    // Without a record nothing tells a pod of another plugin from one that is gone.
    const isGone = networks.has(comment.split(' ')[0] ?? '')
    return {
      part: 'orphans',
      text: `rules ${own.map(({ set, key }) => `${set} ${key.join(' ')}`).join(', ')}`,
      verdict: isGone ? 'collect' : 'report',
      why: isGone ? 'no record has it' : 'no record has it, and a pod without a record may use it',
      document: { kind: 'elements', name: comment },
      remove: async ({ machine }) =>
        (await machine.run(stepsToRemove(elementOps(own, 'element.delete')), { goesOn: true })).errors,
    }
  })
}
