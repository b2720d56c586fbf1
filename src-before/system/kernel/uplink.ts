// SPDX-License-Identifier: Apache-2.0
// The node's way out, from /proc alone: its interface and its MTU.

import type { NamesIn } from '../files/files.ts'
import { blocksOf, isOwnSysfs, nodeLinks, readKernelFile, readKey } from './kernel-files.ts'

const mostLinks = 100

/**
 * The smallest MTU of the interfaces with a default route, or undefined when there is none. Bytes. `packets`: those of
 * pods; a link's IPv6 MTU may be lower than the link's own. `names`: where links have been looked at, or will be again.
 */
export function uplinkMtu(packets: 'IPv4' | 'any', names?: NamesIn): number | undefined {
  const mtuOf = packets === 'IPv4' ? deviceMtu : linkMtu
  const mtu4 = smallest(defaultRouteLinks4().map(mtuOf))
  // The IPv6 routes of 600 pods take 8 ms to read: not where none of them could lower the MTU.
  return mtu4 !== undefined && hasNoSmaller(mtu4, names) ? mtu4 : smallest([mtu4, ...defaultRouteLinks6().map(mtuOf)])
}

/** The first interface with a default route, IPv4's before IPv6's; undefined when there is none. */
export function uplinkName(): string | undefined {
  return defaultRouteLinks4()[0] ?? defaultRouteLinks6()[0]
}

/** Whether a default route of the host goes through the link. */
export function isUplink(name: string): boolean {
  return defaultRouteLinks4().includes(name) || defaultRouteLinks6().includes(name)
}

/** Whether no link with IPv6 has a smaller MTU. False where there are so many that the routes are read faster. */
function hasNoSmaller(than: number, names?: NamesIn): boolean {
  const links = nodeLinks(names)
  return links.length <= mostLinks && links.every((name) => (linkMtu6(name) ?? than) >= than)
}

function smallest(mtus: readonly (number | undefined)[]): number | undefined {
  const known = mtus.filter((mtu) => mtu !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

/** /proc/net/route is sorted by prefix, the default first: a full table need not be read. */
export function defaultRouteLinks4(): readonly string[] {
  const [start = ''] = blocksOf('/proc/net/route')
  const rows = start.split('\n').slice(1)
  return rows
    .map((row) => row.split('\t'))
    .flatMap(([dev, dst, , , , , , mask]) => (dst === '00000000' && mask === '00000000' && dev ? [dev] : []))
}

const default6 = `${'0'.repeat(32)} 00 `

/** Of all tables, each with its defaults last (fib6_walk_continue): the file is read to its end. */
export function defaultRouteLinks6(): readonly string[] {
  const devs = new Set<string>()
  for (const lines of blocksOf('/proc/net/ipv6_route')) {
    for (const line of startingWith(default6, lines)) devs.add(line.slice(line.lastIndexOf(' ') + 1))
  }
  // `lo` carries the kernel's own unreachable default.
  return [...devs].filter((dev) => dev !== 'lo')
}

/** Splitting thousands of lines to find one takes longer than reading them. */
function startingWith(start: string, lines: string): readonly string[] {
  if (!lines.includes(start)) return []
  return lines.split('\n').filter((line) => line.startsWith(start))
}

function linkMtu(name: string): number | undefined {
  return linkMtu6(name) ?? shownMtu(name)
}

/** The link's own MTU: its IPv6 MTU is that or less (net/ipv6/addrconf.c, addrconf_sysctl_mtu). */
function deviceMtu(name: string): number | undefined {
  const [mtu6, shown] = [linkMtu6(name), shownMtu(name)]
  // As a rule both are the same; whose namespace /sys shows takes longer to tell.
  if (mtu6 === undefined || shown === undefined || shown <= mtu6) return mtu6 ?? shown
  return isOwnSysfs() ? shown : mtu6
}

function shownMtu(name: string): number | undefined {
  return mtuIn(readKernelFile(`/sys/class/net/${name}/mtu`))
}

function linkMtu6(name: string): number | undefined {
  return mtuIn(readKey(`net/ipv6/conf/${name}/mtu`))
}

function mtuIn(text: string | undefined): number | undefined {
  const mtu = Number(text)
  return mtu >= 68 ? mtu : undefined
}
