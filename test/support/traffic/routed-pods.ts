// SPDX-License-Identifier: Apache-2.0
// Pods as plugins leave them that route to each one by a link of its own: addresses without a subnet.

import { expect } from 'vitest'
import type { Call, Host } from '../host.ts'
import { runLine } from '../outcome.ts'

export interface RoutedPod {
  readonly call: Call & { readonly netns: string }
  readonly prevResult: object
}

/** A pod as Calico leaves it, which makes a link of that name anew. */
export function routedPod(host: Host, id: string, link: string, address: string, address6?: string): RoutedPod {
  const netns = host.pod(id)
  const label = netns.slice('/run/netns/'.length)
  host.run('ip', ['link', 'del', link])
  for (const line of [
    `ip link add ${link} up type veth peer name eth0 netns ${label}`,
    `ip route replace ${address} dev ${link}`,
    `sysctl -qw net.ipv4.conf.${link}.proxy_arp=1 net.ipv4.neigh.${link}.proxy_delay=0`,
    ...(address6 === undefined
      ? []
      : [
          `ip -6 addr add fe80::ecee:eeff:feee:eeee/64 dev ${link} nodad`,
          `ip -6 route replace ${address6} dev ${link}`,
        ]),
  ])
    runLine(host, line)
  for (const words of [
    `addr add ${address}/32 dev eth0`,
    'link set eth0 up',
    'route add 169.254.1.1 dev eth0',
    'route add default via 169.254.1.1 dev eth0',
    ...(address6 === undefined
      ? []
      : [
          `-6 addr add ${address6}/128 dev eth0 nodad`,
          '-6 route add fe80::ecee:eeff:feee:eeee dev eth0',
          '-6 route add default via fe80::ecee:eeff:feee:eeee dev eth0',
        ]),
  ])
    expect(host.inPod(netns, 'ip', words.split(' ')).code, words).toBe(0)
  const interfaces = [{ name: link }, { name: 'eth0', sandbox: netns }]
  const six = address6 === undefined ? [] : [{ interface: 1, address: `${address6}/128` }]
  const ips = [{ interface: 1, address: `${address}/32` }, ...six]
  return { call: { id, netns }, prevResult: { cniVersion: '1.0.0', interfaces, ips } }
}
