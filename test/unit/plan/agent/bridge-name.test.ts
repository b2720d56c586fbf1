// SPDX-License-Identifier: Apache-2.0
// A node's new range gets a bridge of its own while pods of the old one are there, and keeps it.

import { describe, expect, it } from 'vitest'
import { bridgeFor } from '../../../../src/plan/agent/bridge-name.ts'

const bridge = (name: string, addresses: readonly string[]) => {
  return { bridge: { name, addresses } } as unknown as NonNullable<Parameters<typeof bridgeFor>[0]['network']>
}
const [old, now] = [
  ['10.0.1.0/24', 'fd00:1::/64'],
  ['10.0.9.0/24', 'fd00:9::/64'],
]
const name = (podCidrs: readonly string[], network: Parameters<typeof bridgeFor>[0]['network'], used: string[] = []) =>
  bridgeFor({ podCidrs, network, inUse: () => new Set(used) })
const atOld = bridge('cni0', ['10.0.1.1/24', 'fd00:1::1/64'])
const atNew = bridge('cni1', ['10.0.9.1/24', 'fd00:9::1/64'])

describe('bridgeFor', () => {
  it('is the usual one, until pods of an earlier range are plugged into it', () => {
    expect(name(old, undefined)).toBeUndefined()
    expect(name(old, atOld, ['cni0'])).toBeUndefined()
    expect(name(now, atOld)).toBeUndefined()
    expect(name(now, atOld, ['cni0'])).toBe('cni1')
  })

  it('stays when the old pods are gone, and comes back for a third range', () => {
    expect(name(now, atNew, ['cni0', 'cni1'])).toBe('cni1')
    expect(name(now, atNew)).toBe('cni1')
    expect(name(['10.0.8.0/24'], atNew, ['cni1'])).toBeUndefined()
    expect(name(['10.0.8.0/24'], atNew, ['cni0', 'cni1'])).toBe('cni2')
  })
})
