// SPDX-License-Identifier: Apache-2.0
// Elements that networks share, whose comment each has, and those of the cluster: nothing of a damaged file reaches nft.

import { describe, expect, it } from 'vitest'
import { everyElement } from '../../../src/drivers/attachment.ts'
import { networkDigest } from '../../../src/drivers/names.ts'
import type { NetworkSpec } from '../../../src/drivers/spec.ts'
import { clusterElements, networkElements, readCluster } from '../../../src/features/network-elements.ts'
import { type Json, specOf } from '../call.ts'

function networkOf(conf: Json): NetworkSpec {
  const { network } = specOf(conf)
  if (network === undefined) throw new Error('no network')
  return network
}

const textOf = ({ set, key }: { set: string; key: readonly string[] }) => `${set} ${key.join(' ')}`

describe('elements of networks', () => {
  const one = networkOf({ name: 'one', podcidr: '10.1.0.0/24', nonMasqueradeCIDRs: ['10.0.0.0/8'] })
  const two = networkOf({ name: 'two', podcidr: '10.2.0.0/24' })

  it('are each network’s own, with its comment', () => {
    const elements = networkElements([one, two])
    expect(elements.map(({ set, key, comment }) => [textOf({ set, key }), comment])).toEqual(
      expect.arrayContaining([
        ['masq4 10.1.0.0/24', networkDigest('one')],
        ['masq4 10.2.0.0/24', networkDigest('two')],
        ['hairpin4 10.2.0.0/24 10.2.0.0/24', networkDigest('two')],
      ]),
    )
  })

  it('that are shared have the comment of the first, and are there once', () => {
    const shared = networkElements([one, two]).filter(({ set }) => set === 'hairpinlink')
    expect(shared).toEqual([{ set: 'hairpinlink', key: ['cni0', 'cni0'], comment: networkDigest('one') }])
  })

  it('of a network without a configuration are what was found of it, but for what others have', () => {
    const kept = ['10.1.0.0/24', '10.3.0.0/24'].map((cidr) => ({ set: 'masq4', key: [cidr], comment: 'x' }) as const)
    const found: NetworkSpec = { ...two, masquerade: undefined, hairpin: [], givenElements: kept } as never
    const comments = networkElements([one, found]).filter(({ set }) => set === 'masq4')
    expect(comments.map(({ key, comment }) => [...key, comment])).toEqual([
      ['10.1.0.0/24', networkDigest('one')],
      ['10.3.0.0/24', 'x'],
    ])
  })
})

const cluster = {
  pods: ['10.0.1.0/24', 'fd00:1::/64'],
  peers: ['10.0.2.0/24', 'fd00:2::/64', '10.0.2.0/24'],
  addresses: ['192.0.2.2', '2001:db8::2', '192.0.2.2'],
}

describe('the cluster', () => {
  it('has each range and address once', () => {
    expect(clusterElements(cluster).map(textOf)).toEqual([
      ...['podnet4 10.0.1.0/24', 'podnet6 fd00:1::/64', 'peernet4 10.0.2.0/24', 'peernet6 fd00:2::/64'],
      ...['peeraddr4 192.0.2.2', 'peeraddr6 2001:db8::2'],
    ])
    expect(new Set(clusterElements(cluster).map(({ comment }) => comment))).toEqual(new Set(['cluster']))
  })

  it('is needed by nobody where there is no network', () => {
    expect(everyElement([], [], cluster)).toEqual([])
    const networks = [networkOf({ podcidr: '10.0.1.0/24' })]
    expect(everyElement(networks, [], cluster).map(textOf)).toEqual(expect.arrayContaining(['peeraddr6 2001:db8::2']))
  })

  it('is read as it was written', () => {
    expect(readCluster(JSON.stringify({ format: 3, ...cluster }))).toEqual(cluster)
  })

  it.each([
    ...['', '{', 'null', '5', '{}'],
    JSON.stringify({ ...cluster, peers: ['10.0.2.0/24 } ; flush ruleset'] }),
    JSON.stringify({ ...cluster, addresses: [5] }),
    JSON.stringify({ ...cluster, addresses: undefined }),
  ])('is not read from %s', (text) => {
    expect(readCluster(text)).toBeUndefined()
  })
})
