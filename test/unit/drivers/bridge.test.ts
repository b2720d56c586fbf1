// SPDX-License-Identifier: Apache-2.0
// The bridge of a network: how it is made, what holds wherever a network is set up, and ports that lost it.

import { describe, expect, it } from 'vitest'
import { keepNetworkOps, makeBridgeOps, plugOps } from '../../../src/drivers/bridge.ts'
import { linkLocalPrefix } from '../../../src/drivers/names.ts'
import type { NetworkSpec } from '../../../src/drivers/spec.ts'
import { toBatch } from '../../../src/kernel/batch.ts'
import type { Op } from '../../../src/kernel/operation.ts'
import { type Json, specOf } from '../call.ts'

const linesOf = (ops: readonly Op[]) => ops.map((op) => toBatch([op]).texts.join('').trim())
function networkOf(conf: Json): NetworkSpec {
  const { network } = specOf(conf)
  if (network === undefined) throw new Error('no network')
  return network
}
const dual = { podcidr: ['10.1.0.0/24', 'fd00:1::/64'] }

describe('a bridge', () => {
  const network = networkOf(dual)
  const { bridge } = network
  const mac = bridge?.mac ?? ''

  it('is made with its MAC, or it would follow its ports, and says that it is ours', () => {
    expect(bridge && linesOf(makeBridgeOps(bridge))).toEqual([
      `link add name cni0 mtu 1500 address ${mac} up type bridge`,
      'link set dev cni0 alias trestle',
    ])
  })

  it('has forwarding, no routers, and its gateways; with IPv6 its link-local address at once', () => {
    expect(linesOf(keepNetworkOps(network))).toEqual([
      ...['net/ipv4/ip_forward=1', 'net/ipv6/conf/all/forwarding=1', 'net/ipv6/conf/cni0/accept_ra=0'],
      `link set dev cni0 address ${mac} up`,
      'link set dev cni0 addrgenmode none',
      `addr replace ${linkLocalPrefix(mac)} nodad dev cni0`,
      'addr replace 10.1.0.1/24 broadcast + dev cni0',
      'addr replace fd00:1::1/64 nodad dev cni0',
    ])
  })

  it('that another program made keeps its MAC', () => {
    const foreign = { ...network, bridge: { ...bridge, isForeign: true } } as NetworkSpec
    expect(linesOf(keepNetworkOps(foreign))).toContain('link set dev cni0 up')
  })

  it('of layer 2 has no address, and nothing is forwarded', () => {
    const { mac: own } = networkOf({}).bridge ?? {}
    expect(linesOf(keepNetworkOps(networkOf({})))).toEqual([
      'net/ipv6/conf/cni0/accept_ra=0',
      `link set dev cni0 address ${own} up`,
    ])
  })
})

it('a port that lost its bridge gets its settings back, which it lost with it', () => {
  const spec = specOf({ ...dual, vlan: 5, hairpinMode: true })
  const dev = spec.host?.name
  const ops = plugOps(spec)
  expect(linesOf(ops)).toEqual([
    `link set dev ${dev} master cni0 up`,
    `link set dev ${dev} type bridge_slave hairpin on isolated off`,
    `vlan del dev ${dev} vid 1`,
    `vlan add dev ${dev} vid 5 pvid untagged`,
  ])
  expect(ops.every(({ tolerate }) => tolerate === 'absent')).toBe(true)
})
