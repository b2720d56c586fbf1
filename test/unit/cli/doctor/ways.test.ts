// SPDX-License-Identifier: Apache-2.0
// Which pods the node has a way to, and which leave by the node: their routes and their MTU are compared with its own.

import { expect, it } from 'vitest'
import { routedEnds } from '../../../../src/commands/doctor/kernel.ts'
import { leavesByNode } from '../../../../src/commands/doctor/state.ts'
import type { AttachmentRecord } from '../../../../src-before/model/record.ts'

const ips = [{ address: '10.1.0.2/24' }, { address: 'fd00::2/64' }]
const byGateway = [{ dst: '0.0.0.0/0', gw: '10.1.0.1' }]

/** A record of a bridge with these gateways, or of a routed pod. */
function recordOf(addresses: readonly string[] | undefined, defaultRoutes: readonly object[] = []): AttachmentRecord {
  const key = { network: 'a', containerId: 'c1', ifName: 'eth0', role: 'main' }
  const port = addresses === undefined ? {} : { port: { bridge: 'br0' } }
  const spec = { host: { name: 'veth1' }, ips, routes: [], defaultRoutes, ...port }
  return { key, spec, network: { bridge: addresses && { name: 'br0', addresses } } } as never
}

it.each([
  ['a bridge with both gateways', ['10.1.0.1/24', 'fd00::1/64'], ['10.1.0.2 br0', 'fd00::2 br0']],
  ['a bridge with a gateway of IPv4', ['10.1.0.1/24'], ['10.1.0.2 br0']],
  ['a bridge without a gateway', [], []],
  ['a routed pod', undefined, ['10.1.0.2 veth1', 'fd00::2 veth1']],
])('the node has ways to addresses of %s', (_, addresses, ways) => {
  const ends = routedEnds([recordOf(addresses)])
  expect(ends.map(({ address, expected }) => `${address} ${expected}`)).toEqual(ways)
})

it.each([
  ['a default route by the gateway on the bridge', recordOf(['10.1.0.1/24'], byGateway), true],
  ['a default route by another router of the bridge', recordOf([], byGateway), false],
  ['no default route', recordOf(['10.1.0.1/24']), false],
  ['the default route of a routed pod', recordOf(undefined, byGateway), true],
])('a pod with %s', (_, record, leaves) => expect(leavesByNode(record)).toBe(leaves))
