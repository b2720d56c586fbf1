// SPDX-License-Identifier: Apache-2.0
// What the agent writes down of the cluster, as elements, and what of a damaged file reaches nft: nothing.

import { describe, expect, it } from 'vitest'
import { fastPathRuleOps, refilledRuleOps, ruleOps } from '../../../src-before/drivers/network.ts'
import { changedElements, clusterElements, decodeCluster } from '../../../src-before/features/cluster.ts'
import type { NetworkSpec } from '../../../src-before/model/attachment.ts'
import { encodeFile } from '../../../src-before/model/kinds.ts'

const cluster = {
  pods: ['10.0.1.0/24', 'fd00:1::/64'],
  peers: ['10.0.2.0/24', 'fd00:2::/64', '10.0.2.0/24'],
  addresses: ['192.0.2.2', '2001:db8::2', '192.0.2.2'],
}
const network: NetworkSpec = {
  name: 'pods',
  forwarding: [4],
  masquerade: { subnets: ['10.0.1.0/24'], noMasquerade: [] },
  removeWhenEmpty: false,
}

describe('changedElements', () => {
  const text = ({ set, key }: { set: string; key: readonly string[] }) => `${set} ${key.join(' ')}`
  const all = (each: typeof cluster) => clusterElements(each).map(text)
  const readdressed = { ...cluster, addresses: ['192.0.2.2', '2001:db8::3'] }
  it.each([
    ['the same', cluster],
    ['another address', readdressed],
    ['a range more', { ...cluster, peers: [...cluster.peers, '10.0.3.0/24'] }],
    ['a range that contains another', { ...cluster, peers: ['10.0.2.0/23', 'fd00:2::/64'] }],
    ['other ranges of the own pods', { ...cluster, pods: ['10.0.1.0/24', '10.0.9.0/24'] }],
    ['nothing', { pods: [], peers: [], addresses: [] }],
  ])('is the difference of all elements: %s', (_, now) => {
    for (const [from, to] of [
      [cluster, now],
      [now, cluster],
    ] as const) {
      const { over, begun } = changedElements(from, to)
      expect(over.map(text).sort()).toEqual(
        all(from)
          .filter((each) => !all(to).includes(each))
          .sort(),
      )
      expect(begun.map(text).sort()).toEqual(
        all(to)
          .filter((each) => !all(from).includes(each))
          .sort(),
      )
    }
  })
})

describe('clusterElements', () => {
  it('has each range and address once', () => {
    expect(clusterElements(cluster).map(({ set, key }) => `${set} ${key.join(' ')}`)).toEqual([
      'podnet4 10.0.1.0/24',
      'podnet6 fd00:1::/64',
      'peernet4 10.0.2.0/24',
      'peernet6 fd00:2::/64',
      'peeraddr4 192.0.2.2',
      'peeraddr6 2001:db8::2',
    ])
  })

  it('is set up and refilled with the networks, and is on no way of an ADD that finds them', () => {
    const added = (ops: ReturnType<typeof ruleOps>) => ops.flatMap((op) => (op.kind === 'nft.add' ? [op.set] : []))
    const source = { networks: [network], attachments: [], cluster }
    expect(added(ruleOps(source))).toContain('peernet4')
    expect(added(refilledRuleOps(source))).toContain('peeraddr6')
    expect(added(fastPathRuleOps(source))).toEqual(['masq4'])
    expect(ruleOps({ networks: [], attachments: [], cluster })).toEqual([])
  })
})

describe('a written cluster', () => {
  it('reads what was written', () => {
    expect(JSON.parse(encodeFile(cluster))).toEqual({ format: 1, ...cluster })
    expect(decodeCluster(encodeFile(cluster))).toEqual(cluster)
  })

  it.each([
    '',
    '{',
    'null',
    '5',
    JSON.stringify(cluster),
    JSON.stringify({ format: 2, ...cluster }),
    JSON.stringify({ format: 1, ...cluster, peers: ['10.0.2.0/24 } ; flush ruleset'] }),
    JSON.stringify({ format: 1, ...cluster, peers: ['10.0.2.1/24'] }),
    JSON.stringify({ format: 1, ...cluster, peers: ['10.0.0.0/16'] }),
    JSON.stringify({ format: 1, ...cluster, addresses: [5] }),
    JSON.stringify({ format: 1, ...cluster, addresses: undefined }),
  ])('does not take %s', (text) => {
    expect(decodeCluster(text)).toBeUndefined()
  })
})
