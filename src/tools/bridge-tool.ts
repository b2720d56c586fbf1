// SPDX-License-Identifier: Apache-2.0
// VLANs of bridge ports to the arguments of one `bridge` command each (bridge(8)).

import type { Op } from '../model/op.ts'

/** Operations that iproute2's `bridge` runs. */
export type VlanOp = Extract<Op, { kind: 'vlan.add' | 'vlan.del' }>

/** The words after `bridge` for one operation; one line of a batch. */
export function bridgeWords(op: VlanOp): readonly string[] {
  const vlan = ['vlan', op.kind === 'vlan.add' ? 'add' : 'del', 'dev', op.dev, 'vid', `${op.vid}`]
  return op.kind === 'vlan.add' && !op.tagged ? [...vlan, 'pvid', 'untagged'] : vlan
}

/** VLAN ids by port from `bridge -j vlan show`; a range is `vlan` to `vlanEnd`. */
export function readVlans(stdout: string): ReadonlyMap<string, readonly number[]> {
  const ports = JSON.parse(stdout || '[]') as readonly {
    ifname: string
    vlans: readonly { vlan: number; vlanEnd?: number }[]
  }[]
  return new Map(
    ports.map((port) => [port.ifname, port.vlans.flatMap(({ vlan, vlanEnd = vlan }) => idsFrom(vlan, vlanEnd))]),
  )
}

function idsFrom(first: number, last: number): readonly number[] {
  return Array.from({ length: last - first + 1 }, (_, at) => first + at)
}
