// SPDX-License-Identifier: Apache-2.0
// VLANs as what the tools are reported, against golden text: order of default, access VLAN and trunk, and the
// gateway on a veth of its own.

import { expect, it } from 'vitest'
import { portOps } from '../../../src-before/drivers/bridge.ts'
import { type Called, opsText, plansOf, plansText, specsOf } from '../../support/golden.ts'
import { type Json, read } from '../cni/call.ts'

const layer3 = {
  isDefaultGateway: true,
  ipam: { type: 'host-local', ranges: [[{ subnet: '10.1.0.0/24' }], [{ subnet: 'fd00:1::/64' }]] },
}
const cases: readonly [name: string, conf: Json][] = [
  ['vlan-access', { vlan: 100 }],
  ['vlan-trunk', { vlanTrunk: [{ id: 101 }, { minID: 200, maxID: 202 }] }],
  ['vlan-access-and-trunk', { vlan: 100, vlanTrunk: [{ id: 100 }, { id: 101 }] }],
  ['vlan-default-kept', { vlan: 100, preserveDefaultVlan: true }],
  ['vlan-layer-3', { vlan: 100, ...layer3 }],
  ['vlan-layer-3-long-name', { vlan: 100, bridge: 'bridge-of-pods', ...layer3 }],
]

/** What is said of links on the host in one ADD. */
const linksOf = async (conf: Json, called: Called) =>
  (await plansOf(read(conf), called))
    .map((plan) => ({ ...plan, stages: plan.stages.filter(({ id }) => ['links', 'own'].includes(id)) }))
    .filter(({ stages }) => stages.length > 0)

it.each(cases)('%s', async (name, conf) => {
  const { spec } = specsOf(read(conf), { ips: [], routes: [] })
  const text = [
    plansText('first ADD', await linksOf(conf, 'first')),
    plansText('later ADD', await linksOf(conf, 'later')),
    `# a port that lost its bridge\n${opsText(portOps(spec))}`,
  ].join('\n')
  await expect(text).toMatchFileSnapshot(`../../cases/${name}.txt`)
})

it('a network without VLANs has none in its plans', async () => {
  const plans = await Promise.all((['first', 'later', 'DEL'] as const).map((called) => plansOf(read(layer3), called)))
  expect(plansText('all', plans.flat())).not.toContain('vlan')
})
