// SPDX-License-Identifier: Apache-2.0
// What conntrack(8) lists, one entry a line: `udp 17 29 src=… dst=… sport=… dport=… src=… …`; the first of each is of
// the entry's first packet (libnetfilter_conntrack, __snprintf_conntrack).

import type { Flow } from '../features/port-flows.ts'

/** The listed entries of protocols with ports; other lines are read over. */
export function readFlows(text: string): readonly Flow[] {
  return text.split('\n').flatMap((line) => {
    const [, protocol, address, port] = /^(\w+) .*? dst=(\S+) sport=\d+ dport=(\d+)/.exec(line) ?? []
    if (protocol === undefined || address === undefined) return []
    return [{ protocol, address, port: Number(port) }]
  })
}
