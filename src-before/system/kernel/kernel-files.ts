// SPDX-License-Identifier: Apache-2.0
// The kernel through /proc: no process needed, and always the network namespace we run in, which
// /sys/class/net is not (it shows the namespace of whoever mounted it).

import {
  accessSync,
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  writeFileSync,
} from 'node:fs'
import { CniError, orElse } from '../../cni/error.ts'
import { isPodLinkName } from '../../model/names.ts'
import { forwardingKey } from '../../model/op.ts'
import type { FileOp } from '../../tools/batches.ts'
import type { NamesIn } from '../files/files.ts'
import { missingNote, refusedFor } from '../process/capabilities.ts'

/** Whether a link of this name is in our network namespace; also where that cannot be told (too many open files). */
export function linkExists(name: string): boolean {
  // Every link has a directory here, IPv6 on or off (net/ipv4/devinet.c).
  return isThere(`/proc/sys/net/ipv4/conf/${name}/forwarding`)
}

/**
 * Whether a link that is being removed is gone, with its addresses, and, where /sys is of our network namespace, its
 * queues and its place in a bridge, too: its directory there goes last (net/core/dev.c,
 * unregister_netdevice_many_notify). The other end of a pair is in no list any more by then. In a /sys of another
 * namespace a link of this name would only keep us waiting.
 */
export function isLinkGone(name: string): boolean {
  return !linkExists(name) && !isThere(`/sys/class/net/${name}/ifindex`)
}

/** Also where that cannot be told. */
function isThere(path: string): boolean {
  try {
    accessSync(path)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT'
  }
}

/** The names of the links in our network namespace. `names`: where that has been looked at, or will be again. */
export function linkNames(names: NamesIn = readdirSync): readonly string[] {
  return names('/proc/sys/net/ipv4/conf').filter((name) => name !== 'all' && name !== 'default')
}

/** A sysctl's text without the newline, or undefined when there is no such key. `key`: net/ipv4/ip_forward. */
export function readKey(key: string): string | undefined {
  return readKernelFile(`/proc/sys/${key}`)
}

/** The text of a file of /proc or /sys without the newline, or undefined where it cannot be read. */
export function readKernelFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1').trimEnd()
  } catch {
    return undefined
  }
}

/** Runs one file operation; what already holds is not written. Throws CniError 100 with the key and the reason. */
export function applyFileOp(op: FileOp): void {
  if (op.kind === 'sysctl.write') writeKey(op.key, op.value, op.why)
  else switchForwardingOn(op.family, op.why)
}

function switchForwardingOn(family: 4 | 6, why: string): void {
  const key = forwardingKey(family)
  const now = readKey(key)
  if (now === '1') return
  if (now === undefined && family === 6) throw noIpv6(why)
  if (family === 6) keepRouterAdvertisements()
  writeKey(key, '1', why)
}

function noIpv6(why: string): CniError {
  return new CniError('ipv6-not-there', `could not ${why}: this kernel has no IPv6`, {
    details: 'it was started with ipv6.disable=1, or built without; take the IPv6 range out of the configuration',
  })
}

/**
 * How many ports a bridge has, whoever's they are; 0 without the bridge. Undefined where /sys shows another network
 * namespace than ours: that of whoever mounted it.
 */
export function bridgePorts(name: string): number | undefined {
  if (!isOwnSysfs()) return undefined
  return orElse(() => readdirSync(`/sys/class/net/${name}/brif`).length, 0)
}

/**
 * The ifindex of a link that is up. /sys may show another network namespace; /proc has it with the link's multicast
 * groups (net/ipv4/igmp.c, igmp_mc_seq_show).
 */
export function linkIndex(name: string): number | undefined {
  try {
    const lines = readFileSync('/proc/self/net/igmp', 'latin1').split('\n')
    const found = lines.map((line) => /^(\d+)\t(\S+) *:/.exec(line)).find((match) => match?.[2] === name)
    return found ? Number(found[1]) : undefined
  } catch {
    return undefined
  }
}

/** Whether the link is Wi-Fi, where /sys tells: false where it shows another network namespace. */
export function isWireless(name: string): boolean {
  return isOwnSysfs() && existsSync(`/sys/class/net/${name}/phy80211`)
}

/** Whether /sys shows our own network namespace, as /proc always does: then both have the same links. */
export function isOwnSysfs(): boolean {
  try {
    // Two lines of headings; `bonding_masters` is a file of the bonding driver.
    const lines = readFileSync('/proc/self/net/dev', 'latin1').trim().split('\n').slice(2)
    const names = lines.map((line) => line.slice(0, line.indexOf(':')).trim())
    const shown = readdirSync('/sys/class/net').filter((each) => each !== 'bonding_masters')
    return names.sort().join('/') === shown.sort().join('/')
  } catch {
    return false
  }
}

/**
 * A forwarding host ignores router advertisements unless accept_ra is 2, and switching forwarding on
 * drops the default routes learnt from them (net/ipv6/addrconf.c, addrconf_fixup_forwarding): the
 * node's own uplink comes first. Never a pod's link: another ADD sets its accept_ra to 0, perhaps between our look and
 * our write, and then a pod could change the node's routes (CVE-2020-10749). Bridges are set up under the machine's
 * lock.
 */
function keepRouterAdvertisements(): void {
  for (const name of nodeLinks()) {
    const key = `net/ipv6/conf/${name}/accept_ra`
    if (readKey(key) === '1') writeKey(key, '2', `keep the router advertisements of ${name}`)
  }
}

/** The same without `lo` and those of pods. */
export function nodeLinks(names?: NamesIn): readonly string[] {
  return linkNames(names).filter((name) => name !== 'lo' && !isPodLinkName(name))
}

function writeKey(key: string, value: string, why: string): void {
  const now = readKey(key)
  // A link that is gone, or IPv6 that is off: nothing to set.
  if (now === value || (now === undefined && key.startsWith('net/ipv6/conf/'))) return
  try {
    writeFileSync(`/proc/sys/${key}`, value)
  } catch (error) {
    const refused = error as NodeJS.ErrnoException
    const missing = refusedFor(refused.message)
    throw new CniError('sysctl-not-set', `could not ${why}: ${refused.code}${missingNote(missing)}`, {
      details: `writing ${value} to /proc/sys/${key}: ${refused.message}${missing ? `; ${missing.hint}` : ''}`,
      cause: error,
    })
  }
}

// Files of /proc that grow with the node, read only as far as needed.

const chunkBytes = 16 * 1024

/**
 * A read ends where the next line would not fit into the kernel's page, or at the end of the file (fs/seq_file.c,
 * seq_read_iter); no line is longer than half a page. To be told of the end once more, by nothing, the kernel looks
 * through all its sockets again.
 */
const halfPage = 2048

/**
 * The file's lines, as many at a time as the kernel gives (a page), without the last line break. Nothing where it
 * cannot be opened. Throws the system's error where reading fails.
 */
export function* blocksOf(path: string): Generator<string> {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch {
    return
  }
  try {
    const chunk = Buffer.allocUnsafe(chunkBytes)
    let begun = ''
    for (let isLast = false; !isLast; ) {
      const got = readSync(fd, chunk)
      isLast = got < halfPage
      const text = begun + chunk.toString('latin1', 0, got)
      const end = text.lastIndexOf('\n')
      begun = text.slice(end + 1)
      if (end > 0) yield text.slice(0, end)
    }
  } finally {
    closeSync(fd)
  }
}
