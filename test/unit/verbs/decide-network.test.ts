// SPDX-License-Identifier: Apache-2.0
// A network as its configuration wants it, with what was learned from pods before.

import { describe, expect, it } from 'vitest'
import type { NetworkSpec, PodAddress } from '../../../src/drivers/spec.ts'
import { mergeNetwork } from '../../../src/verbs/decide-network.ts'
import { type Json, specOf, v4 } from '../call.ts'

const delegated = { ipam: { type: 'dhcp' }, isGateway: true, ipMasq: true }
function networkOf(conf: Json, address: PodAddress = v4): NetworkSpec {
  const { network } = specOf(conf, { lease: { addresses: [address], routes: [] } })
  if (network === undefined) throw new Error('no network')
  return network
}
const second = { address: '10.2.0.2/24', gateway: '10.2.0.1' }

describe('a network whose IPAM names no ranges', () => {
  const [one, two] = [networkOf(delegated), networkOf(delegated, second)]

  it('is the new one where there was none, or another bridge', () => {
    expect(mergeNetwork(two, undefined)).toBe(two)
    expect(mergeNetwork(two, networkOf({ ...delegated, bridge: 'br9' }))).toBe(two)
  })

  it('gathers subnets and gateways pod by pod, in one order', () => {
    const merged = mergeNetwork(two, one)
    expect(merged).toMatchObject({
      ranges: ['10.1.0.0/24', '10.2.0.0/24'],
      gateways: ['10.1.0.1/24', '10.2.0.1/24'],
      bridge: { addresses: ['10.1.0.1/24', '10.2.0.1/24'] },
      masquerade: { sources: ['10.1.0.0/24', '10.2.0.0/24'] },
    })
    expect(mergeNetwork(one, two)).toEqual(merged)
    expect(mergeNetwork(one, merged)).toEqual(merged)
  })

  it('masquerades no more where the configuration says so', () => {
    expect(mergeNetwork(networkOf({ ...delegated, ipMasq: false }), one)).not.toHaveProperty('masquerade')
  })
})

describe('a network with ranges of its own', () => {
  const pool = { ipam: { type: 'host-local', subnet: '10.1.0.0/24' } }
  const withPorts = networkOf({ ...pool, runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 80 }] } })

  it('is the new one, with the hairpin of a pod before', () => {
    const now = networkOf(pool)
    expect(mergeNetwork(now, withPorts)).toEqual({ ...now, hairpin: ['10.1.0.0/24'] })
    expect(mergeNetwork(now, networkOf(pool))).toEqual(now)
  })

  it('has no hairpin of a range that is gone', () => {
    const now = networkOf({ ipam: { type: 'host-local', subnet: '10.3.0.0/24' } })
    expect(mergeNetwork(now, withPorts).hairpin).toEqual([])
  })
})
