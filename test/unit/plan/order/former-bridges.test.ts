// SPDX-License-Identifier: Apache-2.0
// Which bridges are over: ours, of an earlier range alone, with nothing plugged in, and asked for by nobody.

import { describe, expect, it } from 'vitest'
import { emptyNamespace, type ObservedLink } from '../../../../src-before/model/observed.ts'
import { formerBridges, isOfRanges } from '../../../../src-before/plan/order/earlier-networks.ts'

const ranges = ['10.244.1.0/24', 'fd00:10:244:1::/64']
const bridge = (more: Partial<ObservedLink> = {}): ObservedLink =>
  ({
    ...{ name: 'cni0', kind: 'bridge', mac: 'own cni0', addresses: ['10.244.1.1/24', 'fe80::1/64'] },
    ...more,
  }) as ObservedLink
const port = { ...bridge(), name: 'veth1', kind: 'veth', master: 'cni0', addresses: [] }

function formerOf(links: readonly ObservedLink[], inUse: readonly string[] = []) {
  const host = { ...emptyNamespace, links: new Map(links.map((link) => [link.name, link])) }
  return formerBridges({ host, ranges, inUse: new Set(inUse), ownMac: (name) => `own ${name}` })
}

describe('formerBridges', () => {
  it('are ours, with addresses of the ranges and nothing plugged in', () => {
    expect(formerOf([bridge()])).toEqual(['cni0'])
    expect(formerOf([bridge({ addresses: ['fd00:10:244:1::1/64', '10.244.1.1/24'] })])).toEqual(['cni0'])
  })
  it.each<{ what: string; links: readonly ObservedLink[]; inUse?: readonly string[] }>([
    { what: 'one with a port', links: [bridge(), port] },
    { what: 'one that a network has', links: [bridge()], inUse: ['cni0'] },
    { what: 'one of somebody else', links: [bridge({ mac: '0a:00:00:00:00:01' })] },
    {
      what: 'one that has an address of another range, too',
      links: [bridge({ addresses: ['10.244.1.1/24', '10.9.0.1/24'] })],
    },
    { what: 'one with no address but its link-local one', links: [bridge({ addresses: ['fe80::1/64'] })] },
    { what: 'another link', links: [bridge({ kind: 'veth' })] },
  ])('are not: $what', ({ links, inUse }) => {
    expect(formerOf(links, inUse)).toEqual([])
  })
})

it('isOfRanges asks for every address of the bridge', () => {
  const network = (addresses: readonly string[]) =>
    ({ bridge: { name: 'cni0', addresses } }) as unknown as Parameters<typeof isOfRanges>[0]
  expect(isOfRanges(network(['10.244.1.1/24']), ranges)).toBe(true)
  expect(isOfRanges(network(['10.244.1.1/24', '10.9.0.1/24']), ranges)).toBe(false)
  expect(isOfRanges(network([]), ranges)).toBe(false)
})
