// SPDX-License-Identifier: Apache-2.0
// Each operation on links as the words of one command, and in which ways it does not hold.

import { describe, expect, it } from 'vitest'
import { differencesOf } from '../../../src/kernel/differences.ts'
import { ipWords } from '../../../src/kernel/ip-words.ts'
import type { Observed, ObservedLink } from '../../../src/kernel/observed.ts'
import type { IpOp, LinkAttributes, Op } from '../../../src/kernel/operation.ts'
import { linkOf, placeOf } from '../call.ts'

const [mac, peerMac] = ['02:00:00:00:00:01', '02:00:00:00:00:02']
const peer = { name: 'eth0', mac: peerMac, mtu: 1400, isInPod: true }
const veth: IpOp = { kind: 'veth.add', name: 'v', mac, mtu: 1500, peer }
const bridge: IpOp = { kind: 'bridge.add', name: 'cni0', mac, mtu: 1450, vlanFiltering: false }
const set = (attributes: LinkAttributes, dev = 'v'): IpOp => ({ kind: 'link.set', dev, set: attributes })
const at = (op: IpOp, place: Op['place'] = 'host'): Op => ({ ...op, place, why: 'w' })

describe('the words', () => {
  const newVeth = `link add name v mtu 1500 address ${mac}`
  const end = `up type veth peer name eth0 mtu 1400 address ${peerMac}`
  it.each<[string, IpOp]>([
    [`${newVeth} ${end} netns /proc/self/fd/3`, veth],
    [`${newVeth} master cni0 ${end}`, { ...veth, master: 'cni0', peer: { ...peer, isInPod: false } }],
    [`link add name cni0 mtu 1450 address ${mac} up type bridge`, bridge],
    [`link add name cni0 mtu 1450 address ${mac} up type bridge vlan_filtering 1`, { ...bridge, vlanFiltering: true }],
    [`link add name ifb1 mtu 1500 address ${mac} up type ifb`, { kind: 'ifb.add', name: 'ifb1', mac, mtu: 1500 }],
    [
      `link add link up0 name m mtu 1500 address ${mac} group 7 netns /proc/self/fd/3 type macvlan mode vepa`,
      { kind: 'macvlan.add', name: 'm', mac, mtu: 1500, master: 'up0', mode: 'vepa', group: 7 },
    ],
    ['link set dev v up', set({ up: true })],
    // Most drivers take neither a MAC nor a name while the link is up.
    [
      `link set dev v down netns /proc/self/fd/4 name up0 address ${mac} mtu 1400 alias a`,
      set({ up: false, netns: 'host', name: 'up0', mac, mtu: 1400, alias: 'a' }),
    ],
    ['link set dev v alias a addrgenmode none', set({ alias: 'a', withoutLinkLocal: true })],
    [
      'link set dev v promisc off allmulticast on txqueuelen 0 group 77',
      set({ promisc: false, allmulti: true, txQLen: 0, group: 77 }),
    ],
    ['link set dev v master cni0 up', set({ master: 'cni0', up: true })],
    ['link set dev v type bridge_slave hairpin on isolated off', set({ hairpin: true, isolated: false })],
    ['link set dev v type bridge_slave isolated on', set({ isolated: true })],
    ['link del group 77', { kind: 'group.delete', group: 77, devs: ['v'] }],
    ['link del dev v', { kind: 'link.delete', dev: 'v' }],
    ['link show dev eth0', { kind: 'link.show', dev: 'eth0' }],
    ['vlan add dev v vid 100 pvid untagged', { kind: 'vlan.add', dev: 'v', vid: 100, pvid: true }],
    ['vlan add dev v vid 100', { kind: 'vlan.add', dev: 'v', vid: 100, pvid: false }],
    ['vlan del dev v vid 1', { kind: 'vlan.delete', dev: 'v', vid: 1 }],
  ])('%s', (text, op) => expect(ipWords(op).join(' ')).toBe(text))
})

describe('the differences', () => {
  const port: IpOp = { ...veth, master: 'cni0', peer: { ...peer, mtu: 1500 } }
  const host = { mac, master: 'cni0', kind: 'veth', peerIndex: 2, hairpin: true, isolated: false, alias: 'a' }
  const pod = linkOf('eth0', { mac: peerMac, index: 2 })
  const seen = (more: object, inPod = [pod]): Observed => {
    return {
      host: placeOf(linkOf('v', { ...host, ...more }), linkOf('cni0', { kind: 'bridge', mac })),
      pod: placeOf(...inPod),
    }
  }

  it.each<[string, Op, Observed, readonly string[]]>([
    ['none', at(port), seen({}), []],
    ['none where nothing was looked at', at(port), {}, []],
    ['a host end that is down', at(port), seen({ up: false }), ['v is down']],
    ['another bridge', at(port), seen({ master: 'br9' }), ['bridge of v is br9, not cni0']],
    ['another pod’s link', at(port), seen({ peerIndex: 77 }), ['other end of v is 77, not 2']],
    ['another MAC in the pod', at(port), seen({}, [{ ...pod, mac }]), [`MAC of eth0 is ${mac}, not ${peerMac}`]],
    ['no link in the pod', at(port), seen({}, []), ['eth0 is missing']],
    ['a pod alone: the host end was not looked at', at(port), { pod: placeOf(pod) }, []],
    [
      'another kind of link',
      at(bridge),
      { host: placeOf(linkOf('cni0', { kind: 'dummy' })) },
      ['kind of cni0 is dummy, not bridge'],
    ],
    [
      'hairpin off',
      at(set({ hairpin: true, isolated: false })),
      seen({ hairpin: false }),
      ['hairpin of v is off, not on'],
    ],
    [
      'every setting at once',
      at(set({ up: false, mac: peerMac, mtu: 1400, promisc: true, allmulti: true, txQLen: 5, alias: 'b' })),
      seen({}),
      [
        ...['v is up', 'v is not promiscuous', `MAC of v is ${mac}, not ${peerMac}`, 'MTU of v is 1500, not 1400'],
        ...['alias of v is a, not b', 'queue length of v is 1000, not 5', 'allmulti of v is off, not on'],
      ],
    ],
    ['a link that moved is elsewhere', at(set({ netns: 'pod' })), { host: placeOf() }, []],
    ['a link that was renamed', at(set({ name: 'eth0' }), 'pod'), seen({}), []],
    [
      'a VLAN',
      at({ kind: 'vlan.add', dev: 'v', vid: 10, pvid: true }),
      { vlans: new Map([['v', [1]]]) },
      ['VLAN 10 is missing on v'],
    ],
  ])('%s', (_, op, observed, lines) => {
    expect(differencesOf(op, observed)).toEqual(lines)
  })

  it('of a macvlan are told in the pod, by its MAC: it has its own name there', () => {
    const op = at({ kind: 'macvlan.add', name: 'm', mac, mtu: 1500, master: 'up0', mode: 'bridge', group: 1 })
    const link = linkOf('eth0', { mac, kind: 'macvlan', macvlanMode: 'bridge', peerIndex: 5 })
    const on = (...links: readonly ObservedLink[]): Observed => ({
      host: placeOf(linkOf('up0', { index: 5 })),
      pod: placeOf(...links),
    })
    expect(differencesOf(op, on(link))).toEqual([])
    expect(differencesOf(op, { pod: placeOf(link) })).toEqual([])
    expect(differencesOf(op, on({ ...link, mtu: 9000, macvlanMode: 'vepa', peerIndex: 6 }))).toEqual([
      'macvlan mode of eth0 is vepa, not bridge',
      'MTU of eth0 is 9000, not 1500',
      'master of eth0 is 6, not 5',
    ])
    expect(differencesOf(op, on())).toEqual([`macvlan with MAC ${mac} is missing in the pod`])
  })
})
