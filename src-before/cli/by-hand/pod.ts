// SPDX-License-Identifier: Apache-2.0
// A pod by hand: a network namespace that a person names, as ip-netns(8) does or by its path. `add` makes a named one
// that is missing, and notes so: only such a namespace goes again with its last network.

import { hash } from 'node:crypto'
import { rmdirSync, rmSync, statSync } from 'node:fs'
import { normalize } from 'node:path'
import { CniError, orElse } from '../../cni/error.ts'
import { parseObject } from '../../cni/json.ts'
import { makeDirectory, readText, writeText } from '../../system/files/files.ts'
import { stateRoot } from '../../system/files/state.ts'
import { closeNetns, openNetns } from '../../system/kernel/netns.ts'
import { ownProcessIdentity } from '../../system/process/process-identity.ts'
import type { Run } from '../../system/process/runner.ts'
import { withLock } from '../../system/store/lock.ts'
import { UsageError } from '../shell/command.ts'

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
  if (!/^[A-Za-z0-9_][\w.-]{0,127}$/.test(word)) {
    throw new UsageError(
      `POD ${JSON.stringify(word)}: use a name of letters, digits, _, . and -, like web, or an absolute path`,
    )
  }
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
    const { id, message, details } = error
    throw new CniError(id, message.replace(/^CNI_NETNS/, 'POD'), { details, cause: error })
  }
  // In a namespace of its own, this process sees the node by the first process.
  if (inodeOf('/proc/1/ns/net') !== inodeOf(path)) return true
  const details = 'name another namespace; nothing was changed'
  throw new CniError('netns-unusable', `POD ${path} is the network namespace of the node`, { details })
}

/** Throws CniError 4 where the pod is not there. */
export function requireThere(pod: Pod): void {
  if (isThere(pod)) return
  const details = `\`trestle nets\` lists the pods by hand, \`ip netns\` all namespaces with a name`
  throw new CniError('netns-unusable', `there is no namespace ${pod.word}`, { details })
}

/** Makes the named namespace, with its loopback up. Throws CniError 100 when ip(8) refuses. */
export async function makePod(run: Run, { name = '', paths: [path] }: Pod): Promise<void> {
  await ip(run, 'netns', 'add', name)
  makeDirectory(noteDirectory())
  writeText(noteOf(name), JSON.stringify({ format: 1, inode: inodeOf(path) }))
  await ip(run, '-n', name, 'link', 'set', 'lo', 'up')
}

/** Removes the namespace if `add` has made it. Returns whether it did. */
export async function removeMade(run: Run, pod: Pod): Promise<boolean> {
  if (pod.name === undefined || !isMade(pod)) return false
  await ip(run, 'netns', 'del', pod.name)
  rmSync(noteOf(pod.name), { force: true })
  return true
}

/** Whether `add` has made this very namespace: a later one of the same name has another inode. */
export function isMade({ name, paths: [path] }: Pod): boolean {
  const read = name === undefined ? undefined : readText(noteOf(name))
  if (read === undefined || read === 'unreadable') return false
  const inode = inodeOf(path)
  return inode !== undefined && parseObject(read.text)?.['inode'] === inode
}

/** Two commands for one pod run one after the other. Throws CniError 11 when the other one takes longer than a minute. */
export async function alone<T>({ paths: [path] }: Pod, command: string, body: () => Promise<T>): Promise<T> {
  const file = `${noteDirectory()}/.lock-${hash('sha256', path).slice(0, 16)}`
  makeDirectory(noteDirectory())
  try {
    return await withLock({ file, purpose: `trestle ${command}`, owner: ownProcessIdentity(), waitMs: 60_000 }, body)
  } finally {
    try {
      rmdirSync(noteDirectory())
    } catch {
      // It has the notes of other pods.
    }
  }
}

/** Beside the state directory, since lists of other plugins need none. */
function noteDirectory(): string {
  return `${stateRoot()}-pods`
}

function noteOf(name: string): string {
  return `${noteDirectory()}/${name}`
}

async function ip(run: Run, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await run({ file: 'ip', args })
  if (code !== 0) throw new CniError('command-failed', `ip ${args.join(' ')}: ${stderr.trim()}`)
}
