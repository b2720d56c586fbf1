// SPDX-License-Identifier: Apache-2.0
// The pod's network namespace: opened once, so that every child process works on the same one whatever happens to the
// path, and told apart from our own before anything is touched.

import { closeSync, constants, fstatSync, openSync, readlinkSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { CniError, Code } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'

/** NSFS_MAGIC (include/uapi/linux/magic.h). */
const nsfsMagic = 0x6e736673

/**
 * O_PATH, for which Node has no name (include/uapi/asm-generic/fcntl.h): a device, pipe or socket in the path's place is
 * not really opened, which could wait or start a watchdog.
 */
const openPath = 0o10000000

/** A namespace as it was at ADD. `pidNamespace`: for paths below /proc, which mean a pod there alone. */
export interface NetnsIdentity {
  readonly path: string
  readonly inode: number
  readonly pidNamespace?: string
}

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
    const { code, message } = error as NodeJS.ErrnoException
    throw unusable(path, code === 'ENOENT' ? 'does not exist' : message)
  }
  try {
    if (!isNetnsFile(fd)) throw unusable(path, 'is not a network namespace file')
    const { ino } = fstatSync(fd)
    if (readlinkSync('/proc/self/ns/net') === `net:[${ino}]`)
      throw unusable(path, 'is the network namespace trestle itself runs in')
    const pidNamespace = path.startsWith('/proc/') ? ownPidNamespace() : undefined
    return { fd, identity: { path, inode: ino, ...defined({ pidNamespace }) } }
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

/** The same for what can do without it: undefined where there is none. */
export function openNetnsIfThere(path: string): OpenNetns | undefined {
  try {
    return path === '' ? undefined : openNetns(path)
  } catch {
    return undefined
  }
}

export function closeNetns(netns: OpenNetns | undefined): void {
  if (netns !== undefined) closeSync(netns.fd)
}

/**
 * Whether a pod's namespace still is. A path that exists but is no namespace file is seen from another mount namespace:
 * that says nothing. ENOENT means gone only where its directory is there.
 */
export function netnsState(identity: NetnsIdentity): 'live' | 'gone' | 'unknown' {
  const { path, inode, pidNamespace } = identity
  if (path === '' || (pidNamespace !== undefined && pidNamespace !== ownPidNamespace())) return 'unknown'
  try {
    if (statfsSync(path).type !== nsfsMagic) return 'unknown'
    return statSync(path).ino === inode ? 'live' : 'gone'
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return 'unknown'
    const parent = /^\/proc\/\d+\//.test(path) ? '/proc/self' : dirname(path)
    return statSync(parent, { throwIfNoEntry: false })?.isDirectory() ? 'gone' : 'unknown'
  }
}

export function ownPidNamespace(): string {
  return readlinkSync('/proc/self/ns/pid')
}

/** Every kind of namespace is a file of nsfs; one opened in /proc also tells its kind: `mnt:[4026531841]`. */
function isNetnsFile(fd: number): boolean {
  if (statfsSync(`/proc/self/fd/${fd}`).type !== nsfsMagic) return false
  const kind = /^(\w+):\[\d+\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1]
  return kind === undefined || kind === 'net'
}

function unusable(path: string, why: string): CniError {
  return new CniError(Code.invalidEnvironment, 'netns-unusable', `CNI_NETNS ${path} ${why}`, {
    details: "it must be the path of the pod's namespace, such as /run/netns/NAME or /proc/PID/ns/net",
  })
}
