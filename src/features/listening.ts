// SPDX-License-Identifier: Apache-2.0
// Sockets of the node that a host port would take the traffic from, from /proc/net/tcp and its like
// (proc(5); net/ipv4/tcp_ipv4.c, tcp4_seq_show; net/ipv4/udp.c).

import { formatAddress } from '../cni/address.ts'
import type { HostPort } from '../model/attachment.ts'

/** A socket that waits for packets from anyone. `family`: of the packets; a socket on :: takes both. */
export interface Listener {
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

/** Whether packets to the host port would have gone to the listener. No host port takes those to ::1 (`ownRules`, tools/nft.ts). */
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
