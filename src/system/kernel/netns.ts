// SPDX-License-Identifier: Apache-2.0
// The pod's network namespace: opened once, so that every child works on the same one whatever
// happens to the path meanwhile, and told apart from our own before anything is touched.

import { closeSync, constants, fstatSync, openSync, readlinkSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { CniError } from '../../cni/model/error.ts'
import type { NetnsIdentity } from '../../plan/model/record.ts'
import { ownPidNamespace } from '../process/process-identity.ts'

/** NSFS_MAGIC (include/uapi/linux/magic.h): what a namespace file's file system is. */
const nsfsMagic = 0x6e736673

/**
 * O_PATH (include/uapi/asm-generic/fcntl.h), which Node has no name for: a device, pipe or socket in the path's place
 * is only looked at, since opening one may wait, or do something (a watchdog starts). Children enter by the same path.
 */
const openPath = 0o10000000

/** An open network namespace. */
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

/** Closes what openNetns opened. */
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
