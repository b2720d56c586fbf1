// SPDX-License-Identifier: Apache-2.0
// The overlay's device as it is to be, and what the rules know of the cluster.

import { describe, expect, it } from 'vitest'
import { changeDevice, clusterOf, deviceChanges } from '../../../src/agent/overlay.ts'
import type { OverlayDevice } from '../../../src/agent/routes.ts'
import { readCluster } from '../../../src/features/network-elements.ts'
import { decide, node, range, self, two } from './cluster-facts.ts'

const overlay = { when: 'auto', port: 4790, vni: 4790 } as const
const wanted = { own: ['10.0.1.0/24', 'fd00:1::/64'].map(range), overlayMtu: 1464 }
const addresses = ['10.0.1.0/32', 'fd00:1::/128']
const device = { isGpe: true, port: 4790, mtu: 1464, isUp: true, addresses }
const changesOf = (there: OverlayDevice | undefined, more: object = {}) =>
  deviceChanges(there, { ...overlay, ...more }, wanted).map((words) => words.join(' '))
const lines = (parts: Partial<OverlayDevice>, more: object = {}) => changesOf({ ...device, ...parts }, more)

describe('deviceChanges', () => {
  const made = [
    'link add trestle0 type vxlan external gpe dstport 4790 nolearning udpcsum udp6zerocsumtx udp6zerocsumrx',
    'link set trestle0 mtu 1464 up',
    'addr replace 10.0.1.0/32 dev trestle0',
    'addr replace fd00:1::/128 dev trestle0 nodad',
  ]
  it('make the device, and nothing where it is as it is to be', () => {
    expect(changesOf(undefined)).toEqual(made)
    expect(lines({})).toEqual([])
    expect(lines({}, { when: 'always' })).toEqual([])
  })

  it.each([
    [{ isGpe: false }, {}],
    [{ port: 8472 }, {}],
    [{}, { port: 4791 }],
  ])('replace one that is another: %j %j', (parts, more) => {
    const port = 'port' in more ? 4791 : 4790
    expect(lines(parts, more)).toEqual([
      'link del trestle0',
      ...made.map((line) => line.replace('dstport 4790', `dstport ${port}`)),
    ])
  })

  it.each([[{ mtu: 1500 }], [{ isUp: false }]])('set up one that has %j', (parts) => {
    expect(lines(parts)).toEqual(['link set trestle0 mtu 1464 up'])
  })

  it('add an address that is missing', () => {
    expect(lines({ addresses: ['10.0.1.0/32'] })).toEqual(['addr replace fd00:1::/128 dev trestle0 nodad'])
  })

  it('remove the device where --overlay is never', () => {
    expect(lines({}, { when: 'never' })).toEqual(['link del trestle0'])
    expect(changesOf(undefined, { when: 'never' })).toEqual([])
  })

  it('remove the address of a former range, which another node may have by now', () => {
    expect(lines({ addresses: [...addresses, '10.0.9.0/32'] })).toEqual(['addr del 10.0.9.0/32 dev trestle0'])
  })

  it('throw with what the kernel says', async () => {
    const answer = (code: number) => async () => ({
      code,
      stdout: '',
      stderr: 'Error: Unknown device type.\nCommand failed -:1\n',
    })
    await expect(changeDevice(answer(1), [['link', 'add']])).rejects.toMatchObject({
      id: 'overlay-fails',
      message: expect.stringContaining('Unknown device type'),
    })
    await changeDevice(answer(0), [['link', 'add']])
    await changeDevice(answer(1), [])
  })
})

describe('clusterOf', () => {
  const other = node('b', ['10.0.3.0/24'], ['192.0.2.3', '192.0.2.2'], { created: '2030' })
  it('has the ranges and addresses of all nodes, in one order, and the overlay', () => {
    const cluster = clusterOf(
      decide([other, self, two]),
      { earlier: [range('10.0.7.0/24')], kept: [range('10.0.8.0/24')] },
      overlay,
    )
    expect(cluster).toEqual({
      pods: ['10.0.1.0/24', 'fd00:1::/64', '10.0.7.0/24'],
      peers: ['10.0.2.0/24', '10.0.3.0/24', '10.0.8.0/24', 'fd00:2::/64'],
      addresses: ['192.0.2.2', '192.0.2.3', '2001:db8::2'],
      overlay: { port: 4790, link: 'trestle0' },
    })
    expect(readCluster(JSON.stringify(cluster))).toEqual(cluster)
    expect(
      clusterOf(decide([self, other, two]), { earlier: [range('10.0.7.0/24')], kept: [range('10.0.8.0/24')] }, overlay),
    ).toEqual(cluster)
  })

  it('has no overlay where there is none', () => {
    const cluster = clusterOf(decide([self]), { earlier: [], kept: [] }, { ...overlay, when: 'never' })
    expect(cluster).toEqual({ pods: ['10.0.1.0/24', 'fd00:1::/64'], peers: [], addresses: [] })
    expect(readCluster(JSON.stringify(cluster))).toEqual(cluster)
  })
})
