// SPDX-License-Identifier: Apache-2.0
// What a chained configuration decides on, from prevResult and what was seen.

import { describe, expect, it } from 'vitest'
import { CniError } from '../../../src-before/cni/error.ts'
import { readInvocation } from '../../../src-before/cni/invocation.ts'
import type { Result } from '../../../src-before/cni/result.ts'
import { readConfig } from '../../../src-before/config/config.ts'
import { attachmentRuleOps, hostOps, podOps, podTeardownOps, teardownOps } from '../../../src-before/drivers/attach.ts'
import {
  addressesOf,
  asksForAnything,
  chainedNetwork,
  chainedResult,
  chainedSpec,
} from '../../../src-before/drivers/chained.ts'
import { acceptElements, isolationElements } from '../../../src-before/features/firewall.ts'
import { withoutFormerHosts } from '../../../src-before/features/masquerade.ts'
import type { AttachmentSpec, NetworkSpec } from '../../../src-before/model/attachment.ts'
import type { ObservedLink } from '../../../src-before/model/observed.ts'
import { describeElement } from '../../../src-before/model/op.ts'
import { networkOfChain } from '../../../src-before/plan/order/chained.ts'

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

function linkOf(name: string, more: Partial<ObservedLink>): ObservedLink {
  const flags = { up: true, promisc: false, allmulti: false, txqlen: 1000, addresses: [] }
  return { name, index: 1, mac: '02:00:00:00:00:02', mtu: 1500, ...flags, ...more }
}

function seenOf(kind = 'veth', masterKind = 'bridge') {
  const eth0 = linkOf('eth0', { index: 2, kind, peerIndex: 7 })
  const veth1 = linkOf('veth1', { index: 7, kind: 'veth', peerIndex: 2, master: 'br0', masterKind })
  return {
    pod: { links: new Map([['eth0', eth0]]), routes: new Map(), rules: [] },
    host: { links: new Map([['veth1', veth1]]), routes: new Map() },
    hostLinks: new Map([['10.1.0.2', 'br0']]),
  }
}

function confOf(more: object) {
  const call = { CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'c', CNI_NETNS: sandbox, CNI_IFNAME: 'eth0' }
  const stdin = {
    cniVersion: '1.1.0',
    name: 'net',
    type: 'trestle',
    prevResult: { cniVersion: '1.1.0', ...prevResult },
    ...more,
  }
  const conf = readConfig(JSON.stringify(stdin), readInvocation(call))
  if (conf.role !== 'chained') throw new Error(`mode ${conf.mode} is not chained`)
  return conf
}

const key = { network: 'net', containerId: 'c', ifName: 'eth0', role: 'chained' } as const

function specOf(more: object, seen = seenOf()) {
  return chainedSpec({ key, conf: confOf(more), prevResult, seen })
}

function codeOf(body: () => unknown): number | undefined {
  try {
    body()
    return undefined
  } catch (error) {
    if (error instanceof CniError) return error.code
    throw error
  }
}

const ports = { runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 8080, protocol: 'tcp' }] } }
const bandwidth = { bandwidth: { egressRate: 8000, egressBurst: 8000 } }

describe('chained', () => {
  it('asks for nothing without features, and for something where a policy is over', () => {
    expect(asksForAnything(confOf({ mtu: 1400, firewall: { hostAccept: 'off' } }), undefined)).toBe(false)
    for (const more of [ports, bandwidth, { ipMasq: true }, { sbr: {} }, { tuning: { mtu: 1400 } }]) {
      expect(asksForAnything(confOf(more), undefined)).toBe(true)
    }
    const known = { name: 'net/chained', forwarding: [], ingressPolicy: 'isolated', removeWhenEmpty: false } as const
    expect(asksForAnything(confOf({}), known)).toBe(true)
  })

  it('takes the addresses of the interface, and those that name none', () => {
    expect(addressesOf(prevResult, 'eth0').map((ip) => ip.address)).toEqual(['10.1.0.2/24', 'fd00:1::2/64'])
    expect(addressesOf({ interfaces: [], ips: [{ address: '10.1.0.2/24' }], routes: [] }, 'eth0')).toHaveLength(1)
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
    const found = addressesOf({ interfaces: interfaces as Result['interfaces'], ips, routes: [] }, 'eth0')
    expect(found).toEqual(taken.map((at) => ({ address: `10.1.0.${at}/24` })))
  })

  it('finds the veth on the host, and the bridge as the way', () => {
    const spec = specOf({ ...ports, ...bandwidth })
    expect(spec.hostPorts).toMatchObject({ link: 'br0', ports: [{ podIp: '10.1.0.2' }, { podIp: 'fd00:1::2' }] })
    expect(spec.bandwidth?.link).toBe('veth1')
    expect(hostOps(spec).map((op) => op.kind)).toEqual(['ifb.add', 'link.alias'])
    const network = chainedNetwork(confOf(ports), spec, seenOf())
    expect(network).toMatchObject({ name: 'net/chained', hairpin: ['10.1.0.0/24', 'fd00:1::/64'] })
  })

  it('finds the gateway of a VLAN of the bridge as the way', () => {
    const more = { ...ports, firewall: { ingressPolicy: 'same-bridge' } }
    const by = (way: string, keys: object) => {
      const seen = { ...seenOf(), hostLinks: new Map([['10.1.0.2', way]]) }
      return chainedNetwork(confOf(keys), specOf(keys, seen), seen)
    }
    const network = by('br0.100', more)
    expect(network).toMatchObject({ hairpin: ['10.1.0.0/24', 'fd00:1::/64'], gatewayLink: 'br0.100' })
    const elements = [...isolationElements(network), ...acceptElements([network])].map(describeElement)
    expect(elements).toEqual(expect.arrayContaining(['br0', 'br0.100', 'br0.100 br0.100']))
    expect(acceptElements([network]).filter(({ set }) => set === 'acceptlinks')).toHaveLength(2)
    // It is the same for a pod without host ports, and a way elsewhere is none.
    expect(by('br0.100', { firewall: more.firewall }).gatewayLink).toBe('br0.100')
    for (const way of ['br0', 'eth0', 'br0.x', 'br00.100']) expect(by(way, more).gatewayLink).toBeUndefined()
  })

  it('masquerades neighbours on any link that pods share, but addresses without a subnet', () => {
    const networkBy = (way: string, given = prevResult) => {
      const seen = { ...seenOf('veth', 'openvswitch'), hostLinks: new Map([['10.1.0.2', way]]) }
      const spec = chainedSpec({ key, conf: confOf(ports), prevResult: given, seen })
      return chainedNetwork(confOf(ports), spec, seen)
    }
    expect(networkBy('gw0').hairpin).toEqual(['10.1.0.0/24', 'fd00:1::/64'])
    expect(networkBy('veth1').hairpin).toBeUndefined()
    const host = { ...prevResult, ips: [{ address: '10.1.0.2/32', interface: 2 }] }
    expect(networkBy('gw0', host).hairpin).toBeUndefined()
  })

  it('takes no master for a bridge that is none', () => {
    const seen = seenOf('veth', 'openvswitch')
    for (const ingressPolicy of ['same-bridge', 'isolated'])
      expect(codeOf(() => specOf({ firewall: { ingressPolicy } }, seen))).toBe(7)
    const more = { firewall: {} }
    expect(chainedNetwork(confOf(more), specOf(more, seen), seen)).toMatchObject({
      acceptSubnets: ['10.1.0.0/24', 'fd00:1::/64'],
    })
    expect(chainedNetwork(confOf(more), specOf(more, seen), seen).hostAccept).toBeUndefined()
  })

  it('changes and adds to the result only what it did', () => {
    const mac = '0a:00:00:00:00:09'
    const result = chainedResult(prevResult, specOf({ tuning: { mac, mtu: 1400 }, ...bandwidth }))
    expect(result.interfaces.slice(0, 2)).toEqual(prevResult.interfaces.slice(0, 2))
    expect(result.interfaces[2]).toEqual({ name: 'eth0', mac, mtu: 1400, sandbox })
    expect(result.interfaces[3]?.name).toMatch(/^ifb/)
    expect(chainedResult(prevResult, specOf(ports))).toEqual(prevResult)
  })

  it('remembers what tuning changes, and nothing else', () => {
    const spec = specOf({ tuning: { mtu: 1400, promisc: true, txQLen: 5 } })
    expect(spec.tuning?.before).toEqual({ mtu: 1500, promisc: false, txQLen: 1000 })
    expect(podOps(spec).map((op) => op.kind)).toEqual(['link.mtu', 'link.promisc', 'link.txqlen'])
    expect(podTeardownOps(spec)).toMatchObject([
      { kind: 'link.promisc', on: false },
      { kind: 'link.mtu', mtu: 1500 },
      { kind: 'link.txqlen', length: 1000 },
    ])
  })

  it('puts back a queue length of 0, which ip does not print', () => {
    const { txqlen, ...eth0 } = linkOf('eth0', { index: 2, kind: 'veth', peerIndex: 7 })
    const seen = { ...seenOf(), pod: { ...seenOf().pod, links: new Map([['eth0', eth0]]) } }
    expect(txqlen).toBeDefined()
    expect(specOf({ tuning: { txQLen: 5 } }, seen).tuning?.before).toEqual({ txQLen: 0 })
  })

  it('takes its queueing off a host end that stays', () => {
    expect(teardownOps(specOf(bandwidth), 7)).toMatchObject([
      { kind: 'qdisc.del', dev: 'veth1', at: 'ingress' },
      { kind: 'link.del' },
    ])
  })

  it('refuses what cannot act on the interface', () => {
    const seen = seenOf('macvlan')
    expect(codeOf(() => specOf(bandwidth, seen))).toBe(7)
    expect(codeOf(() => specOf({ firewall: { ingressPolicy: 'isolated' } }, seen))).toBe(7)
    expect(codeOf(() => specOf(ports, seen))).toBeUndefined()
    expect(codeOf(() => specOf(ports, { ...seen, hostLinks: new Map() }))).toBe(7)
    expect(codeOf(() => specOf({ sbr: {} }, { ...seen, pod: { ...seen.pod, links: new Map() } }))).toBe(4)
  })

  it('refuses sbr where prevResult has no address at all, as upstream does', () => {
    const by = (ips: Result['ips']) => () =>
      chainedSpec({ key, conf: confOf({ sbr: {} }), prevResult: { ...prevResult, ips }, seen: seenOf() })
    expect(codeOf(by([]))).toBe(7)
    expect(by([{ address: '10.9.9.9/24', interface: 0 }])().sbr).toEqual({ sources: [], moved: [] })
  })

  it('isolates a bridge port, and from others a link that is on no bridge', () => {
    const more = { firewall: { ingressPolicy: 'isolated' } }
    const on = { dev: 'eth0', hostLink: 'veth1', hostIndex: 7 }
    expect(specOf(more).chained).toEqual({ ...on, isolated: true })
    const seen = seenOf()
    const veth1 = linkOf('veth1', { index: 7, kind: 'veth', peerIndex: 2 })
    const routed = { ...seen, host: { links: new Map([['veth1', veth1]]), routes: new Map() } }
    expect(specOf(more, routed).chained).toEqual({ ...on, ingressPolicy: 'isolated' })
  })
})

describe('a chained pod whose addresses have no subnet', () => {
  const ips = [
    { address: '10.1.0.2/32', interface: 2 },
    { address: 'FD00:1:0::2/128', interface: 2 },
  ]
  const nonMasqueradeCIDRs = ['10.2.0.0/16', '10.2.3.0/24', '192.0.2.7/32', 'fd00:2::/64']
  const conf = confOf({ ipMasq: true, nonMasqueradeCIDRs })
  const single = { ...prevResult, ips }
  const spec = chainedSpec({ key, conf, prevResult: single, seen: seenOf() })
  const elementsOf = (of: AttachmentSpec) =>
    attachmentRuleOps(of).flatMap((op) => (op.kind === 'nft.add' ? [`${op.set} ${describeElement(op)}`] : []))
  const own = [
    'masqhost4 10.1.0.2',
    'keephost4 10.1.0.2 10.2.0.0/16',
    'keephost4 10.1.0.2 192.0.2.7',
    'masqhost6 fd00:1::2',
    'keephost6 fd00:1::2 fd00:2::/64',
  ]
  const network = (known: NetworkSpec | undefined, of = conf, by = spec) => {
    const facts = { key, conf: of, netns: sandbox, mtu: 1500, machineId: '', prevResult: single, seen: seenOf() }
    return networkOfChain(facts, by, known)
  }

  it('has its masquerade in elements of its own, and takes them with it', () => {
    expect(elementsOf(spec)).toEqual(own)
    const removed = teardownOps(spec, 7).flatMap((op) => (op.kind === 'nft.del' ? [describeElement(op)] : []))
    expect(removed).toEqual(own.map((text) => text.slice(text.indexOf(' ') + 1)))
    expect(specOf({ nonMasqueradeCIDRs }).masquerade).toBeUndefined()
    expect(specOf({ ipMasq: true }).masquerade).toBeUndefined()
  })

  it('gives the network no subnet, and takes none away from it', () => {
    const shared = network(undefined)
    expect(shared.masquerade?.subnets).toEqual([])
    const wide = network(shared, conf, chainedSpec({ key, conf, prevResult, seen: seenOf() }))
    expect(wide.masquerade?.subnets).toEqual(['10.1.0.0/24', 'fd00:1::/64'])
    expect(network(wide)).toEqual(wide)
    expect(network(wide, confOf({})).masquerade).toBeUndefined()
  })

  it('has the last word on its address', () => {
    const later = {
      ...spec,
      key: { ...key, containerId: 'later' },
      masquerade: { addresses: ['10.1.0.2'], noMasquerade: [] },
    }
    const of = withoutFormerHosts([spec, later]).map((each) => each.masquerade?.addresses)
    expect(of).toEqual([['fd00:1::2'], ['10.1.0.2']])
  })
})
