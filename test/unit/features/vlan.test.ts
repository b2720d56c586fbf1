// SPDX-License-Identifier: Apache-2.0
// VLANs of a bridge port: which are set in which order, the gateway on a veth of its own, and macspoofchk.

import { describe, expect, it } from 'vitest'
import { macCheck, portVlanOps, vlanGatewayOps } from '../../../src/features/vlan.ts'
import { toBatch } from '../../../src/kernel/batch.ts'
import type { Op } from '../../../src/kernel/operation.ts'
import { type Json, specOf } from '../call.ts'

const linesOf = (ops: readonly Op[]) => ops.map((op) => toBatch([op]).texts.join('').trim())

describe('a port', () => {
  it.each<[string, Json, readonly string[]]>([
    ['without VLANs', {}, []],
    ['on an access VLAN', { vlan: 100 }, ['vlan del dev V vid 1', 'vlan add dev V vid 100 pvid untagged']],
    ['that keeps the default VLAN', { vlan: 100, preserveDefaultVlan: true }, ['vlan add dev V vid 100 pvid untagged']],
    [
      'of a trunk alone has its untagged traffic on VLAN 1',
      { vlanTrunk: [{ id: 101 }, { minID: 200, maxID: 201 }] },
      [
        'vlan add dev V vid 1 pvid untagged',
        'vlan add dev V vid 101',
        'vlan add dev V vid 200',
        'vlan add dev V vid 201',
      ],
    ],
    [
      'of a trunk that names the access VLAN, too',
      { vlan: 100, vlanTrunk: [{ id: 100 }, { id: 101 }] },
      ['vlan del dev V vid 1', 'vlan add dev V vid 100 pvid untagged', 'vlan add dev V vid 101'],
    ],
  ])('%s', (_, conf, lines) => {
    const vlans = specOf(conf).port?.vlans
    expect(vlans === undefined ? [] : linesOf(portVlanOps('V', vlans))).toEqual(lines)
  })
})

describe('the gateway of a VLAN', () => {
  const layer3 = { isGateway: true, ipam: { type: 'host-local', subnet: '10.1.0.0/24' } }
  const bridgeOf = (conf: Json) => specOf(conf).network?.bridge

  it('is a veth with a port on the bridge, in that VLAN alone', () => {
    const bridge = bridgeOf({ vlan: 100, ...layer3 })
    if (bridge === undefined) throw new Error('no bridge')
    expect([bridge.vlanGateway?.name, bridge.addresses]).toEqual(['cni0.100', ['10.1.0.1/24']])
    expect(linesOf(vlanGatewayOps(bridge)).map((line) => line.replace(/(?:[\da-f]{2}:){5}[\da-f]{2}/g, 'MAC'))).toEqual(
      [
        'link add name cni0.100 mtu 1500 address MAC up type veth peer name vlan100.cni0 mtu 1500 address MAC',
        'link set dev cni0.100 alias trestle',
        'link set dev vlan100.cni0 master cni0 up',
        'vlan del dev vlan100.cni0 vid 1',
        'vlan add dev vlan100.cni0 vid 100 pvid untagged',
      ],
    )
  })

  it('has a name that the kernel takes, also on a bridge with a long one', () => {
    const { name = '', peer = '' } = bridgeOf({ vlan: 100, bridge: 'bridge-of-pods', ...layer3 })?.vlanGateway ?? {}
    for (const each of [name, peer]) expect(each).toMatch(/^.{15}$/)
    expect(name).not.toBe(peer)
  })

  it('is none on layer 2, and none without a VLAN', () => {
    expect(bridgeOf({ vlan: 100 })?.vlanGateway).toBeUndefined()
    expect(bridgeOf(layer3)?.vlanGateway).toBeUndefined()
  })
})

it('macspoofchk lets the port have the MAC of its pod', () => {
  const spec = specOf({ macspoofchk: true })
  const link = spec.host?.name ?? ''
  expect(macCheck.elements?.(spec)).toEqual([
    { set: 'guarded', key: [link] },
    { set: 'guardedmac', key: [link, spec.pod?.mac] },
  ])
  expect(macCheck.elements?.(specOf({}))).toEqual([])
})
