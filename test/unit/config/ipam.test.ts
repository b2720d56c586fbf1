// SPDX-License-Identifier: Apache-2.0
// Addresses: pools, podcidr, static, delegated; requested addresses and the order of their sources.

import { describe, expect, it } from 'vitest'
import type { IpamConf, PoolIpam, StaticIpam } from '../../../src/config/network-conf.ts'
import { errorOf, type Json, lineOf, read } from '../call.ts'

const pool = (changes: Json = {}, env = {}): PoolIpam => {
  const { ipam } = read(changes, env)
  if (ipam.kind !== 'pool') throw new Error(ipam.kind)
  return ipam
}
const fixed = (changes: Json, env = {}): StaticIpam => {
  const { ipam } = read(changes, env)
  if (ipam.kind !== 'static') throw new Error(ipam.kind)
  return ipam
}
const subnets = (ipam: PoolIpam) => ipam.rangeSets.map((set) => set.map((range) => range.subnet))

describe('kinds', () => {
  it.each<[Json, IpamConf]>([
    [{}, { kind: 'none' }],
    [{ ipam: {} }, { kind: 'none' }],
    [{ ipam: null }, { kind: 'none' }],
    [{ ipam: { type: '' } }, { kind: 'none' }],
    [{ ipam: { type: 'dhcp' } }, { kind: 'delegated', type: 'dhcp' }],
    [{ ipam: { type: 'Trestle' } }, { kind: 'delegated', type: 'Trestle' }],
    [{ mode: 'loopback', ipam: { type: 'dhcp' } }, { kind: 'none' }],
  ])('%j', (changes, expected) => {
    expect(read(changes).ipam).toEqual(expected)
  })
})

describe('pool', () => {
  it.each(['trestle', 'host-local'])('type %s with everything', (type) => {
    const ipam = pool({
      ipam: {
        type,
        subnet: '10.1.0.0/24',
        rangeStart: '10.1.0.10',
        rangeEnd: '10.1.0.20',
        gateway: '10.1.0.254',
        ranges: [[{ subnet: 'FD00:0::/64' }]],
        routes: [
          { dst: '0.0.0.0/0' },
          { dst: '10.2.3.4/8', gw: '10.1.0.3', mtu: 1400, advmss: 1360, priority: 5, table: 100, scope: 0 },
        ],
        resolvConf: '/etc/resolv.conf',
        dataDir: '/data',
        exclude: ['10.1.0.16/30', '10.1.0.11'],
      },
    })
    expect(ipam).toEqual({
      kind: 'pool',
      rangeSets: [
        [{ subnet: '10.1.0.0/24', rangeStart: '10.1.0.10', rangeEnd: '10.1.0.20', gateway: '10.1.0.254' }],
        [{ subnet: 'fd00::/64', rangeStart: 'fd00::1', rangeEnd: 'fd00::ffff:ffff:ffff:ffff', gateway: 'fd00::1' }],
      ],
      requested: [],
      exclude: ['10.1.0.16/30', '10.1.0.11/32'],
      routes: [
        { dst: '0.0.0.0/0' },
        { dst: '10.2.3.4/8', gw: '10.1.0.3', mtu: 1400, advmss: 1360, priority: 5, table: 100, scope: 0 },
      ],
      resolvConf: '/etc/resolv.conf',
      dataDir: '/data',
    })
  })

  it('has range sets in the order capability, single range, ranges', () => {
    const ipam = pool({
      ipam: { type: 'trestle', subnet: '10.2.0.0/24', ranges: [[{ subnet: '10.3.0.0/24' }]] },
      runtimeConfig: { ipRanges: [[{ subnet: '10.1.0.0/24' }]] },
    })
    expect(subnets(ipam)).toEqual([['10.1.0.0/24'], ['10.2.0.0/24'], ['10.3.0.0/24']])
  })

  it('has requested addresses in the order CNI_ARGS, args, runtimeConfig, without prefix or repeats', () => {
    const changes = {
      podcidr: '10.1.0.0/24',
      args: { cni: { ips: ['10.1.0.7/24', 'FD00::7'] } },
      runtimeConfig: { ips: ['10.1.0.8', '10.1.0.9'] },
    }
    const ipam = pool(changes, { CNI_ARGS: 'IP=10.1.0.9' })
    expect(ipam.requested).toEqual(['10.1.0.9', '10.1.0.7', 'fd00::7', '10.1.0.8'])
  })

  it.each(['GC', 'STATUS'] as const)('%s works without the ranges of a capability', (verb) => {
    expect(read({ ipam: { type: 'host-local' } }, {}, verb).ipam).toMatchObject({ kind: 'pool', rangeSets: [] })
  })
})

describe('podcidr', () => {
  it.each([
    [{ podcidr: '10.1.0.0/24' }, [['10.1.0.0/24']]],
    [{ podCIDR: ['10.1.0.0/24'] }, [['10.1.0.0/24']]],
    [{ podcidr: ['10.1.0.0/24', 'fd00::/64'] }, [['10.1.0.0/24'], ['fd00::/64']]],
    [
      { podcidr: 'fd00::/64', runtimeConfig: { ipRanges: [[{ subnet: '10.3.0.0/24' }]] } },
      [['10.3.0.0/24'], ['fd00::/64']],
    ],
  ])('%j', (changes, expected) => {
    expect(subnets(pool(changes))).toEqual(expected)
  })
})

describe('static', () => {
  const addresses = [{ address: '10.1.2.3/24', gateway: '10.1.2.1' }, { address: 'FD00::3/64' }]
  const conf = { ipam: { type: 'static', addresses, routes: [{ dst: '::/0' }], dns: { nameservers: ['1.1.1.1'] } } }

  it('reads addresses, routes and dns', () => {
    expect(fixed(conf)).toEqual({
      kind: 'static',
      addresses: [{ address: '10.1.2.3/24', gateway: '10.1.2.1' }, { address: 'fd00::3/64' }],
      routes: [{ dst: '::/0' }],
      dns: { nameservers: ['1.1.1.1'] },
    })
  })

  it('appends CNI_ARGS IP, and gives GATEWAY to every subnet that contains it', () => {
    const args = 'IP=10.1.2.9/24,10.5.0.1/16;GATEWAY=10.1.2.254,fd00::1'
    expect(fixed(conf, { CNI_ARGS: args }).addresses).toEqual([
      { address: '10.1.2.3/24', gateway: '10.1.2.254' },
      { address: 'fd00::3/64', gateway: 'fd00::1' },
      { address: '10.1.2.9/24', gateway: '10.1.2.254' },
      { address: '10.5.0.1/16' },
    ])
  })

  it('args.cni.ips replaces all, and runtimeConfig.ips replaces that', () => {
    const args = { cni: { ips: ['10.7.0.1/24'] } }
    const env = { CNI_ARGS: 'IP=10.1.2.9/24;GATEWAY=10.7.0.254' }
    expect(fixed({ ...conf, args }, env).addresses).toEqual([{ address: '10.7.0.1/24' }])
    const runtimeConfig = { ips: ['10.8.0.1/24'] }
    expect(fixed({ ...conf, args, runtimeConfig }, env).addresses).toEqual([{ address: '10.8.0.1/24' }])
    expect(fixed({ ...conf, runtimeConfig: { ips: [] } }).addresses).toHaveLength(2)
  })
})

describe('refused', () => {
  const ranges = (...sets: Json[][]) => ({ ipam: { type: 'trestle', ranges: sets } })
  const statics = (...addresses: Json[]) => ({ ipam: { type: 'static', addresses } })
  const oneRoute = (route: Json) => ({ ipam: { type: 'trestle', subnet: '10.1.0.0/24', routes: [route] } })

  it.each<[Json, string]>([
    [{ podcidr: 3 }, 'podcidr: 3 is not a range or a list of two'],
    [{ podcidr: [] }, 'podcidr: 0 ranges given'],
    [{ podcidr: ['10.1.0.0/24', '10.2.0.0/24'] }, 'podcidr: two ranges of one address family'],
    [{ podcidr: '10.1.0.0' }, 'podcidr: "10.1.0.0" is not a range in CIDR notation'],
    [
      { podcidr: '10.1.0.1/24' },
      'podcidr: invalid range set 0: Network has host bits set. For a subnet mask of length 24 the network address is 10.1.0.0',
    ],
    [{ podcidr: '10.1.0.0/24', ipam: { type: 'dhcp' } }, 'podcidr: given together with ipam'],
    [{ ipam: [] }, 'ipam: [] is not an object'],
    [{ ipam: { type: '../x' } }, 'ipam.type: "../x" is not the name of a plugin'],
    [{ ipam: { subnet: '10.1.0.0/24' } }, 'ipam.type: missing, but ipam.subnet is given'],
    [{ ipam: { type: 'trestle' } }, 'ipam: no IP ranges specified'],
    [
      { ipam: { type: 'trestle', ranges: [{ subnet: '10.1.0.0/24' }] } },
      'ipam.ranges[0]: {"subnet":"10.1.0.0/24"} is not a list',
    ],
    [ranges([{ subnet: 5 }]), 'ipam.ranges[0][0].subnet: 5 is not a string without control characters'],
    [{ ipam: { type: 'trestle', subnet: '10.1.0.0/24', dataDir: 'x' } }, 'ipam.dataDir: "x" is not an absolute path'],
    [{ ipam: { type: 'trestle', subnet: '10.1.0.0/24', exclude: ['x'] } }, 'ipam.exclude[0]: invalid CIDR address: x'],
    [oneRoute({}), 'ipam.routes[0].dst: nothing is not a destination in CIDR notation'],
    [oneRoute({ dst: '0.0.0.0/0', gw: 'fd00::1' }), 'ipam.routes[0].gw: "fd00::1" is not an IPv4 address'],
    [oneRoute({ dst: '::/0', gw: 'x' }), 'ipam.routes[0].gw: "x" is not an IPv6 address'],
    [statics(), 'ipam.addresses: no address given'],
    [
      statics({ address: '10.1.2.3' }),
      "ipam.addresses[0].address: the 'address' field is expected to be in CIDR notation, got: '10.1.2.3'",
    ],
    [
      statics({ address: '10.1.2.3/24', gateway: 'fd00::1' }),
      'ipam.addresses[0].gateway: "fd00::1" is not an IPv4 address',
    ],
    [
      { ...statics(), runtimeConfig: { ips: ['10.1.1.1'] } },
      "runtimeConfig.ips[0]: an entry in the 'ips' field is NOT in CIDR notation, got: '10.1.1.1'",
    ],
    [{ podcidr: '10.1.0.0/24', runtimeConfig: { ips: ['x'] } }, 'runtimeConfig.ips[0]: "x" is not an IP address'],
    [
      { cniVersion: '0.2.0', ...ranges([{ subnet: '10.1.0.0/24' }], [{ subnet: '10.2.0.0/24' }]) },
      'ipam.ranges: CNI version 0.2.0 does not support more than 1 address per family',
    ],
    [
      { cniVersion: '0.1.0', ...statics({ address: 'fd00::1/64' }, { address: 'fd00::2/64' }) },
      'ipam.addresses: CNI version 0.1.0 does not support more than 1 address per family',
    ],
  ])('%j', (changes, message) => {
    expect(lineOf(errorOf(() => read(changes)))).toBe(`(7) ${message}`)
  })

  it.each([
    ['0.2.0', {}],
    ['0.1.0', { disableContainerInterface: true }],
    ['0.2.0', { mode: 'chained', prevResult: {} }],
  ])('layer 2 with %s, before anything is touched: %j', (cniVersion, changes) => {
    const error = errorOf(() => read({ cniVersion, ...changes }))
    expect(lineOf(error)).toBe('(7) cannot convert: no valid IP addresses')
  })

  it('dual stack and loopback with 0.2.0 are fine', () => {
    expect(subnets(pool({ cniVersion: '0.2.0', podcidr: ['10.1.0.0/24', 'fd00::/64'] }))).toHaveLength(2)
    expect(read({ cniVersion: '0.2.0', mode: 'loopback' }).mode).toBe('loopback')
  })

  it.each([
    ['trestle', 'IP=x', 'IP "x" is not an IP address'],
    ['static', 'IP=10.1.1.1', "the 'ip' field is expected to be in CIDR notation, got: '10.1.1.1'"],
    ['static', 'GATEWAY=x', 'invalid gateway address: "x"'],
  ])('CNI_ARGS of %s: %s', (type, args, message) => {
    const ipam = { type, subnet: '10.1.0.0/24', addresses: [{ address: '10.1.0.2/24' }] }
    expect(lineOf(errorOf(() => read({ ipam }, { CNI_ARGS: args })))).toBe(`(4) CNI_ARGS: ${message}`)
  })
})
