// SPDX-License-Identifier: Apache-2.0
// libcni's cache entries.

import { describe, expect, it } from 'vitest'
import { hostLinkName } from '../../../../src-before/model/names.ts'
import {
  cachedAddresses,
  cachedTypes,
  endsOf,
  isMainOurs,
  isPartOurs,
  readCached,
} from '../../../../src-before/plan/upstream/libcni-cache.ts'

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

const key = { network: 'net-a', containerId: 'c-1', ifName: 'eth0', role: 'main' } as const

/** An entry of a list of these types, whose result has this link of the host. */
function cachedOf(types: readonly string[], host: string) {
  const list = JSON.stringify({ plugins: types.map((type) => ({ type })) })
  const interfaces = [{ name: host }, { name: 'eth0', sandbox: '/run/netns/p' }]
  const whole = { ...entry, config: Buffer.from(list).toString('base64'), result: { cniVersion: '1.0.0', interfaces } }
  const cached = readCached(JSON.stringify(whole), 'net-a')
  if (cached === undefined) throw new Error('not read')
  return cached
}

describe('whose an entry is', () => {
  const v2 = { type: 'trestle-v2', role: 'main' } as const
  it.each<[readonly string[], string, Parameters<typeof isMainOurs>[1], readonly [main: boolean, part: boolean]]>([
    [['trestle'], 'veth1', undefined, [true, true]],
    [['trestle'], 'veth1', v2, [true, true]],
    [['trestle-v2', 'tuning'], 'veth1', v2, [true, true]],
    [['bridge', 'trestle-v2'], 'veth1', v2, [false, true]],
    [['trestle-v1'], hostLinkName(key), v2, [true, true]],
    [['trestle-v2'], 'veth1', undefined, [false, false]],
    [['bridge'], 'veth1', { type: 'bridge', role: 'ipam' }, [false, false]],
  ])('made by %j with the link %s, as %j sees it: %j', (types, host, conf, expected) => {
    const cached = cachedOf(types, host)
    expect([isMainOurs(cached, conf), isPartOurs(cached, conf)]).toEqual(expected)
  })
})

describe('an entry of libcni’s cache', () => {
  it('tells everything', () => {
    const cached = readCached(JSON.stringify(entry), 'net-a')
    expect(cached).toMatchObject({ containerId: 'c-1', netns: '/run/netns/p', args: [['K8S_POD_NAME', 'web']] })
    if (cached === undefined) throw new Error('not read')
    expect(cachedTypes(cached)).toEqual(['bridge', 'portmap'])
    expect(cachedAddresses(cached)).toEqual(['10.1.0.2'])
    expect(endsOf(cached).host?.name).toBe('vethdbf5d3a6')
  })

  it.each([
    ['of another network', JSON.stringify({ ...entry, networkName: 'net' })],
    ['cut short', JSON.stringify(entry).slice(0, 100)],
    ['without ids', JSON.stringify({ ...entry, containerId: 1 })],
    ['that is no object', '[]'],
  ])('%s is none', (_, text) => {
    expect(readCached(text, 'net-a')).toBeUndefined()
  })
})
