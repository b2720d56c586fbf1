// SPDX-License-Identifier: Apache-2.0
// The pod's network namespace: opened once, so that every child works on the same one whatever
// happens to the path meanwhile, and told apart from our own before anything is touched.

import { closeSync, constants, fstatSync, openSync, readlinkSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { CniError } from '../../cni/error.ts'
import type { NetnsIdentity } from '../../model/record.ts'
import { namesIn } from '../files/files.ts'
import { ownPidNamespace } from '../process/process-identity.ts'
import type { Run } from '../process/runner.ts'

/** NSFS_MAGIC (include/uapi/linux/magic.h): what a namespace file's file system is. */
const nsfsMagic = 0x6e736673

/**
 * O_PATH (include/uapi/asm-generic/fcntl.h), which Node has no name for: a device, pipe or socket in the path's place
 * is only looked at, since opening one may wait, or do something (a watchdog starts). Children enter by the same path.
 */
const openPath = 0o10000000

export interface OpenNetns {
  readonly fd: number
  readonly identity: NetnsIdentity
}

/** Opens CNI_NETNS. Throws CniError 4 when it is missing, no namespace file, or our own namespace. */
export function openNetns(path: string): OpenNetns {
  let fd: number
  try {
    fd = openSync(path, constants.O_RDONLY | openPath)
  } catch (error) {
    throw wrongNetns(
      path,
      (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'does not exist' : (error as Error).message,
    )
  }
  try {
    const inode = fstatSync(fd).ino
    if (!isNetnsFile(fd)) throw wrongNetns(path, 'is not a network namespace file')
    if (inode === ownNetnsInode()) throw wrongNetns(path, 'is the network namespace trestle itself runs in')
    return { fd, identity: identityWithInode(path, inode) }
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

/** The identity of a namespace we do not enter ourselves; without inode where the path cannot be read. */
export function identityOfNetns(path: string): NetnsIdentity {
  try {
    return identityWithInode(path, statSync(path).ino)
  } catch {
    return { path: '', inode: 0 }
  }
}

export function closeNetns(netns: OpenNetns | undefined): void {
  if (netns !== undefined) closeSync(netns.fd)
}

/**
 * Whether a pod's namespace still is: 'gone' only when its path is certainly no longer it. A path
 * that exists but is no namespace file is seen from a mount namespace without it: 'unknown'.
 */
export function netnsState(identity: NetnsIdentity): 'live' | 'gone' | 'unknown' {
  if (identity.path === '') return 'unknown'
  if (identity.pidNamespace !== undefined && identity.pidNamespace !== ownPidNamespace()) return 'unknown'
  try {
    if (statfsSync(identity.path).type !== nsfsMagic) return 'unknown'
    return statSync(identity.path).ino === identity.inode ? 'live' : 'gone'
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return 'unknown'
    return isDirectory(parentOf(identity.path)) ? 'gone' : 'unknown'
  }
}

function identityWithInode(path: string, inode: number): NetnsIdentity {
  return path.startsWith('/proc/') ? { path, inode, pidNamespace: ownPidNamespace() } : { path, inode }
}

/** /proc/PID/ns/net goes with its process: what must be there is /proc. */
function parentOf(path: string): string {
  return /^\/proc\/\d+\//.test(path) ? '/proc/self' : dirname(path)
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

/** Every kind of namespace is a file of nsfs; one opened in /proc also tells its kind: `mnt:[4026531841]`. */
function isNetnsFile(fd: number): boolean {
  if (statfsSync(`/proc/self/fd/${fd}`).type !== nsfsMagic) return false
  const kind = /^(\w+):\[\d+\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1]
  return kind === undefined || kind === 'net'
}

function ownNetnsInode(): number {
  return Number(/\d+/.exec(readlinkSync('/proc/self/ns/net'))?.[0])
}

function wrongNetns(path: string, why: string): CniError {
  return new CniError('netns-unusable', `CNI_NETNS ${path} ${why}`, {
    details: 'it must be the path of the namespace of the pod, such as /run/netns/NAME or /proc/PID/ns/net',
  })
}

// Where the other end of a pair is: the kernel tells an id that our namespace has for the other one
// (link_netnsid; net/core/net_namespace.c), ip and lsns tell which path that is.

/** Where ip(8) has the names of namespaces (NETNS_RUN_DIR). */
const namedDirectory = '/run/netns'

/**
 * Paths of the namespaces with these ids, as far as they have a name or a process in them. One process, and one more
 * where some have no name. Without lsns those are reported on stderr and left out.
 */
export async function netnsPaths(run: Run, ids: readonly number[]): Promise<ReadonlyMap<number, string>> {
  const named = namesIn(namedDirectory).length === 0 ? new Map<number, string>() : await namedPaths(run)
  if (ids.every((id) => named.has(id))) return named
  return new Map([...(await processPaths(run)), ...named])
}

async function namedPaths(run: Run): Promise<ReadonlyMap<number, string>> {
  const { stdout } = await run({ file: 'ip', args: ['-j', 'netns', 'list'] })
  const entries = JSON.parse(stdout || '[]') as readonly { readonly name: string; readonly id?: number }[]
  return new Map(entries.flatMap(({ name, id }) => (id === undefined ? [] : [[id, `${namedDirectory}/${name}`]])))
}

async function processPaths(run: Run): Promise<ReadonlyMap<number, string>> {
  return new Map((await namespacesOfProcesses(run)).flatMap(({ id, path }) => (id === undefined ? [] : [[id, path]])))
}

/** lsns is of util-linux, as nsenter. It says `unassigned` where there is no id. */
async function namespacesOfProcesses(run: Run) {
  const { stdout } = await run({ file: 'lsns', args: ['-t', 'net', '-r', '-n', '-o', 'NETNSID,PID'] }).catch(
    withoutOutput,
  )
  const rows = stdout.split('\n').map((line) => line.split(' '))
  const isRow = ([, pid = '']: readonly string[]) => /^\d+$/.test(pid)
  return rows.filter(isRow).map(([id = '', pid]) => {
    return { id: /^\d+$/.test(id) ? Number(id) : undefined, path: `/proc/${pid}/ns/net` }
  })
}

/**
 * Paths of all namespaces but our own by their inodes, as far as they have a name or a process in them. One process;
 * undefined where lsns tells nothing.
 */
export async function otherNamespaces(run: Run): Promise<ReadonlyMap<number, string> | undefined> {
  const ofProcesses = await namespacesOfProcesses(run)
  if (ofProcesses.length === 0) return undefined
  const named = namesIn(namedDirectory).map((name) => `${namedDirectory}/${name}`)
  const all = [...ofProcesses.map(({ path }) => path), ...named].map(identityOfNetns)
  const others = all.filter((each) => netnsState(each) === 'live' && each.inode !== ownNetnsInode())
  return new Map(others.map(({ inode, path }) => [inode, path]))
}

/** No other call needs lsns: an ADD is not refused for it. */
function withoutOutput(error: Error): { readonly stdout: string } {
  process.stderr.write(`trestle: cannot tell what pods without a named namespace have: ${error.message}\n`)
  return { stdout: '' }
}
