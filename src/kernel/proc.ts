// SPDX-License-Identifier: Apache-2.0
// The kernel through /proc and /sys, without a process. /proc always shows the network namespace that we run in;
// /sys/class/net shows that of whoever mounted it.

import { accessSync, readdirSync, readFileSync } from 'node:fs'
import { formatAddress } from '../cni/addresses.ts'
import { isPodLinkName } from '../drivers/names.ts'

/** The text of a file of /proc or /sys without the last newline; undefined where it cannot be read. */
export function readKernelFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1').trimEnd()
  } catch {
    return undefined
  }
}

/** A sysctl's value; undefined where there is no such key. `key`: `net/ipv4/ip_forward`. */
export function readSysctl(key: string): string | undefined {
  return readKernelFile(`/proc/sys/${key}`)
}

/** Also true where it cannot be told, as with too many open files. */
function isThere(path: string): boolean {
  try {
    accessSync(path)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT'
  }
}

/** Every link has a directory here, with IPv6 on or off (net/ipv4/devinet.c). */
export function linkExists(name: string): boolean {
  return isThere(`/proc/sys/net/ipv4/conf/${name}/forwarding`)
}

/** Whether a link that is being removed is gone: its directory in /sys goes last (net/core/dev.c). */
export function isLinkGone(name: string): boolean {
  return !linkExists(name) && !isThere(`/sys/class/net/${name}/ifindex`)
}

/**
 * Addresses of the node's own links, of one family or both, without a process: local entries of the routing table, and the
 * kernel's list of IPv6 addresses, which has a line for each pod's link. getifaddrs(3) dumps every link with its counters.
 */
export function nodeAddresses(family?: 4 | 6): ReadonlySet<string> {
  return new Set([...(family === 6 ? [] : nodeAddresses4()), ...(family === 4 ? [] : nodeAddresses6())])
}

function nodeAddresses4(): readonly string[] {
  const entries = (readKernelFile('/proc/self/net/fib_trie') ?? '').matchAll(/\|-- (\S+)((?:\n\s+\/\d+ .*)+)/g)
  return [...entries].flatMap(([, address = '', kinds = '']) => (kinds.includes('host LOCAL') ? [address] : []))
}

/** Link-local ones (scope 20) are on the link of every pod, and no pool gives them. */
function nodeAddresses6(): readonly string[] {
  return addresses6((line) => line.split(' ')[3] !== '20')
}

/** The IPv6 addresses of one link, also the link-local one. Of IPv4 the kernel tells the link only to a process. */
export function linkAddresses6(dev: string): readonly string[] {
  return addresses6((line) => line.endsWith(` ${dev}`))
}

/** A line: address, interface number, prefix length, scope, flags, name (net/ipv6/addrconf.c, if6_seq_show). */
function addresses6(isMeant: (line: string) => boolean): readonly string[] {
  const lines = (readKernelFile('/proc/self/net/if_inet6') ?? '').split('\n')
  const meant = lines.filter((line) => line !== '' && isMeant(line))
  return meant.map((line) => formatAddress({ family: 6, value: BigInt(`0x${line.slice(0, 32)}`) }))
}

export function linkNames(): readonly string[] {
  return readdirSync('/proc/sys/net/ipv4/conf').filter((name) => name !== 'all' && name !== 'default')
}

/** Host ends of pods that trestle made, by their names. */
export function podLinkNames(): readonly string[] {
  return linkNames().filter((name) => isPodLinkName(name) && name.startsWith('veth'))
}

/** Whether /sys shows our own network namespace: then it has the links that /proc has. */
export function isOwnSysfs(): boolean {
  try {
    const lines = readFileSync('/proc/self/net/dev', 'latin1').trim().split('\n').slice(2)
    const names = lines.map((line) => line.slice(0, line.indexOf(':')).trim())
    const shown = readdirSync('/sys/class/net').filter((name) => name !== 'bonding_masters')
    return names.sort().join('/') === shown.sort().join('/')
  } catch {
    return false
  }
}

/** The ifindex of a link that is up, from its multicast groups (net/ipv4/igmp.c, igmp_mc_seq_show). */
export function linkIndex(name: string): number | undefined {
  const lines = readKernelFile('/proc/self/net/igmp')?.split('\n') ?? []
  const found = lines.map((line) => /^(\d+)\t(\S+) *:/.exec(line)).find((match) => match?.[2] === name)
  return found ? Number(found[1]) : undefined
}

/** The machine id (machine-id(5)); containers and minimal hosts have none: the boot id then. */
export function machineId(): string {
  return readKernelFile('/etc/machine-id') || bootId()
}

/** Differs after every boot (random(4)). */
export function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
}

// The node's way out.

/** The interface with the default route, IPv4's before IPv6's. */
export function uplinkName(): string | undefined {
  return defaultRouteLinks4()[0] ?? defaultRouteLinks6()[0]
}

export function isUplink(name: string): boolean {
  return defaultRouteLinks4().includes(name) || defaultRouteLinks6().includes(name)
}

/** The smallest MTU of the interfaces with a default route; undefined where there is none. */
export function uplinkMtu(): number | undefined {
  const mtu4 = smallest(defaultRouteLinks4().map(linkMtu))
  const links = linkNames().filter((name) => name !== 'lo' && !isPodLinkName(name))
  // The IPv6 routes of 600 pods take 8 ms to read: not where no link could lower the MTU.
  const isSmallest = mtu4 !== undefined && links.every((name) => (linkMtu(name) ?? mtu4) >= mtu4)
  return isSmallest ? mtu4 : smallest([mtu4, ...defaultRouteLinks6().map(linkMtu)])
}

function smallest(mtus: readonly (number | undefined)[]): number | undefined {
  const known = mtus.filter((mtu) => mtu !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

/** /sys may show another namespace; the IPv6 MTU in /proc is the link's own or less. */
export function linkMtu(name: string): number | undefined {
  const mtu = Number(readSysctl(`net/ipv6/conf/${name}/mtu`) ?? readKernelFile(`/sys/class/net/${name}/mtu`))
  return mtu >= 68 ? mtu : undefined
}

function defaultRouteLinks4(): readonly string[] {
  const rows = (readKernelFile('/proc/net/route') ?? '').split('\n').map((row) => row.split('\t'))
  return rows.flatMap(([dev, dst, , , , , , mask]) => (dst === '00000000' && mask === '00000000' && dev ? [dev] : []))
}

const default6 = `${'0'.repeat(32)} 00 `

/** `lo` carries the kernel's own unreachable one. */
function defaultRouteLinks6(): readonly string[] {
  const rows = (readKernelFile('/proc/net/ipv6_route') ?? '').split('\n').filter((row) => row.startsWith(default6))
  return [...new Set(rows.map((row) => row.slice(row.lastIndexOf(' ') + 1)))].filter((dev) => dev !== 'lo')
}
