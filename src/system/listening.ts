// SPDX-License-Identifier: Apache-2.0
// Whether a process of the node listens on a port: /proc/net, read only as far as needed.

import { closeSync, openSync, readSync } from 'node:fs'
import { CniCode, CniError } from '../cni/error.ts'
import type { HostPort } from '../plan/attachment.ts'
import { type Listener, listensOn, readListener } from '../plan/listening.ts'

const chunkBytes = 64 * 1024
/** About 7000 sockets. Listening TCP sockets come first, so this bounds UDP only. */
const mostBytes = 1024 * 1024

/** A host port and the socket that had its traffic so far. */
export interface PortListener {
  readonly port: HostPort
  readonly listener: Listener
}

/**
 * Looks for listeners on the ports. With `refuse` throws CniError 104 naming the first socket's address,
 * else tells each on stderr. SCTP has no such list.
 */
export function settleListeners(ports: readonly HostPort[], onListening: 'warn' | 'refuse'): void {
  const told = new Set<string>()
  for (const { port, listener } of findListeners(ports)) {
    const where = `${listener.family === 6 ? `[${listener.address}]` : listener.address}:${listener.port}`
    const what = `host port ${port.hostPort}/${port.protocol}`
    if (onListening === 'refuse') {
      throw new CniError(CniCode.hostPortTaken, `${what} is taken: a process of the node listens on ${where}`, {
        details: `\`ss -lnp sport = :${port.hostPort}\` shows it; use another port, or set portmap.onListening to "warn"`,
      })
    }
    told.add(`trestle: ${what} goes to the pod from now on; a process of the node listens on ${where} too\n`)
  }
  for (const line of told) process.stderr.write(line)
}

/** The first listener of each port. Reads nothing when there are no ports. */
function findListeners(ports: readonly HostPort[]): readonly PortListener[] {
  const found = new Map<HostPort, Listener>()
  for (const protocol of ['tcp', 'udp'] as const) {
    const wanted = ports.filter((port) => port.protocol === protocol)
    for (const suffix of suffixesOf(wanted)) {
      forEachListener(`/proc/net/${protocol}${suffix}`, (listener) => {
        for (const port of wanted) if (!found.has(port) && listensOn(listener, port)) found.set(port, listener)
      })
    }
  }
  return [...found].map(([port, listener]) => ({ port, listener }))
}

/** An IPv6 socket may take IPv4, an IPv4 socket takes nothing else. */
function suffixesOf(ports: readonly HostPort[]): readonly ('' | '6')[] {
  if (ports.length === 0) return []
  return ports.some((port) => port.family === 4) ? ['', '6'] : ['6']
}

/** The file's listeners in order, up to the first TCP socket that is none (net/ipv4/tcp_ipv4.c, tcp_get_idx). */
function forEachListener(file: string, tell: (listener: Listener) => void): void {
  const isTcp = file.includes('/tcp')
  for (const line of linesOf(file)) {
    const listener = readListener(line)
    if (listener === 'other' && isTcp) return
    if (listener !== undefined && listener !== 'other') tell(listener)
  }
}

/** Lines of a /proc file, read as they are wanted. No lines where there is no such file. */
function* linesOf(file: string): Generator<string> {
  let fd: number
  try {
    fd = openSync(file, 'r')
  } catch {
    return
  }
  try {
    const buffer = Buffer.alloc(chunkBytes)
    let rest = ''
    for (let bytes = 0; bytes < mostBytes; ) {
      const got = readSync(fd, buffer, 0, chunkBytes, null)
      if (got === 0) return
      bytes += got
      const lines = (rest + buffer.toString('latin1', 0, got)).split('\n')
      rest = lines.pop() ?? ''
      yield* lines
    }
  } finally {
    closeSync(fd)
  }
}
