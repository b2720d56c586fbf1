// SPDX-License-Identifier: Apache-2.0
// What shows that a removal is done before its process ends, and what shows nothing.

import { describe, expect, it } from 'vitest'
import type { Op } from '../../../src-before/model/op.ts'
import type { EarlyProof } from '../../../src-before/plan/order/stage.ts'
import { nftOptions, toLanes, withEvidence } from '../../../src-before/tools/batches.ts'

const why = ''
const group = (dev: string): Op => ({ in: 'host', kind: 'link.group', dev, group: 7, why })
const removal: Op = { in: 'host', kind: 'group.del', group: 7, why }
const isolated: Op = { in: 'host', kind: 'nft.del', set: 'fenced', key: ['veth1'], why }

function batchesOf(kind: EarlyProof['kind'], ...ops: readonly Op[]) {
  const { links, rules } = toLanes(ops)
  return [...links, ...rules].map((batch) => withEvidence(batch, { kind }))
}

function evidencesOf(kind: EarlyProof['kind'], ...ops: readonly Op[]) {
  return batchesOf(kind, ...ops).map((batch) => ('evidence' in batch ? batch.evidence : undefined))
}

describe('withEvidence', () => {
  it('is the absence of every link that a batch removes', () => {
    const links = ['veth1', 'ifb1']
    expect(evidencesOf('gone', group('veth1'), group('ifb1'), removal)).toEqual([{ kind: 'gone', links }])
    const one: Op = { in: 'host', kind: 'link.del', dev: 'veth1', why }
    expect(evidencesOf('gone', one)).toEqual([{ kind: 'gone', links: ['veth1'] }])
  })

  it('is nothing where the batch does more than remove, is of a pod, or names no link', () => {
    const up: Op = { in: 'host', kind: 'link.up', dev: 'br0', why }
    const isolation: Op = { in: 'host', kind: 'port.isolation', dev: 'veth2', isolated: false, why }
    expect(evidencesOf('gone', group('veth1'), removal, up)).toEqual([undefined])
    expect(evidencesOf('gone', isolation, { in: 'host', kind: 'link.del', dev: 'ifb1', why })).toEqual([undefined])
    expect(evidencesOf('gone', { in: 'pod', kind: 'link.del', dev: 'eth0', why })).toEqual([undefined])
    expect(evidencesOf('gone', removal)).toEqual([undefined])
  })

  it('leaves other tools of the stage alone', () => {
    const limit: Op = { in: 'host', kind: 'qdisc.del', dev: 'veth2', at: 'root', why }
    const one: Op = { in: 'host', kind: 'link.del', dev: 'ifb1', why }
    expect(evidencesOf('gone', limit, one)).toEqual([undefined, { kind: 'gone', links: ['ifb1'] }])
    expect(evidencesOf('gone', isolated)).toEqual([undefined])
    expect(evidencesOf('generation', one)).toEqual([undefined])
  })

  it('makes nft tell its generation, behind all that it changes, and list one table only', () => {
    const [batch] = batchesOf('generation', isolated)
    if (batch?.tool !== 'nft') throw new Error('no batch of nft')
    expect(batch.stdin.split('\n')).toEqual([
      'add element inet trestle fenced { "veth1" }',
      'delete element inet trestle fenced { "veth1" }',
      'list chain inet trestle forward',
      '',
    ])
    expect(nftOptions(batch)).toEqual(['-e', '-t', '-f', '-'])
    const [plain] = toLanes([isolated]).rules
    expect(plain?.tool === 'nft' && nftOptions(plain)).toEqual(['-t', '-f', '-'])
  })
})
