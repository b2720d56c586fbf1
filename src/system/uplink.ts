// SPDX-License-Identifier: Apache-2.0
// The MTU of the node's way out, from /proc alone.

import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { nodeLinksWithIpv6, readKey } from './kernel-files.ts'

const chunkBytes = 64 * 1024
/** A route is a line of 150 bytes, a pod's link has three: 9000 pods. */
const mostBytes = 4 * 1024 * 1024

/** The smallest MTU of the interfaces with a default route, or undefined when there is none. Bytes. */
export function uplinkMtu(): number | undefined {
  const mtu4 = smallest(defaultRouteLinks4().map(linkMtu))
  // The IPv6 routes of 600 pods take 8 ms to read: not where none of them could lower the MTU.
  const isSettled = mtu4 !== undefined && nodeLinksWithIpv6().every((name) => (linkMtu(name) ?? mtu4) >= mtu4)
  return isSettled ? mtu4 : smallest([mtu4, ...defaultRouteLinks6().map(linkMtu)])
}

function smallest(mtus: readonly (number | undefined)[]): number | undefined {
  const known = mtus.filter((mtu) => mtu !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

/** /proc/net/route is sorted by prefix, the default first: a full table need not be read. */
function defaultRouteLinks4(): readonly string[] {
  const rows = readStart('/proc/net/route', 4096).split('\n').slice(1)
  return rows
    .map((row) => row.split('\t'))
    .flatMap(([dev, dst, , , , , , mask]) => (dst === '00000000' && mask === '00000000' && dev ? [dev] : []))
}

/** The default is the last route of its table (net/ipv6/ip6_fib.c, fib6_walk_continue), one among thousands. */
function defaultRouteLinks6(): readonly string[] {
  const start = `\n${'0'.repeat(32)} 00 `
  const text = `\n${readStart('/proc/net/ipv6_route', mostBytes)}`
  const devs = new Set<string>()
  for (let at = text.indexOf(start); at !== -1; at = text.indexOf(start, at + 1)) {
    const end = text.indexOf('\n', at + 1)
    const line = text.slice(at, end === -1 ? undefined : end)
    devs.add(line.slice(line.lastIndexOf(' ') + 1))
  }
  // `lo` carries the kernel's own unreachable default.
  return [...devs].filter((dev) => dev !== 'lo')
}

function linkMtu(name: string): number | undefined {
  const mtu = Number(readKey(`net/ipv6/conf/${name}/mtu`) ?? readText(`/sys/class/net/${name}/mtu`))
  return mtu >= 68 ? mtu : undefined
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined
  }
}

function readStart(path: string, bytes: number): string {
  const chunk = Buffer.allocUnsafe(Math.min(bytes, chunkBytes))
  try {
    const fd = openSync(path, 'r')
    try {
      let text = ''
      for (;;) {
        const got = readSync(fd, chunk, 0, chunk.length, null)
        text += chunk.toString('latin1', 0, got)
        if (got === 0 || text.length >= bytes) return text
      }
    } finally {
      closeSync(fd)
    }
  } catch {
    return ''
  }
}
