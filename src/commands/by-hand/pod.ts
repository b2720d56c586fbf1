// SPDX-License-Identifier: Apache-2.0
// A pod by hand: a network namespace that a person names, as ip-netns(8) does or by its path. `add` makes a named one that
// is missing; only such a namespace goes again with its last network.

import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import { normalize } from 'node:path'
import { CniError } from '../../cni/errors.ts'
import { closeNetns, netnsState, openNetns } from '../../kernel/netns.ts'
import type { Run } from '../../process/runner.ts'
import { allRecords } from '../../state/records.ts'
import { UsageError } from '../command.ts'
import { failureOf } from '../failure.ts'
import { orElse } from '../if-there.ts'
import { type CachedAttachment, cachedAttachments } from './libcni-cache.ts'

/** `paths`: of the namespace, in every spelling; plugins get the first. `name`: of a namespace that has a name. */
export interface Pod {
  readonly word: string
  readonly name?: string
  readonly paths: readonly [string, ...string[]]
}

/** cnitool's tutorial spells the first; ip-netns(8) has the second, and the first is a link to it. */
const spellings = ['/var/run/netns', '/run/netns'] as const

/** The pod of a word, whether it is there or not. Throws UsageError for a word that is neither name nor path. */
export function podOf(word: string): Pod {
  if (word.startsWith('/')) {
    const path = normalize(word)
    const [, directory, name] = /^(.*)\/([^/]+)$/.exec(path) ?? []
    const other = spellings.find((each) => each !== directory)
    const isNamed = name !== undefined && spellings.some((each) => each === directory)
    return isNamed ? { word, name, paths: [path, `${other}/${name}`] } : { word, paths: [path] }
  }
  if (!/^[A-Za-z0-9_][\w.-]{0,127}$/.test(word))
    throw new UsageError(
      `POD ${JSON.stringify(word)}: use a name of letters, digits, _, . and -, like web, or an absolute path`,
    )
  return { word, name: word, paths: [`${spellings[0]}/${word}`, `${spellings[1]}/${word}`] }
}

/** The inode of a file, as an identity of namespaces; undefined where there is none. */
export function inodeOf(path: string): number | undefined {
  return orElse(() => statSync(path).ino, undefined)
}

/** Whether the pod is there. Throws CniError 4 for a path that is no network namespace, or the node's own. */
export function isThere({ name, paths: [path] }: Pod): boolean {
  if (name !== undefined && inodeOf(path) === undefined) return false
  try {
    closeNetns(openNetns(path))
  } catch (error) {
    if (!(error instanceof CniError)) throw error
    throw failureOf(error.id, error.message.replace(/^CNI_NETNS/, 'POD'), { details: error.details, cause: error })
  }
  // In a namespace of its own, this process sees the node by the first process.
  if (inodeOf('/proc/1/ns/net') !== inodeOf(path)) return true
  const details = 'name another namespace; nothing was changed'
  throw failureOf('netns-unusable', `POD ${path} is the network namespace of the node`, { details })
}

/** Throws CniError 4 where the pod is not there. */
export function requireThere(pod: Pod): void {
  if (isThere(pod)) return
  const details = '`trestle nets` lists the pods by hand, `ip netns` all namespaces with a name'
  throw failureOf('netns-unusable', `there is no namespace ${pod.word}`, { details })
}

/** Makes the named namespace, with its loopback up. Throws CniError 100 when ip(8) refuses. */
export async function makePod(run: Run, { name = '' }: Pod): Promise<void> {
  await ip(run, 'netns', 'add', name)
  await ip(run, '-n', name, 'link', 'set', 'lo', 'up')
}

export async function removePod(run: Run, { name = '' }: Pod): Promise<void> {
  await ip(run, 'netns', 'del', name)
}

async function ip(run: Run, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await run({ file: 'ip', args })
  if (code !== 0) throw failureOf('command-failed', `ip ${args.join(' ')}: ${stderr.trim()}`)
}

/** The container id that cnitool gives a namespace (cnitool/cmd/root.go). */
export function containerIdOf(path: string): string {
  return `cnitool-${createHash('sha512').update(path).digest('hex').slice(0, 20)}`
}

/** Whether cnitool or trestle made the attachment by hand. */
export function isByHand({ containerId }: Pick<CachedAttachment, 'containerId'>): boolean {
  return /^cnitool-[\da-f]{20}$/.test(containerId)
}

/** The attachments of a pod: of its namespace, or of its path where the namespace is gone. */
export function attachmentsOf({ paths }: Pod): readonly CachedAttachment[] {
  const inode = inodeOf(paths[0])
  return cachedAttachments().filter(({ netns }) => {
    return paths.includes(netns) || (inode !== undefined && netns !== '' && inodeOf(netns) === inode)
  })
}

/** Throws CniError 4 where a runtime has attached the pod: only the runtime's own call may change it. */
export function refuseForeign(pod: Pod): void {
  const inode = inodeOf(pod.paths[0])
  const recorded = allRecords().filter(({ netns }) => netns?.inode === inode && netnsState(netns) === 'live')
  const foreign = [...attachmentsOf(pod), ...recorded.map(({ id }) => id)].find((each) => !isByHand(each))
  if (foreign === undefined) return
  const { network, containerId, ifName } = foreign
  throw failureOf('pod-of-a-runtime', `POD ${pod.word} has ${ifName} of network ${network} by another caller`, {
    details: `container ${containerId}: change it by its runtime (crictl, ctr, podman); nothing was changed`,
  })
}
