// SPDX-License-Identifier: Apache-2.0
// What a host link, its alias and the elements with its comment show of an attachment, and names of its files.

import { describe, expect, it } from 'vitest'
import { ownElements, ownLinks, undoOf } from '../../../src/drivers/attachment.ts'
import { recordName } from '../../../src/state/layout.ts'
import { specOf as recovered } from '../../../src/state/recover.ts'
import { portName } from '../../../src/state/reservations.ts'
import { id, type Json, linkOf, specOf } from '../call.ts'

const portMappings = [
  { hostPort: 8080, containerPort: 80, protocol: 'tcp' },
  { hostPort: 8081, containerPort: 81, protocol: 'udp', hostIP: '192.0.2.1' },
]

describe('what the kernel shows', () => {
  it.each<[string, Json]>([
    ['a bridge', {}],
    ['a MAC that is checked', { macspoofchk: true }],
    ['host ports', { runtimeConfig: { portMappings } }],
    ['host ports for every client', { portmap: { masqAll: true }, runtimeConfig: { portMappings } }],
    ['routed and isolated', { mode: 'ptp', firewall: { ingressPolicy: 'isolated' } }],
    ['routed with host ports', { mode: 'ptp', runtimeConfig: { portMappings } }],
  ])('is the same attachment to a DEL: %s', (_, conf) => {
    const made = specOf({ podcidr: ['10.1.0.0/24', 'fd00:1::/64'], ...conf })
    const { host, port, hostPorts } = made
    const link = linkOf(host?.name ?? '', { ...(port ? { master: port.bridge, hairpin: port.hairpin } : {}) })
    const seen = recovered(id, link, ['10.1.0.2', 'fd00:1::2'], ownElements(made))
    expect(ownElements(seen)).toEqual(ownElements(made))
    expect(ownLinks(seen)).toEqual(ownLinks(made))
    expect(undoOf(seen, ownLinks(seen), 7)).toEqual(undoOf(made, ownLinks(made), 7))
    expect((seen.hostPorts?.ports ?? []).map(portName)).toEqual((hostPorts?.ports ?? []).map(portName))
    expect(seen.addresses.map(({ address }) => address)).toEqual(['10.1.0.2/32', 'fd00:1::2/128'])
    expect(seen.mode).toBe(port === undefined ? 'ptp' : 'bridge')
  })
})

it.each([
  [{ ...id, containerId: 'c1' }, 'c1:eth0'],
  [{ ...id, containerId: 'c1', role: 'chained' }, 'c1:eth0:chained'],
  [{ ...id, containerId: 'c1', role: 'ipam' }, 'c1:eth0:ipam'],
] as const)('the record of %j is the file %s', (whose, name) => {
  expect(recordName(whose)).toBe(name)
})
