// SPDX-License-Identifier: Apache-2.0
// Host ports: what is read, which family serves which address, the elements, and what guards the link.

import { describe, expect, it } from 'vitest'
import { hostPorts, hostPortsOf, loopbackGuard } from '../../../src/features/host-ports.ts'
import { portName } from '../../../src/state/reservations.ts'
import { errorOf, type Json, lineOf, read, specOf } from '../call.ts'

describe('the keys', () => {
  const mappings = (...portMappings: unknown[]) => ({ runtimeConfig: { portMappings } })

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
      { hostPort: 1, containerPort: 1, hostIP: '0::0' },
      { hostIP: '::', protocol: 'tcp' },
    ],
    [{ hostPort: 1, containerPort: 1, hostIP: '::ffff:192.0.2.1' }, { hostIP: '192.0.2.1' }],
  ])('%j', (given, expected) => {
    const conf = read(mappings(given))
    expect(conf.portMappings).toMatchObject([expected])
    expect(conf.portmap).toEqual({ snat: true, masqAll: false })
  })

  it('drops repeats and keeps one port of two protocols or addresses', () => {
    const port = { hostPort: 53, containerPort: 53, protocol: 'udp' }
    const conf = read(mappings(port, port, { ...port, protocol: 'tcp' }, { ...port, hostIP: '127.0.0.1' }))
    expect(conf.portMappings).toHaveLength(3)
  })

  it('reads snat and masqAll, snat on by default', () => {
    expect(read({ portmap: { snat: false, masqAll: true } }).portmap).toEqual({ snat: false, masqAll: true })
  })

  it('has no bound beside that of stdin: a manifest with ranges of ports has thousands', () => {
    const many = Array.from({ length: 12_000 }, (_, at) => ({ hostPort: at + 1, containerPort: 80 }))
    expect(read(mappings(...many)).portMappings).toHaveLength(12_000)
  })

  const at = 'runtimeConfig.portMappings[0]'
  it.each<[Json, string]>([
    [mappings({ containerPort: 1 }), `${at}.hostPort: missing`],
    [mappings({ hostPort: 1 }), `${at}.containerPort: missing`],
    [mappings({ hostPort: 0, containerPort: 1 }), `${at}.hostPort: 0 is not a port from 1 to 65535`],
    [mappings({ hostPort: '80', containerPort: 1 }), `${at}.hostPort: "80" is not a port from 1 to 65535`],
    [mappings({ hostPort: 1, containerPort: 1, protocol: 'icmp' }), `${at}.protocol: "icmp" is not a protocol`],
    [mappings({ hostPort: 1, containerPort: 1, hostIP: '01.2.3.4' }), `${at}.hostIP: "01.2.3.4" is not an IP address`],
    [
      mappings({ hostPort: 1, containerPort: 1 }, { hostPort: 1, containerPort: 2 }),
      'runtimeConfig.portMappings[1]: host port 1/tcp is given twice',
    ],
    [
      mappings({ hostPort: 1, containerPort: 1, hostIP: '::' }, { hostPort: 1, containerPort: 2 }),
      'runtimeConfig.portMappings[1]: host port 1/tcp is given twice',
    ],
    [{ portmap: { markMasqBit: 32 } }, 'portmap.markMasqBit: 32 is not a bit from 0 to 31'],
    [{ portmap: { conditionsV4: 'x' } }, 'portmap.conditionsV4: "x" is not a list'],
  ])('refuses %j', (changes, message) => {
    expect(lineOf(errorOf(() => read(changes)))).toBe(`(7) ${message}`)
  })
})

const both = [{ address: '10.0.0.2/24' }, { address: 'fd00::2/64' }]
const v6Only = both.slice(1)
const port = { hostPort: 8080, containerPort: 80 }
const cni0 = { link: 'cni0', isOwnLink: false }
const portsOf = (portMappings: readonly Json[], ips = both, portmap: Json = {}) =>
  hostPortsOf(read({ portmap, runtimeConfig: { portMappings } }), ips, cni0)

describe('the ports of a pod', () => {
  it.each<[string, Json, typeof both, readonly string[]]>([
    ['every family of the pod', port, both, ['tcp:8080:4:any -> 10.0.0.2', 'tcp:8080:6:any -> fd00::2']],
    ['IPv6 alone where the pod has no other', port, v6Only, ['tcp:8080:6:any -> fd00::2']],
    ['the family of hostIP', { ...port, hostIP: '192.0.2.1' }, both, ['tcp:8080:4:192.0.2.1 -> 10.0.0.2']],
    ['none where the pod lacks it', { ...port, hostIP: '192.0.2.1' }, v6Only, []],
    ['IPv4 everywhere for 0.0.0.0', { ...port, hostIP: '0.0.0.0' }, both, ['tcp:8080:4:any -> 10.0.0.2']],
    ['IPv6 everywhere for ::', { ...port, hostIP: '::' }, both, ['tcp:8080:6:any -> fd00::2']],
  ])('serve %s', (_, mapping, ips, names) => {
    const ports = portsOf([mapping], ips)?.ports ?? []
    expect(ports.map((each) => `${portName(each)} -> ${each.podIp}`)).toEqual(names)
  })

  it('are nothing without a mapping', () => expect(portsOf([])).toBeUndefined())
})

describe('elements', () => {
  const mappings = [port, { hostPort: 53, containerPort: 5353, protocol: 'udp', hostIP: '192.0.2.1' }]
  const textsOf = (portmap: Json = {}) =>
    (hostPorts.elements?.({ ...specOf({}), hostPorts: portsOf(mappings, both, portmap) } as never) ?? []).map(
      ({ set, key, value = [] }) => `${set} ${key.join(' ')} -> ${value.join(' ')}`,
    )

  it('are one a port, by address where there is one', () => {
    expect(textsOf()).toEqual([
      'anyports4 tcp 8080 -> 10.0.0.2 80',
      'anyports6 tcp 8080 -> fd00::2 80',
      'ports4 192.0.2.1 udp 53 -> 10.0.0.2 5353',
    ])
  })

  it('have one more for masqAll, by where the packet goes', () => {
    const all = textsOf({ masqAll: true }).filter((text) => text.startsWith('masqall'))
    expect(all).toEqual([
      'masqall4 10.0.0.2 tcp 80 -> ',
      'masqall6 fd00::2 tcp 80 -> ',
      'masqall4 10.0.0.2 udp 5353 -> ',
    ])
  })
})

it('route_localnet and the rule that guards it are for IPv4 with snat', () => {
  const cases = [portsOf([port]), portsOf([port], both, { snat: false }), portsOf([port], v6Only)]
  const keys = cases.map((own) =>
    (hostPorts.ops?.({ hostPorts: own } as never) ?? []).map((op) =>
      op.kind === 'sysctl.set' ? [op.key, op.when] : [],
    ),
  )
  expect(keys).toEqual([[['net/ipv4/conf/cni0/route_localnet', 'last']], [], []])
  expect(cases.map(loopbackGuard)).toEqual([[{ set: 'loopback', key: ['cni0'] }], [], []])
})
