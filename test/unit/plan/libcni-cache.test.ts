// SPDX-License-Identifier: Apache-2.0
// libcni's cache entries, of its present format and of the one before.

import { describe, expect, it } from 'vitest'
import { addressesOf, cachedTypes, endsOf, readCached } from '../../../src/plan/libcni-cache.ts'

const result = {
  cniVersion: '0.4.0',
  interfaces: [
    { name: 'cni0', mac: '02:00:00:00:00:01' },
    { name: 'vethdbf5d3a6', mac: '02:00:00:00:00:02' },
    { name: 'eth0', mac: '02:00:00:00:00:03', sandbox: '/run/netns/p' },
  ],
  ips: [
    { version: '4', interface: 2, address: '10.1.0.2/24', gateway: '10.1.0.1' },
    { version: '4', interface: 0, address: '10.1.0.1/24' },
  ],
}
const config = Buffer.from('{"plugins":[{"type":"bridge"},{"type":"portmap"}]}').toString('base64')
const entry = {
  kind: 'cniCacheV1',
  containerId: 'c-1',
  ifName: 'eth0',
  networkName: 'net-a',
  netns: '/run/netns/p',
  config,
  cniArgs: [['K8S_POD_NAME', 'web']],
  capabilityArgs: { portMappings: [] },
  result,
}

describe('an entry of libcni’s cache', () => {
  it('tells everything in the present format', () => {
    const cached = readCached('net-a-c-1-eth0', JSON.stringify(entry), 'net-a')
    expect(cached).toMatchObject({ containerId: 'c-1', netns: '/run/netns/p', args: [['K8S_POD_NAME', 'web']] })
    if (cached === undefined) throw new Error('not read')
    expect(cachedTypes(cached)).toEqual(['bridge', 'portmap'])
    expect(addressesOf(cached)).toEqual(['10.1.0.2'])
    expect(endsOf(cached).host?.name).toBe('vethdbf5d3a6')
  })

  it('of the format before has its attachment in the name', () => {
    const cached = readCached('net-a-c-1-eth0', JSON.stringify(result), 'net-a')
    expect(cached).toMatchObject({ network: 'net-a', containerId: 'c-1', ifName: 'eth0', netns: '/run/netns/p' })
  })

  it.each([
    ['of another network', JSON.stringify({ ...entry, networkName: 'net' })],
    ['cut short', JSON.stringify(entry).slice(0, 100)],
    ['without ids', JSON.stringify({ ...entry, containerId: 1 })],
    ['that is no object', '[]'],
  ])('%s is none', (_, text) => {
    expect(readCached('net-a', text, 'net-a')).toBeUndefined()
  })
})
