// SPDX-License-Identifier: Apache-2.0
// Whether a process of the node listens on a port: /proc/net, read only as far as needed.

import { CniError } from '../../cni/error.ts'
import { type Listener, listensOn, readListener } from '../../features/listening.ts'
import type { HostPort } from '../../model/attachment.ts'
import { blocksOf } from './kernel-files.ts'

/** About 7000 sockets. Listening TCP sockets come first, so this bounds UDP only. */
const mostBytes = 1024 * 1024

/** A host port and the socket that had its traffic so far. */
export interface PortListener {
  readonly port: HostPort
  readonly listener: Listener
}

/** Throws CniError 104 with the first listener's address. SCTP has no list of sockets. */
export function refuseListeners(ports: readonly HostPort[]): void {
  const [first] = findListeners(ports)
  if (first === undefined) return
  const { what, where } = textsOf(first)
  throw new CniError('port-listened-on', `${what} is taken: a process of the node listens on ${where}`, {
    details:
      `\`ss -lnp sport = :${first.port.hostPort}\` shows it; use another port, or ` +
      `set portmap.onListening to "warn"`,
  })
}

/** Tells each listener on stderr. Never throws: nobody waits for it, who could take back what an ADD has made. */
export function reportListeners(ports: readonly HostPort[]): void {
  try {
    const listeners = findListeners(ports).map(textsOf)
    const lines = listeners.map(
      ({ what, where }) => `${what} goes to the pod from now on; a process of the node listens on ${where} too`,
    )
    for (const line of new Set(lines)) process.stderr.write(`trestle: ${line}\n`)
  } catch (error) {
    process.stderr.write(`trestle: cannot tell who listens on host ports: ${(error as Error).message}\n`)
  }
}

/** A host port and who listens on it, in words. */
export function textsOf({ port, listener }: PortListener): { readonly what: string; readonly where: string } {
  const address = listener.family === 6 ? `[${listener.address}]` : listener.address
  return { what: `host port ${port.hostPort}/${port.protocol}`, where: `${address}:${listener.port}` }
}

/** The first listener of each port. Reads nothing when there are no ports. */
export function findListeners(ports: readonly HostPort[]): readonly PortListener[] {
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
function forEachListener(file: string, visit: (listener: Listener) => void): void {
  const isTcp = file.includes('/tcp')
  for (const line of linesOf(file)) {
    const listener = readListener(line)
    if (listener === 'other' && isTcp) return
    if (listener !== undefined && listener !== 'other') visit(listener)
  }
}

/** The file's lines, read as they are wanted. */
function* linesOf(file: string): Generator<string> {
  let bytes = 0
  for (const block of blocksOf(file)) {
    yield* block.split('\n')
    bytes += block.length
    if (bytes >= mostBytes) return
  }
}
