// SPDX-License-Identifier: Apache-2.0
// What an earlier plugin of a list is taken to have made, for an entry that acts on it: by its prevResult, where the
// configuration has one.

import { bareAddress } from '../../cni/model/address.ts'
import { parseMac } from '../../cni/model/mac-address.ts'
import type { NetConf } from '../../cni/model/net-conf.ts'
import type { Result } from '../../cni/model/result.ts'
import type { ObservedLink, ObservedNamespace } from '../../plan/model/observed.ts'
import type { ChainedSurroundings } from '../../plan/modes/chained-spec.ts'

/**
 * An interface and an address for documentation (RFC 5737). `type`: of the plugin that makes it; `ifName`, `sandbox`:
 * of the call.
 */
export function assumedPrevious(type: string, { ifName, sandbox }: { ifName: string; sandbox: string }): Result {
  const ends = type === 'bridge' ? [{ name: 'cni0' }, { name: 'veth0' }] : type === 'ptp' ? [{ name: 'veth0' }] : []
  const interfaces = [...ends, { name: ifName, mac: podMac, sandbox }]
  const ips = [{ address: '192.0.2.2/24', gateway: '192.0.2.1', interface: ends.length }]
  return { interfaces, ips, routes: [] }
}

/**
 * The links of prevResult: one on the host is the other end of the interface, a first of two the bridge that it is on;
 * with none the interface is no veth. The host reaches the addresses by the bridge, or by that end. A MAC that is none
 * is left out: an ADD asks the kernel, and never reads it here.
 */
export function assumedSurroundings({ prevResult }: NetConf, dev: string): ChainedSurroundings {
  const { interfaces = [], ips = [] } = prevResult ?? {}
  const [first, second] = interfaces.filter(({ sandbox }) => !sandbox)
  const end = second ?? first
  const bridge = second === undefined ? undefined : first?.name
  const podLink = interfaces.find(({ name, sandbox }) => name === dev && sandbox)
  const pod = link(dev, {
    mac: parseMac(podLink?.mac ?? '') ?? podMac,
    mtu: podLink?.mtu ?? ethernetMtu,
    ...(end ? veth(2, 3) : { kind: 'macvlan' }),
  })
  const host = end && link(end.name, { ...veth(3, 2), ...(bridge === undefined ? {} : { master: bridge }) })
  const way = bridge ?? end?.name
  return {
    pod: namespaceOf([pod]),
    host: namespaceOf(host === undefined ? [] : [host]),
    hostLinks: new Map(way === undefined ? [] : ips.map(({ address }) => [bareAddress(address), way])),
  }
}

const ethernetMtu = 1500
const podMac = '0a:58:c0:00:02:02'

function veth(index: number, peerIndex: number) {
  return { kind: 'veth', index, peerIndex } as const
}

function link(name: string, more: Partial<ObservedLink>): ObservedLink {
  const plain = { index: 2, mac: '', mtu: ethernetMtu, up: true, promisc: false, allmulti: false, addresses: [] }
  return { ...plain, name, txqlen: 1000, ...more }
}

function namespaceOf(links: readonly ObservedLink[]): ObservedNamespace {
  return { links: new Map(links.map((each) => [each.name, each])), routes: new Map() }
}
