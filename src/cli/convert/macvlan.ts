// SPDX-License-Identifier: Apache-2.0
// The upstream macvlan plugin (docs/design.md, "Upstream macvlan") with its IPAM, as keys of ours.

import { lookUp } from '../../cni/json/json-keys.ts'
import { type Converted, ipamRemarks, keptKeys, unknownRemarks } from './main-plugin.ts'
import { type Remark, warning } from './remarks.ts'

type Json = Readonly<Record<string, unknown>>

/** Plugins that work on the host's side of the packets, of which a macvlan has none. */
const onHost: readonly unknown[] = ['portmap', 'bandwidth', 'firewall']

const known = [
  ...['type', 'name', 'cniVersion', 'capabilities', 'runtimeConfig', 'prevResult', 'args', 'dns', 'ipam', 'mtu'],
  ...['master', 'mode', 'mac', 'linkInContainer', 'bcqueuelen'],
]

/**
 * Whether mode macvlan can take its place: on a link of the node, and without plugins behind it that mode macvlan
 * refuses.
 */
export function isPlainMacvlan(plugin: Json, others: readonly Json[]): boolean {
  return lookUp(plugin, 'linkInContainer') !== true && !others.some((other) => onHost.includes(lookUp(other, 'type')))
}

/** The keys for the interface. Upstream's defaults are ours. */
export function convertMacvlan(plugin: Json): Converted {
  const [master, mode, mtu] = ['master', 'mode', 'mtu'].map((key) => lookUp(plugin, key))
  return {
    keys: {
      mode: 'macvlan',
      ...(master ? { master } : {}),
      ...(mode ? { macvlanMode: mode } : {}),
      ...(mtu ? { mtu } : {}),
      ...keptKeys(plugin),
    },
    remarks: [
      ...macRemarks(plugin),
      ...queueRemarks(plugin),
      ...ipamRemarks(lookUp(plugin, 'ipam')),
      ...unknownRemarks(plugin, { type: 'macvlan', known }),
    ],
  }
}

/** MACVLAN_DEFAULT_BC_QUEUE_LEN (drivers/net/macvlan.c), in packets; 0 leaves it to the kernel. */
const usualQueue = 1000

function queueRemarks(plugin: Json): readonly Remark[] {
  const packets = lookUp(plugin, 'bcqueuelen') ?? 0
  if (packets === 0 || packets === usualQueue) return []
  const why = `trestle has no such key, the queue of broadcasts holds the kernel's ${usualQueue} packets`
  return [warning('macvlan.bcqueuelen', `${JSON.stringify(packets)} is left out: ${why}`)]
}

function macRemarks(plugin: Json): readonly Remark[] {
  const mac = lookUp(plugin, 'mac')
  if (mac === undefined || mac === null || mac === '') return []
  const why = `it would be every pod's; for one of its own declare the capability "mac"`
  return [warning('macvlan.mac', `${JSON.stringify(mac)} is left out: ${why}`)]
}
