// SPDX-License-Identifier: Apache-2.0
// Operations to processes and back: which share a process, in which order, and which one a failed
// line was.

import { describe, expect, it } from 'vitest'
import type { Op } from '../../../src-before/model/op.ts'
import { type Batch, failedOp, toLanes } from '../../../src-before/tools/batches.ts'
import { nftText } from '../../../src-before/tools/nft.ts'

const up = (dev: string, place: Op['in'] = 'host'): Op => ({ in: place, kind: 'link.up', dev, why: `set ${dev} up` })
const write: Op = { in: 'host', kind: 'sysctl.write', key: 'net/ipv4/conf/a/x', value: '1', why: 'write' }
const base: Op = { in: 'host', kind: 'nft.base', table: 'inet', why: 'base' }
const masq = (subnet: string) => ({ in: 'host', set: 'masq4', key: [subnet] }) as const
const element = (subnet: string): Op => ({ ...masq(subnet), kind: 'nft.add', why: `add ${subnet}` })
const gone = (subnet: string): Op => ({ ...masq(subnet), kind: 'nft.del', why: `delete ${subnet}` })
const shapeOf = (batches: readonly Batch[]) =>
  batches.map(({ tool, in: place, ops }) => `${tool} ${place} ${ops.length}`)
const only = (batches: readonly Batch[]): Batch => {
  expect(batches).toHaveLength(1)
  return batches[0] as Batch
}

describe('toLanes', () => {
  it('puts neighbours of one tool and place into one process and keeps their order', () => {
    const { links, rules } = toLanes([up('a'), up('b'), write, up('c'), up('d', 'pod'), up('e', 'pod'), up('f')])
    expect(shapeOf(links)).toEqual(['ip host 2', 'file host 1', 'ip host 1', 'ip pod 2', 'ip host 1'])
    expect(rules).toEqual([])
  })
  it('lets rules run beside links, all in one transaction', () => {
    const { links, rules } = toLanes([base, up('a'), element('10.0.0.0/24'), up('b'), gone('10.1.0.0/24')])
    expect(shapeOf(links)).toEqual(['ip host 2'])
    expect(shapeOf(rules)).toEqual(['nft host 3'])
  })
  it('writes one line per operation for ip', () => {
    const batch = only(toLanes([up('a'), up('b b')]).links)
    expect(batch).toMatchObject({ stdin: 'link set dev a up\nlink set dev "b b" up\n' })
  })
  it('joins as many as a cluster of 25000 nodes has', () => {
    const elements = Array.from({ length: 100_000 }, (_, at) =>
      element(`10.${at >> 16}.${(at >> 8) & 255}.${at & 255}`),
    )
    const batch = only(toLanes(elements).rules)
    expect(batch.ops).toEqual(elements)
    expect('stdin' in batch && batch.stdin.split('\n')).toHaveLength(100_001)
    expect(batch).toMatchObject({ tool: 'nft', in: 'host' })
  })
  it('makes nothing of nothing', () => {
    expect(toLanes([])).toEqual({ links: [], rules: [] })
  })
})

describe('failedOp', () => {
  const ip = only(toLanes([up('a'), up('b'), up('c')]).links)
  const rules = [base, element('10.0.0.0/24'), gone('10.1.0.0/24'), element('10.2.0.0/24')]
  const nft = only(toLanes(rules).rules)

  it.each([
    ['Cannot find device "b"\nCommand failed -:2\n', 1],
    ['Command failed -:1\n', 0],
    ['a warning\nRTNETLINK answers: File exists\nCommand failed -:3\n', 2],
  ])('is the line that ip names in %j', (stderr, at) => {
    expect(failedOp(ip, stderr)).toBe(ip.ops[at])
  })

  it.each(['Unterminated quoted string\n', 'Error: argument "x" is wrong: y\n', '', 'Command failed -:9\n'])(
    'is unknown where ip left without a line of ours: %j',
    (stderr) => expect(failedOp(ip, stderr)).toBeUndefined(),
  )

  it('is the operation whose lines hold the one that nft names', () => {
    let line = 1
    for (const op of rules) {
      for (const _ of nftText(op as never).split('\n')) {
        expect(failedOp(nft, `/dev/stdin:${line}:1-9: Error: x\n`), `line ${line}`).toBe(op)
        line += 1
      }
    }
    expect(failedOp(nft, `/dev/stdin:${line}:1-9: Error: x\n`)).toBeUndefined()
    expect(failedOp(nft, 'netlink: Error: cannot initialise\n')).toBeUndefined()
  })
})
