// SPDX-License-Identifier: Apache-2.0
// Pods as another plugin leaves them on a bridge of its own.

import { expect } from 'vitest'
import type { Call, Host } from '../host.ts'

export interface BridgedPod {
  readonly call: Call & { readonly netns: string }
  readonly prevResult: object
}

/** The plugin's bridge. `gateway`: the link with the gateway's address, which with a VLAN is a veth into the bridge. */
export function foreignBridge(host: Host, name: string, address: string, gateway = name): void {
  const lines = [
    `link add ${name} up type bridge`,
    ...(gateway === name
      ? []
      : [`link add ${gateway} up type veth peer name v${name}`, `link set v${name} up master ${name}`]),
    `addr add ${address}/24 dev ${gateway}`,
  ]
  expect(host.run('ip', ['-batch', '-'], `${lines.join('\n')}\n`).stderr).toBe('')
  // As with VLAN filtering: the bridge itself does not answer for the gateway in its VLAN.
  host.run('sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv4.conf.all.arp_ignore=1'])
}

/** A pod there, whose gateway is the first address of its subnet. */
export function bridgedPod(host: Host, id: string, at: { bridge: string; address: string }): BridgedPod {
  const netns = host.pod(id)
  host.run('ip', `link add h${id} up master ${at.bridge} type veth peer name eth0 netns ${netns}`.split(' '))
  const gateway = at.address.replace(/\d+$/, '1')
  const lines = [`addr add ${at.address}/24 dev eth0`, 'link set eth0 up', `route add default via ${gateway}`]
  expect(host.inPod(netns, 'sh', ['-c', lines.map((line) => `ip ${line}`).join(' && ')]).stderr).toBe('')
  const interfaces = [{ name: at.bridge }, { name: `h${id}` }, { name: 'eth0', sandbox: netns }]
  const ips = [{ address: `${at.address}/24`, gateway, interface: 2 }]
  return { call: { id, netns }, prevResult: { cniVersion: '1.1.0', interfaces, ips } }
}
