// SPDX-License-Identifier: Apache-2.0
// Results in the shape of every version, prevResult, and reading back what was written.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  atLeast,
  type CniVersion,
  type Result,
  readPrevResult,
  readResult,
  supportedVersions,
  writeResult,
} from '../../../src/cni/results.ts'
import { errorOf, lineOf, read } from '../call.ts'

const dual: Result = {
  interfaces: [
    { name: 'cni0', mac: '02:00:00:00:00:01', mtu: 1500 },
    { name: 'eth0', mac: '02:00:00:00:00:02', mtu: 1500, sandbox: '/run/netns/x' },
  ],
  ips: [
    { address: '10.1.0.2/24', gateway: '10.1.0.1', interface: 1 },
    { address: 'fd00::2/64', gateway: 'fd00::1', interface: 1 },
    { address: '10.2.0.2/24', interface: 0 },
  ],
  routes: [{ dst: '0.0.0.0/0', gw: '10.1.0.1', mtu: 1400, table: 0, priority: 0 }, { dst: '::/0' }],
  dns: { nameservers: ['1.1.1.1'], search: [] },
}

const empty: Result = { interfaces: [], ips: [], routes: [] }
const written = (result: Result, version: CniVersion) => JSON.parse(writeResult(result, version))

describe('writeResult', () => {
  it.each(['0.1.0', '0.2.0'] as const)('%s', (cniVersion) => {
    expect(written(dual, cniVersion)).toEqual({
      cniVersion,
      ip4: { ip: '10.1.0.2/24', gateway: '10.1.0.1', routes: [{ dst: '0.0.0.0/0', gw: '10.1.0.1' }] },
      ip6: { ip: 'fd00::2/64', gateway: 'fd00::1', routes: [{ dst: '::/0' }] },
      dns: { nameservers: ['1.1.1.1'] },
    })
  })

  it.each(['0.3.0', '0.3.1', '0.4.0'] as const)('%s', (cniVersion) => {
    expect(written(dual, cniVersion)).toEqual({
      cniVersion,
      interfaces: [
        { name: 'cni0', mac: '02:00:00:00:00:01' },
        { name: 'eth0', mac: '02:00:00:00:00:02', sandbox: '/run/netns/x' },
      ],
      ips: [
        { version: '4', address: '10.1.0.2/24', gateway: '10.1.0.1', interface: 1 },
        { version: '6', address: 'fd00::2/64', gateway: 'fd00::1', interface: 1 },
        { version: '4', address: '10.2.0.2/24', interface: 0 },
      ],
      routes: [{ dst: '0.0.0.0/0', gw: '10.1.0.1', mtu: 1400, table: 0 }, { dst: '::/0' }],
      dns: { nameservers: ['1.1.1.1'] },
    })
  })

  it.each(['1.0.0', '1.1.0'] as const)('%s', (cniVersion) => {
    expect(written(dual, cniVersion)).toEqual({
      cniVersion,
      interfaces: dual.interfaces,
      ips: dual.ips,
      routes: [{ dst: '0.0.0.0/0', gw: '10.1.0.1', mtu: 1400, table: 0 }, { dst: '::/0' }],
      dns: { nameservers: ['1.1.1.1'] },
    })
  })

  it('is one compact line', () => {
    expect(writeResult(empty, '1.1.0')).toBe('{"cniVersion":"1.1.0"}\n')
    expect(writeResult(empty, '0.4.0')).toBe('{"cniVersion":"0.4.0","dns":{}}\n')
    const ip4 = { ...empty, ips: [{ address: '10.0.0.2/8' }] }
    expect(writeResult(ip4, '0.2.0')).toBe('{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/8"},"dns":{}}\n')
  })

  it.each(['0.1.0', '0.2.0'] as const)('%s needs an address', (version) => {
    expect(lineOf(errorOf(() => writeResult(empty, version)))).toBe('(7) cannot convert: no valid IP addresses')
  })
})

describe('prevResult', () => {
  it('keeps keys it does not know, at every place', () => {
    const prevResult = {
      cniVersion: '1.1.0',
      interfaces: [{ name: 'tap0', socketPath: '/s', pciID: '1', x: { y: 1 } }],
      ips: [{ address: '10.0.0.2/8', z: 1 }],
      routes: [{ dst: '0.0.0.0/0', w: 2 }],
      dns: { nameservers: ['1.1.1.1'], v: 3 },
      vendor: { a: [1] },
    }
    const result = read({ prevResult }).prevResult ?? empty
    expect(written(result, '1.1.0')).toEqual(prevResult)
    expect(written(result, '0.4.0').interfaces).toEqual([{ name: 'tap0', x: { y: 1 } }])
  })

  it('reads keys in any case and canonicalises addresses', () => {
    const value = { CNIVersion: '1.0.0', IPs: [{ Address: 'FD00:0::2/64', Gateway: '' }], Interfaces: [{ Name: 'a' }] }
    expect(readPrevResult(value, '1.1.0')).toEqual({
      interfaces: [{ name: 'a' }],
      ips: [{ address: 'fd00::2/64' }],
      routes: [],
    })
  })

  it.each([
    ['1.1.0', '1.0.0'],
    ['0.4.0', '0.3.0'],
    ['0.2.0', '0.1.0'],
    ['1.0.0', ''],
    ['0.2.0', undefined],
  ] as const)('%s may hold %s', (version, own) => {
    expect(readPrevResult({ cniVersion: own, ips: [] }, version).interfaces).toEqual([])
  })

  const prefix = '(7) could not parse prevResult: '
  it.each<[CniVersion, unknown, string]>([
    ['1.0.0', { cniVersion: '0.4.0' }, 'result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is "0.4.0"'],
    [
      '0.4.0',
      { cniVersion: '1.0.0' },
      'result type supports [0.3.0 0.3.1 0.4.0] but unmarshalled CNIVersion is "1.0.0"',
    ],
    ['1.1.0', { cniVersion: 4 }, 'result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is 4'],
    ['1.1.0', 'text', 'prevResult: "text" is not an object'],
    ['1.1.0', { ips: [{ address: '10.0.0.1' }] }, 'prevResult.ips[0].address: "10.0.0.1" is not in CIDR notation'],
    [
      '1.1.0',
      { ips: [{ address: '10.0.0.1/8', gateway: 'x' }] },
      'prevResult.ips[0].gateway: "x" is not an IP address',
    ],
    [
      '1.1.0',
      { ips: [{ address: '10.0.0.1/8', interface: '0' }] },
      'prevResult.ips[0].interface: "0" is not an index from 0 to 4294967295',
    ],
    ['1.1.0', { interfaces: [{}] }, 'prevResult.interfaces[0].name: missing'],
    ['1.1.0', { routes: [{ dst: 'default' }] }, 'prevResult.routes[0].dst: "default" is not in CIDR notation'],
    ['0.2.0', { ip4: { ip: 'x' } }, 'prevResult.ip4.ip: "x" is not in CIDR notation'],
  ])('%s refuses %j', (version, value, message) => {
    expect(lineOf(errorOf(() => readPrevResult(value, version)))).toBe(prefix + message)
  })
})

const octet = fc.integer({ min: 0, max: 255 })
const cidr4 = fc
  .tuple(octet, octet, octet, octet, fc.integer({ min: 0, max: 32 }))
  .map(([a, b, c, d, n]) => `${a}.${b}.${c}.${d}/${n}`)
const cidr6 = fc
  .tuple(fc.integer({ min: 1, max: 0xffff }), fc.integer({ min: 0, max: 128 }))
  .map(([a, n]) => `fd00::${a.toString(16)}/${n}`)
const bare = (cidr: fc.Arbitrary<string>) => cidr.map((text) => text.replace(/\/.*/, ''))
const word = fc.string({ minLength: 1, maxLength: 9 }).filter((text) => !/\p{Cc}/u.test(text))
const ipOf = (cidr: fc.Arbitrary<string>) =>
  fc.record({ address: cidr, gateway: bare(cidr), interface: octet }, { requiredKeys: ['address'] })
const routeOf = (cidr: fc.Arbitrary<string>) =>
  fc.record(
    { dst: cidr, gw: bare(cidr), mtu: fc.integer({ min: 1, max: 9000 }), table: octet, scope: octet },
    { requiredKeys: ['dst'] },
  )
const results = fc.record(
  {
    cniVersion: fc.constantFrom(...supportedVersions),
    interfaces: fc.array(
      fc.record({ name: word, mac: word, mtu: fc.integer({ min: 1 }), sandbox: word }, { requiredKeys: ['name'] }),
    ),
    ips: fc.array(fc.oneof(ipOf(cidr4), ipOf(cidr6))),
    ip4: fc.record({ ip: cidr4, gateway: bare(cidr4), routes: fc.array(routeOf(cidr4)) }, { requiredKeys: ['ip'] }),
    ip6: fc.record({ ip: cidr6, gateway: bare(cidr6), routes: fc.array(routeOf(cidr6)) }, { requiredKeys: ['ip'] }),
    routes: fc.array(fc.oneof(routeOf(cidr4), routeOf(cidr6))),
    dns: fc.record(
      { nameservers: fc.array(word), domain: word, search: fc.array(word), options: fc.array(word) },
      { requiredKeys: [] },
    ),
    vendor: fc.jsonValue(),
  },
  { requiredKeys: ['cniVersion', 'ip4'] },
)

describe('properties', () => {
  it('what is written in a version reads back as what it holds, and is written the same again', () => {
    fc.assert(
      fc.property(results, fc.constantFrom(...supportedVersions), (value, version) => {
        const result = readResult(value, '1.1.0')
        fc.pre(atLeast(version, '0.3.0') || result.ips.length > 0)
        const text = writeResult(result, version)
        const again = readResult(JSON.parse(text), version)
        expect(writeResult(again, version)).toBe(text)
      }),
      { numRuns: 500 },
    )
  })

  it('1.1.0 loses nothing', () => {
    fc.assert(
      fc.property(results, (value) => {
        // As it arrives: JSON has no -0.
        const result = readResult(JSON.parse(JSON.stringify(value)), '1.1.0')
        expect(readResult(JSON.parse(writeResult(result, '1.1.0')), '1.1.0')).toEqual(result)
      }),
    )
  })
})
