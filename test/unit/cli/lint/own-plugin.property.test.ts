// SPDX-License-Identifier: Apache-2.0
// lint and ADD never disagree: a configuration that ADD refuses has an error, and one that it takes has none.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { CniError } from '../../../../src/cni/errors.ts'
import { readOwn } from '../../../../src/commands/lint/own-plugin.ts'
import type { PluginEntry } from '../../../../src/commands/network-list.ts'
import { readConfig } from '../../../../src/config/read-config.ts'
import { callOf } from '../call.ts'

const text = fc.constantFrom(
  '',
  'cni0',
  'a b',
  '10.1.0.0/24',
  '10.1.0.9/24',
  '10.1.0.0/31',
  'fd00::/64',
  '10.1.0.7',
  'x',
)
const anything = fc.oneof(
  text,
  fc.boolean(),
  fc.integer({ min: -1, max: 5000 }),
  fc.constant(null),
  fc.constant([]),
  fc.constant({}),
)
/** Mostly what the key takes. */
const mostly = <T>(value: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 15, arbitrary: value as fc.Arbitrary<unknown> }, { weight: 1, arbitrary: anything })
const flag = mostly(fc.boolean())

const range = fc.record({ subnet: text, rangeStart: text, rangeEnd: text, gateway: text }, { requiredKeys: ['subnet'] })
const ipam = fc.record(
  {
    type: mostly(fc.constantFrom('host-local', 'static', 'trestle', 'dhcp', '')),
    subnet: text,
    ranges: mostly(fc.array(fc.array(range, { maxLength: 2 }), { maxLength: 2 })),
    addresses: mostly(fc.array(fc.record({ address: text }), { maxLength: 2 })),
    routes: mostly(fc.array(fc.record({ dst: text, gw: text }), { maxLength: 1 })),
  },
  { requiredKeys: [] },
)
const keys = {
  mode: mostly(fc.constantFrom('bridge', 'ptp', 'loopback', 'chained')),
  podcidr: mostly(fc.oneof(text, fc.array(text, { maxLength: 3 }))),
  ipam: mostly(ipam),
  bridge: mostly(fc.constantFrom('cni0', 'br-1', 'a/b')),
  hairpinMode: flag,
  promiscMode: flag,
  disableContainerInterface: flag,
  vlan: mostly(fc.integer({ min: 0, max: 5000 })),
  vlanTrunk: mostly(
    fc.array(
      fc.record({ minID: fc.integer({ min: 0, max: 9 }), id: fc.integer({ min: 0, max: 9 }) }, { requiredKeys: [] }),
      { maxLength: 2 },
    ),
  ),
  nonMasqueradeCIDRs: mostly(fc.array(text, { maxLength: 2 })),
  mtu: mostly(fc.constantFrom('auto', 0, 67, 1500)),
  firewall: mostly(fc.record({ ingressPolicy: text, iptablesAdminChainName: text }, { requiredKeys: [] })),
  portmap: mostly(fc.record({ backend: text, conditionsV4: fc.array(text, { maxLength: 2 }) }, { requiredKeys: [] })),
  bandwidth: mostly(
    fc.record({ ingressRate: fc.integer({ min: -1, max: 9 }), ingressBurst: fc.nat(9) }, { requiredKeys: [] }),
  ),
  tuning: mostly(
    fc.record(
      { sysctl: fc.dictionary(fc.constantFrom('net.core.somaxconn', 'kernel.x', 'net/x'), text) },
      { requiredKeys: [] },
    ),
  ),
  sbr: mostly(fc.record({ gateways: fc.array(text, { maxLength: 3 }) }, { requiredKeys: [] })),
}

/** At most three keys: with more, hardly any is taken. */
const plugin = fc
  .tuple(fc.record(keys), fc.subarray(Object.keys(keys), { maxLength: 3 }))
  .map(([all, some]) => Object.fromEntries(Object.entries(all).filter(([key]) => some.includes(key))))

/** The code with which ADD refuses it, or 0. */
function codeOfAdd(conf: object, version: string): number {
  const stdin = JSON.stringify({ ...conf, type: 'trestle', name: 'n', cniVersion: version })
  try {
    readConfig(stdin, callOf('ADD'))
    return 0
  } catch (thrown) {
    if (thrown instanceof CniError) return thrown.code
    throw thrown
  }
}

it('lint finds an error exactly where ADD refuses, and the first one is what ADD says', () => {
  const seen = { refused: 0, taken: 0 }
  const property = fc.property(plugin, fc.constantFrom('0.2.0', '1.1.0'), (conf, version) => {
    const entry: PluginEntry = { conf, steps: ['plugins', 0], index: 0 }
    const { found } = readOwn(entry, { name: 'n', version: version as '1.1.0' })
    const code = codeOfAdd(conf, version)
    expect(found.length > 0, JSON.stringify({ found, code })).toBe(code !== 0)
    if (code === 2) expect(found[0]?.id).toBe('unsupported-value')
    seen[code === 0 ? 'taken' : 'refused']++
  })
  fc.assert(property, { numRuns: 3000 })
  expect(Math.min(seen.refused, seen.taken), JSON.stringify(seen)).toBeGreaterThan(50)
})
