// SPDX-License-Identifier: Apache-2.0
// Whether a process of the node listens on a port: /proc/net, read only as far as needed.

import { formatAddress } from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import type { HostPort } from '../../model/attachment.ts'
import { blocksOf } from './kernel-files.ts'

/** About 7000 sockets. Listening TCP sockets come first, so this bounds UDP only. */
const mostBytes = 1024 * 1024

/** A host port and the socket that had its traffic so far. */
interface PortListener {
  readonly port: HostPort
  readonly listener: Listener
}

/** Throws CniError 104 with the first listener's address. SCTP has no list of sockets. */
export function refuseListeners(ports: readonly HostPort[]): void {
  const [first] = findListeners(ports)
  if (first === undefined) return
  const { what, where } = textsOf(first)
  throw new CniError('port-reserved', `${what} is taken: a process of the node listens on ${where}`, {
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

function* linesOf(file: string): Generator<string> {
  let bytes = 0
  for (const block of blocksOf(file)) {
    yield* block.split('\n')
    bytes += block.length
    if (bytes >= mostBytes) return
  }
}

// A line of /proc/net/tcp and its like (proc(5); net/ipv4/tcp_ipv4.c, tcp4_seq_show; net/ipv4/udp.c).

/** A socket that waits for packets from anyone. `family`: of the packets; a socket on :: takes both. */
interface Listener {
  readonly family: 4 | 6
  readonly address: string
  readonly port: number
}

/** TCP_LISTEN and TCP_CLOSE (include/net/tcp_states.h): the latter is what an unconnected UDP socket shows. */
const listening = '0A'
const unconnected = '07'

/** The line's socket, 'other' for one that is connected, undefined for a line that shows none. */
export function readListener(line: string): Listener | 'other' | undefined {
  const found = /^ *\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) /.exec(line)
  const [, address, port, state] = found ?? []
  if (address === undefined || port === undefined) return undefined
  if (state !== listening && state !== unconnected) return 'other'
  const value = numberOf(address)
  // ::ffff:a.b.c.d takes IPv4 only.
  const family = address.length === 8 || value >> 32n === 0xffffn ? 4 : 6
  const bare = family === 4 ? value & 0xffff_ffffn : value
  return { family, address: formatAddress({ family, value: bare }), port: Number.parseInt(port, 16) }
}

/** Whether packets to the host port would have gone to the listener. No host port takes those to ::1 (tools/nft.ts). */
export function listensOn(listener: Listener, port: HostPort): boolean {
  if (listener.port !== port.hostPort || listener.address === '::1' || port.hostIp === '::1') return false
  // A socket on :: takes IPv4 too, unless it asked not to, which /proc does not show.
  if (listener.address === '::') return true
  if (listener.family !== port.family) return false
  return port.hostIp === undefined || listener.address === '0.0.0.0' || listener.address === port.hostIp
}

/** 32-bit words in the order of the machine, which is little-endian wherever we run. */
function numberOf(hex: string): bigint {
  const words = hex.match(/.{8}/g) ?? []
  const bytes = words.flatMap((word) => (word.match(/../g) ?? []).reverse())
  return BigInt(`0x${bytes.join('')}`)
}
