// SPDX-License-Identifier: Apache-2.0
// VLANs as what the tools are reported, against golden text: order of default, access VLAN and trunk, and the
// gateway on a veth of its own.

import { expect, it } from 'vitest'
import { hostOps } from '../../../../src/plan/modes/attach.ts'
import { portOps } from '../../../../src/plan/modes/bridge.ts'
import { bridgeOps, fastPathBridgeOps } from '../../../../src/plan/modes/network-rules.ts'
import { planText, specsOf } from '../../../support/golden.ts'
import { type Json, read } from '../../cni/model/call.ts'

const layer3 = {
  isDefaultGateway: true,
  ipam: { type: 'host-local', ranges: [[{ subnet: '10.1.0.0/24' }], [{ subnet: 'fd00:1::/64' }]] },
}
const lease = {
  ips: [
    { address: '10.1.0.2/24', gateway: '10.1.0.1' },
    { address: 'fd00:1::2/64', gateway: 'fd00:1::1' },
  ],
  routes: [],
}

const cases: readonly [name: string, conf: Json][] = [
  ['vlan-access', { vlan: 100 }],
  ['vlan-trunk', { vlanTrunk: [{ id: 101 }, { minID: 200, maxID: 202 }] }],
  ['vlan-access-and-trunk', { vlan: 100, vlanTrunk: [{ id: 100 }, { id: 101 }] }],
  ['vlan-default-kept', { vlan: 100, preserveDefaultVlan: true }],
  ['vlan-layer-3', { vlan: 100, ...layer3 }],
  ['vlan-layer-3-long-name', { vlan: 100, bridge: 'bridge-of-pods', ...layer3 }],
]

it.each(cases)('%s', async (name, conf) => {
  const hasAddresses = 'ipam' in conf
  const { spec, network } = specsOf(read(conf), hasAddresses ? lease : { ips: [], routes: [] })
  const text = planText({
    'the first ADD: the bridge': bridgeOps(network, []),
    'every ADD: the bridge': fastPathBridgeOps(network),
    'the attachment, on the host': hostOps(spec),
    'a port that lost its bridge': portOps(spec),
  })
  await expect(text).toMatchFileSnapshot(`../../../cases/${name}.txt`)
})

it('a network without VLANs has none in its plan', () => {
  const { spec, network } = specsOf(read(layer3), lease)
  const text = planText({ all: [...bridgeOps(network, [spec]), ...hostOps(spec)] })
  expect(text).not.toContain('vlan')
})
