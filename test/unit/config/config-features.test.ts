// SPDX-License-Identifier: Apache-2.0
// Host ports, firewall, bandwidth, tuning and sbr.

import { describe, expect, it } from 'vitest'
import { errorOf, type Json, lineOf, read } from '../cni/call.ts'

const mappings = (...portMappings: unknown[]) => ({ runtimeConfig: { portMappings } })
const portmapDefaults = { snat: true, masqAll: false, conditionsV4: [], conditionsV6: [], onListening: 'warn' }

describe('host ports', () => {
  it.each<[unknown, Json]>([
    [
      { hostPort: 80, containerPort: 8080, protocol: 'TCP' },
      { hostPort: 80, containerPort: 8080, protocol: 'tcp' },
    ],
    [
      { HostPort: 80, ContainerPort: 8080, Protocol: 'Udp', HostIP: '' },
      { hostPort: 80, containerPort: 8080, protocol: 'udp' },
    ],
    [
      { hostPort: 1, containerPort: 65535, protocol: 'sctp', hostIP: '0.0.0.0' },
      { hostIP: '0.0.0.0', protocol: 'sctp' },
    ],
    [
      { hostPort: 1, containerPort: 1, hostIP: '0::0' },
      { hostIP: '::', protocol: 'tcp' },
    ],
    [{ hostPort: 1, containerPort: 1, hostIP: '::ffff:192.0.2.1' }, { hostIP: '192.0.2.1' }],
  ])('%j', (given, expected) => {
    const conf = read(mappings(given))
    expect(conf.portMappings).toMatchObject([expected])
    expect(conf.portmap).toEqual(portmapDefaults)
  })

  it('drops repeats and keeps one port of two protocols or addresses', () => {
    const port = { hostPort: 53, containerPort: 53, protocol: 'udp' }
    const conf = read(mappings(port, port, { ...port, protocol: 'tcp' }, { ...port, hostIP: '127.0.0.1' }))
    expect(conf.portMappings).toHaveLength(3)
  })

  it('keeps two ports of one number where the addresses differ', () => {
    const of = (containerPort: number, hostIP: string) => ({ hostPort: 53, containerPort, hostIP })
    expect(read(mappings(of(1, '0.0.0.0'), of(2, '::'), of(3, '192.0.2.1'))).portMappings).toHaveLength(3)
  })

  it('has no portmap without key and mapping', () => {
    expect(read(mappings()).portmap).toBeUndefined()
    expect(read({ portmap: {} }).portmap).toEqual(portmapDefaults)
  })

  it('reads the portmap keys', () => {
    const portmap = { snat: false, masqAll: true, conditionsV4: ['ip saddr 10.0.0.0/8'], onListening: 'refuse' }
    expect(read({ portmap }).portmap).toEqual({ ...portmapDefaults, ...portmap })
  })

  const at = 'runtimeConfig.portMappings[0]'
  it.each<[Json, string]>([
    [mappings({ containerPort: 1 }), `${at}.hostPort: missing`],
    [mappings({ hostPort: 1 }), `${at}.containerPort: missing`],
    [mappings({ hostPort: 0, containerPort: 1 }), `${at}.hostPort: 0 is not a port from 1 to 65535`],
    [mappings({ hostPort: 1, containerPort: 65536 }), `${at}.containerPort: 65536 is not a port from 1 to 65535`],
    [mappings({ hostPort: '80', containerPort: 1 }), `${at}.hostPort: "80" is not a port from 1 to 65535`],
    [mappings({ hostPort: 1, containerPort: 1, protocol: 'icmp' }), `${at}.protocol: "icmp" is not a protocol`],
    [
      mappings({ hostPort: 1, containerPort: 1, protocol: 'tcp; drop' }),
      `${at}.protocol: "tcp; drop" is not a protocol`,
    ],
    [mappings({ hostPort: 1, containerPort: 1, hostIP: '1.2.3' }), `${at}.hostIP: "1.2.3" is not an IP address`],
    [mappings({ hostPort: 1, containerPort: 1, hostIP: '01.2.3.4' }), `${at}.hostIP: "01.2.3.4" is not an IP address`],
    [
      mappings({ hostPort: 1, containerPort: 1 }, { hostPort: 1, containerPort: 2 }),
      'runtimeConfig.portMappings[1]: host port 1/tcp is given twice',
    ],
    [
      mappings({ hostPort: 1, containerPort: 1, hostIP: '' }, { hostPort: 1, containerPort: 2, hostIP: '0.0.0.0' }),
      'runtimeConfig.portMappings[1]: host port 1/tcp is given twice',
    ],
    [
      mappings({ hostPort: 1, containerPort: 1, hostIP: '::' }, { hostPort: 1, containerPort: 2 }),
      'runtimeConfig.portMappings[1]: host port 1/tcp is given twice',
    ],
    [{ portmap: { onListening: 'ignore' } }, 'portmap.onListening: "ignore" is not one of "warn", "refuse"'],
    [{ portmap: { markMasqBit: 32 } }, 'portmap.markMasqBit: 32 is not a bit from 0 to 31'],
    [{ portmap: { conditionsV4: 'x' } }, 'portmap.conditionsV4: "x" is not a list'],
  ])('refuses %j', (changes, message) => {
    expect(lineOf(errorOf(() => read(changes)))).toBe(`(7) ${message}`)
  })
})

describe('firewall', () => {
  it.each<[Json, Json | undefined]>([
    [{}, undefined],
    [{ firewall: {} }, { ingressPolicy: 'open', hostAccept: 'auto' }],
    [{ firewall: { ingressPolicy: '' } }, { ingressPolicy: 'open', hostAccept: 'auto' }],
    [{ firewall: { ingressPolicy: 'isolated', hostAccept: 'off' } }, { ingressPolicy: 'isolated', hostAccept: 'off' }],
    [
      { firewall: { hostAccept: 'established', acceptFrom: [], firewalldZone: '' } },
      { ingressPolicy: 'open', hostAccept: 'established' },
    ],
    [
      { firewall: { acceptFrom: ['192.0.2.9/24', '192.0.2.0/24'], acceptMarkBit: 0, firewalldZone: 'pods' } },
      {
        ingressPolicy: 'open',
        hostAccept: 'auto',
        acceptFrom: ['192.0.2.0/24'],
        acceptMarkBit: 0,
        firewalldZone: 'pods',
      },
    ],
  ])('%j', (changes, expected) => {
    expect(read(changes).firewall).toEqual(expected)
  })

  it.each<[Json, string]>([
    [{ acceptFrom: ['192.0.2.1'] }, 'firewall.acceptFrom[0]: "192.0.2.1" is not a prefix in CIDR notation'],
    [{ acceptMarkBit: 32 }, 'firewall.acceptMarkBit: 32 is not a bit from 0 to 31'],
    [{ acceptMarkBit: 13 }, 'firewall.acceptMarkBit: 13 is taken: portmap marks what it masquerades with it (0x2000)'],
    [
      { acceptMarkBit: 14 },
      'firewall.acceptMarkBit: 14 is taken: kube-proxy marks what it masquerades with it (0x4000)',
    ],
    [{ acceptMarkBit: 15 }, 'firewall.acceptMarkBit: 15 is taken: kubelet marks what it drops with it (0x8000)'],
    [{ firewalldZone: 'a b' }, 'firewall.firewalldZone: "a b" is not the name of a firewalld zone'],
  ])('refuses %j', (firewall, message) => {
    expect(lineOf(errorOf(() => read({ firewall })))).toBe(`(7) ${message}`)
  })

  it('refuses an unknown policy', () => {
    const line = '(7) firewall.ingressPolicy: "closed" is not one of "", "open", "same-bridge", "isolated"'
    expect(lineOf(errorOf(() => read({ firewall: { ingressPolicy: 'closed' } })))).toBe(line)
  })
})

describe('bandwidth', () => {
  const runtime = { bandwidth: { ingressRate: 9, ingressBurst: 5 } }
  it.each<[Json, Json | undefined]>([
    [{}, undefined],
    [{ bandwidth: {} }, undefined],
    [{ bandwidth: { ingressRate: 0, ingressBurst: 0 } }, undefined],
    [{ bandwidth: { ingressRate: 8, ingressBurst: 9 } }, { ingressRate: 8, ingressBurst: 9 }],
    [{ bandWidth: { EgressRate: 8, egressBurst: 2147483646 } }, { egressRate: 8, egressBurst: 2147483646 }],
    [{ bandwidth: { ingressRate: 8, ingressBurst: 2147483647 } }, { ingressRate: 8 }],
    [{ bandwidth: { ingressRate: 8, ingressBurst: 18446744073709552000 } }, { ingressRate: 8 }],
    [{ runtimeConfig: runtime }, { ingressRate: 9, ingressBurst: 5 }],
    [
      { bandwidth: {}, RuntimeConfig: runtime },
      { ingressRate: 9, ingressBurst: 5 },
    ],
    [
      { bandwidth: { egressRate: 8, egressBurst: 1 }, runtimeConfig: runtime },
      { egressRate: 8, egressBurst: 1 },
    ],
    [{ bandwidth: { ingressRate: 8 } }, { ingressRate: 8 }],
    [{ bandwidth: { egressRate: 1e18 } }, { egressRate: 1e18 }],
    [{ runtimeConfig: { bandwidth: { egressRate: 0, egressBurst: 2 ** 32 - 1 } } }, undefined],
  ])('%j', (changes, expected) => {
    expect(read(changes).bandwidth).toEqual(expected)
  })

  it.each<[Json, string]>([
    [{ bandwidth: { egressBurst: 1 } }, 'bandwidth.egressRate: if burst is set, rate must also be set'],
    [
      { runtimeConfig: { bandwidth: { egressBurst: 8 } } },
      'runtimeConfig.bandwidth.egressRate: if burst is set, rate must also be set',
    ],
    [{ bandwidth: { ingressRate: 7 } }, 'bandwidth.ingressRate: 7 is not a rate that the kernel can keep'],
    [
      { bandwidth: { ingressRate: -1 } },
      'bandwidth.ingressRate: -1 is not a number of bits from 0 to 18446744073709552000',
    ],
    [
      { bandwidth: { ingressRate: 1.5 } },
      'bandwidth.ingressRate: 1.5 is not a number of bits from 0 to 18446744073709552000',
    ],
  ])('refuses %j', (changes, message) => {
    expect(lineOf(errorOf(() => read(changes)))).toBe(`(7) ${message}`)
  })
})

describe('tuning', () => {
  it.each<[Json, Json | undefined]>([
    [{}, undefined],
    [{ tuning: {} }, { sysctl: {}, promisc: false }],
    [
      { tuning: { sysctl: { 'net.ipv4.conf.IFNAME.arp_filter': '1', 'net/core/somaxconn': '500' } } },
      { sysctl: { 'net/ipv4/conf/eth0/arp_filter': '1', 'net/core/somaxconn': '500' }, promisc: false },
    ],
    [
      {
        tuning: { sysctl: { 'net.core.somaxconn': '1' }, mtu: 1400, promisc: true },
        args: { cni: { sysctl: { 'net/core/somaxconn': '2' }, promisc: false, mtu: 1300, txQLen: 0, allmulti: false } },
      },
      { sysctl: { 'net/core/somaxconn': '2' }, promisc: false, mtu: 1300, txQLen: 0, allmulti: false },
    ],
    [
      { tuning: {}, args: { cni: { sysctl: { 'net.core.somaxconn': '2' } } } },
      { sysctl: { 'net/core/somaxconn': '2' }, promisc: false },
    ],
    [
      { args: { cni: { sysctl: { 'net.core.somaxconn': '2' }, promisc: true, mtu: 1300, txQLen: 9, allmulti: true } } },
      undefined,
    ],
    [{ args: { cni: { labels: [{ key: 'a' }], other: 1 } } }, undefined],
    [{ args: { cni: { mtu: '1400', sysctl: { a: 1 }, promisc: 'x', txQLen: -1, allmulti: [] } } }, undefined],
    [{ args: { cni: 'x' } }, undefined],
    [{ tuning: { mtu: 0, txQLen: 5 } }, { sysctl: {}, promisc: false, txQLen: 5 }],
  ])('%j', (changes, expected) => {
    expect(read(changes).tuning).toEqual(expected)
  })

  it.each([
    'kernel.domainname',
    'net',
    'net.ipv4',
    'net/../kernel/domainname',
    'net/ipv4/../../kernel/x',
    '../net/ipv4/x',
    'net/ipv4/a b',
    'net/ipv4/a\u0000b',
    'net.ipv4.a;b',
    '',
  ])('refuses the sysctl key %j', (key) => {
    const line = `(7) tuning.sysctl: invalid net sysctl key: ${JSON.stringify(key)}`
    expect(lineOf(errorOf(() => read({ tuning: { sysctl: { [key]: '1' } } })))).toBe(line)
  })

  it.each<[Json, RegExp]>([
    [{ sysctl: { 'net.core.x': 1 } }, /^\(7\) tuning\.sysctl: .* is not an object whose values are all strings$/],
    [{ sysctl: { 'net.core.x': '1\n2' } }, /^\(7\) tuning\.sysctl: .* is not an object whose values are all strings$/],
    [
      { sysctl: { 'net.core.x': '1', 'net/core/x': '2' } },
      /^\(7\) tuning\.sysctl: duplicated sysctl keys are not allowed: /,
    ],
    [{ mtu: 20 }, /^\(7\) tuning\.mtu: 20 is not an MTU$/],
    [{ txQLen: -1 }, /^\(7\) tuning\.txQLen: -1 is not /],
  ])('refuses %j', (tuning, line) => {
    expect(lineOf(errorOf(() => read({ tuning })))).toMatch(line)
  })
})

describe('sbr', () => {
  it.each<[Json, Json | undefined]>([
    [{}, undefined],
    [{ sbr: {} }, { gateways: [], addSourceHints: false }],
    [
      { sbr: { table: 100, gateways: ['10.0.0.1', 'FD00::1'], addSourceHints: true } },
      { table: 100, gateways: ['10.0.0.1', 'fd00::1'], addSourceHints: true },
    ],
  ])('%j', (changes, expected) => {
    expect(read(changes).sbr).toEqual(expected)
  })

  it.each([
    [
      { gateways: ['10.0.0.1', '10.0.0.2'] },
      'sbr.gateways: gateways list contains multiple IPv4 addresses: 10.0.0.1 and 10.0.0.2',
    ],
    [
      { gateways: ['1.1.1.1', '::1', '::2'] },
      'sbr.gateways: gateways list cannot contain more than 2 entries (one IPv4, one IPv6)',
    ],
    [{ gateways: ['x'] }, 'sbr.gateways[0]: invalid static gateway IP address: "x"'],
    [{ table: 0 }, 'sbr.table: 0 is not a routing table from 1 to 4294967295'],
  ])('refuses %j', (sbr, message) => {
    expect(lineOf(errorOf(() => read({ sbr })))).toBe(`(7) ${message}`)
  })
})
