// SPDX-License-Identifier: Apache-2.0
// What a chained configuration decides on, from prevResult and what was seen.

import { describe, expect, it } from 'vitest'
import type { Result } from '../../../src/cni/results.ts'
import type { ChainedConf } from '../../../src/config/network-conf.ts'
import { opsOf, ownElements, undoOf } from '../../../src/drivers/attachment.ts'
import { asksForAnything, chainedAddresses, chainedResult, describeChained } from '../../../src/drivers/chained.ts'
import type { AttachmentId } from '../../../src/drivers/spec.ts'
import { acceptElements, policyElements } from '../../../src/features/firewall.ts'
import { errorOf, linkOf, placeOf, read } from '../call.ts'

const sandbox = '/run/netns/p'
const prevResult = {
  interfaces: [
    { name: 'br0' },
    { name: 'veth1', mac: '02:00:00:00:00:01' },
    { name: 'eth0', mac: '02:00:00:00:00:02', sandbox },
  ],
  ips: [
    { address: '10.9.9.9/24', interface: 0 },
    { address: '10.1.0.2/24', gateway: '10.1.0.1', interface: 2 },
    { address: 'fd00:1::2/64', interface: 2 },
  ],
  routes: [],
}

function seenOf(kind = 'veth', masterKind = 'bridge') {
  const eth0 = linkOf('eth0', { index: 2, kind, peerIndex: 7 })
  const veth1 = linkOf('veth1', { index: 7, kind: 'veth', peerIndex: 2, master: 'br0', masterKind })
  return { pod: { ...placeOf(eth0), rules: [] }, host: placeOf(veth1), ways: new Map([['10.1.0.2', 'br0']]) }
}

function confOf(more: object, given: Result = prevResult): ChainedConf {
  const conf = read({ prevResult: { cniVersion: '1.1.0', ...given }, ...more })
  if (conf.mode !== 'chained') throw new Error(`mode ${conf.mode} is not chained`)
  return conf
}

const key: AttachmentId = { network: 'net', containerId: 'c', ifName: 'eth0', role: 'chained' }

function specOf(more: object, seen = seenOf(), given: Result = prevResult) {
  return describeChained(key, confOf(more, given), seen)
}

const codeOf = (body: () => unknown) => errorOf(body).code

const ports = { runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 8080, protocol: 'tcp' }] } }
const bandwidth = { bandwidth: { egressRate: 8000, egressBurst: 8000 } }

describe('chained', () => {
  it('asks for nothing without features', () => {
    expect(asksForAnything(confOf({ mtu: 1400, firewall: { hostAccept: 'off' } }))).toBe(false)
    for (const more of [ports, bandwidth, { ipMasq: true }, { sbr: {} }, { tuning: { mtu: 1400 } }, { firewall: {} }])
      expect(asksForAnything(confOf(more))).toBe(true)
  })

  it.each<[string, readonly object[], readonly number[]]>([
    ['an index beyond the interfaces names none', [{ name: 'eth0', sandbox }], [0, 1, 2]],
    ['an entry may be without a sandbox', [{ name: 'eth0' }, { name: 'veth1' }], [0, 2]],
    ['an entry with a sandbox before one without', [{ name: 'eth0' }, { name: 'eth0', sandbox }], [1, 2]],
    [
      'another name in a sandbox is elsewhere',
      [
        { name: 'net1', sandbox },
        { name: 'eth0', sandbox },
      ],
      [1, 2],
    ],
  ])('%s', (_, interfaces, taken) => {
    const ips = [0, 1, 2].map((at) => ({ address: `10.1.0.${at}/24`, interface: at }))
    const found = chainedAddresses({ interfaces: interfaces as Result['interfaces'], ips, routes: [] }, 'eth0')
    expect(found).toEqual(taken.map((at) => ({ address: `10.1.0.${at}/24` })))
  })

  it('finds the veth on the host, and the bridge as the way', () => {
    const spec = specOf({ ...ports, ...bandwidth })
    expect(spec.hostPorts).toMatchObject({ link: 'br0', ports: [{ podIp: '10.1.0.2' }, { podIp: 'fd00:1::2' }] })
    expect(spec.bandwidth?.link).toBe('veth1')
    expect(spec.network).toMatchObject({
      ...{ name: 'net', role: 'chained', hairpin: ['10.1.0.0/24', 'fd00:1::/64'], hairpinLink: 'br0' },
    })
  })

  it('finds the gateway of a VLAN of the bridge as the way', () => {
    const firewall = { ingressPolicy: 'same-bridge' }
    const linksBy = (way: string, more: object) => {
      const { network } = specOf({ ...more, firewall }, { ...seenOf(), ways: new Map([['10.1.0.2', way]]) })
      const networks = network === undefined ? [] : [network]
      const fenced = policyElements(networks).flatMap(({ set, key: [link] }) => (set === 'fenced' ? [link] : []))
      const accepted = acceptElements(networks).flatMap(({ set, key: [link] }) => (set === 'acceptlinks' ? [link] : []))
      expect(accepted).toEqual(fenced)
      return fenced
    }
    expect(linksBy('br0.100', ports)).toEqual(['br0', 'br0.100'])
    expect(linksBy('br0.100', {})).toEqual(['br0', 'br0.100'])
    for (const way of ['br0', 'eth0', 'br0.x', 'br00.100']) expect(linksBy(way, ports)).toEqual(['br0'])
  })

  it('masquerades neighbours on any link that pods share, but addresses without a subnet', () => {
    const hairpinBy = (way: string, given: Result = prevResult) =>
      specOf(ports, { ...seenOf('veth', 'openvswitch'), ways: new Map([['10.1.0.2', way]]) }, given).network?.hairpin
    expect(hairpinBy('gw0')).toEqual(['10.1.0.0/24', 'fd00:1::/64'])
    expect(hairpinBy('veth1')).toEqual([])
    expect(hairpinBy('gw0', { ...prevResult, ips: [{ address: '10.1.0.2/32', interface: 2 }] })).toEqual([])
  })

  it('takes no master for a bridge that is none', () => {
    const seen = seenOf('veth', 'openvswitch')
    for (const ingressPolicy of ['same-bridge', 'isolated'])
      expect(codeOf(() => specOf({ firewall: { ingressPolicy } }, seen))).toBe(7)
    expect(specOf({ firewall: {} }, seen).network?.accept).toMatchObject({
      links: [],
      subnets: ['10.1.0.0/24', 'fd00:1::/64'],
    })
  })

  it('changes and adds to the result only what it did', () => {
    const mac = '0a:00:00:00:00:09'
    const result = chainedResult(prevResult, specOf({ tuning: { mac, mtu: 1400 }, ...bandwidth }))
    expect(result.interfaces.slice(0, 2)).toEqual(prevResult.interfaces.slice(0, 2))
    expect(result.interfaces[2]).toEqual({ name: 'eth0', mac, mtu: 1400, sandbox })
    expect(result.interfaces[3]?.name).toMatch(/^ifb/)
    expect(chainedResult(prevResult, specOf(ports))).toEqual(prevResult)
  })

  it('remembers what tuning changes, and nothing else, and puts it back', () => {
    const spec = specOf({ tuning: { mtu: 1400, promisc: true, txQLen: 5 } })
    const before = { mtu: 1500, promisc: false, txQLen: 1000 }
    expect(spec.tuning?.before).toEqual(before)
    expect(opsOf(spec)).toMatchObject([{ kind: 'link.set', set: { mtu: 1400, promisc: true, txQLen: 5 } }])
    expect(undoOf(spec, [], 7)).toMatchObject([{ kind: 'link.set', set: before }])
  })

  it('refuses what cannot act on the interface', () => {
    const seen = seenOf('macvlan')
    expect(codeOf(() => specOf(bandwidth, seen))).toBe(7)
    expect(codeOf(() => specOf({ firewall: { ingressPolicy: 'isolated' } }, seen))).toBe(7)
    expect(specOf(ports, seen).hostPorts?.link).toBe('br0')
    expect(codeOf(() => specOf(ports, { ...seen, ways: new Map() }))).toBe(7)
    expect(codeOf(() => specOf({ sbr: {} }, { ...seen, pod: { links: new Map(), routes: [], rules: [] } }))).toBe(4)
  })

  it('refuses sbr where prevResult has no address at all, as upstream does', () => {
    const by = (ips: Result['ips']) => () => specOf({ sbr: {} }, seenOf(), { ...prevResult, ips })
    expect(codeOf(by([]))).toBe(7)
    expect(by([{ address: '10.9.9.9/24', interface: 0 }])().sbr).toEqual({ sources: [], moved: [] })
  })

  it('isolates a bridge port, and from others a link that is on no bridge', () => {
    const more = { firewall: { ingressPolicy: 'isolated' } }
    const spec = specOf(more)
    expect([spec.chained, spec.fencedLink]).toEqual([
      { hostLink: 'veth1', hostIndex: 7, isolatesPort: true },
      undefined,
    ])
    const routed = { ...seenOf(), host: placeOf(linkOf('veth1', { index: 7, kind: 'veth', peerIndex: 2 })) }
    expect(specOf(more, routed).fencedLink).toBe('veth1')
  })
})

describe('a chained pod whose addresses have no subnet', () => {
  const ips = [
    { address: '10.1.0.2/32', interface: 2 },
    { address: 'FD00:1:0::2/128', interface: 2 },
  ]
  const nonMasqueradeCIDRs = ['10.2.0.0/16', '10.2.3.0/24', '192.0.2.7/32', 'fd00:2::/64']
  const spec = specOf({ ipMasq: true, nonMasqueradeCIDRs }, seenOf(), { ...prevResult, ips })

  it('has its masquerade in elements of its own, and takes them with it', () => {
    expect(ownElements(spec).map(({ set, key: fields }) => `${set} ${fields.join(' ')}`)).toEqual([
      'masqhost4 10.1.0.2',
      'keephost4 10.1.0.2 10.2.0.0/16',
      'keephost4 10.1.0.2 192.0.2.7',
      'masqhost6 fd00:1::2',
      'keephost6 fd00:1::2 fd00:2::/64',
    ])
    expect(undoOf(spec, [], 7).map(({ kind }) => kind)).toEqual(Array(5).fill('element.delete'))
  })

  it('gives the network no subnet, as one with a subnet has no elements of its own', () => {
    expect(spec.network?.masquerade?.sources).toEqual([])
    const wide = specOf({ ipMasq: true })
    expect([wide.masquerade, wide.network?.masquerade?.sources]).toEqual([undefined, ['10.1.0.0/24', 'fd00:1::/64']])
  })
})
