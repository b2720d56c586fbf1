// SPDX-License-Identifier: Apache-2.0
// A bridge that makes room and comes again under its name: what is removed is made, and not mended.

import { expect, it } from 'vitest'
import { buildNetworkSpec } from '../../../../src-before/drivers/specs.ts'
import { bridgeMac } from '../../../../src-before/model/names.ts'
import { emptyNamespace, type ObservedLink } from '../../../../src-before/model/observed.ts'
import type { NetworkFacts } from '../../../../src-before/plan/order/facts.ts'
import { setUp } from '../../../../src-before/plan/order/set-up.ts'
import { read } from '../../cni/call.ts'

const machineId = 'a machine'
const networkOn = (vlan: number) => {
  const ipam = { type: 'host-local', ranges: [[{ subnet: '10.1.0.0/24' }]] }
  const conf = read({ vlan, isDefaultGateway: true, ipam }) as Parameters<typeof buildNetworkSpec>[0]
  return buildNetworkSpec(conf, [], { mtu: 1500, machineId })
}
const link = (name: string, kind: string): ObservedLink =>
  ({ name, kind, mac: bridgeMac(name, machineId), mtu: 1500, up: true, addresses: [] }) as unknown as ObservedLink

it('a network that moves to another VLAN after its last pod gets its bridge anew, with the MAC from the start', () => {
  const [before, network] = [networkOn(10), networkOn(20)]
  const bridge = before.bridge?.name ?? ''
  const gateway = { ...link(before.bridge?.gateway?.name ?? '', 'veth'), addresses: ['10.1.0.1/24'] }
  const links = new Map([link(bridge, 'bridge'), gateway].map((each) => [each.name, each]))
  const shared: NetworkFacts = {
    ...{ isMade: true, before, networks: [before], made: [], attachments: [], pods: [], opened: [] },
    ...{ host: { ...emptyNamespace, links }, cluster: undefined, links: new Set(links.keys()), sysctls: new Map() },
  }
  const setting = {
    network,
    subnetSource: 'configured' as const,
    own: () => [],
    mayOverlap: false,
    abandoned: [...links.keys()].reverse(),
  }
  const { run } = setUp({ shared, machineId }, setting).links
  const onBridge =
    run.kind === 'batch' ? run.ops.filter((op) => ('dev' in op ? op.dev : 'name' in op && op.name) === bridge) : []
  expect(onBridge.map(({ kind }) => kind).slice(0, 2)).toEqual(['link.del', 'bridge.add'])
  expect(onBridge.map(({ kind }) => kind)).not.toContain('link.mac')
})
