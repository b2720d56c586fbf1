// SPDX-License-Identifier: Apache-2.0
// Queueing as `tc` commands, and read back from recorded output of iproute2 6.1 (`tc -j`).

import { describe, expect, it } from 'vitest'
import { differencesOf } from '../../../src/kernel/differences.ts'
import type { QueueOp } from '../../../src/kernel/operation.ts'
import { readQueue, readTcAnswers } from '../../../src/kernel/queue-look.ts'
import { queueLines } from '../../../src/kernel/queues.ts'

const bucket: QueueOp = { kind: 'bucket.set', dev: 'v', rateBits: 20_000_000, burstBytes: 100_000 }
const redirect = { kind: 'redirect.set', dev: 'v', to: 'ifb1' } as const

describe('the lines', () => {
  it.each<[QueueOp, readonly string[]]>([
    [bucket, ['qdisc replace dev v root handle 1: tbf rate 20000000bit burst 100000b limit 162500b']],
    // No more than 32 bits.
    [
      { ...bucket, rateBits: 1e14, burstBytes: 2 ** 32 - 1 },
      ['qdisc replace dev v root handle 1: tbf rate 100000000000000bit burst 4294967295b limit 4294967295b'],
    ],
    [
      redirect,
      [
        'qdisc replace dev v ingress',
        'filter replace dev v parent ffff: protocol all prio 1 handle 800::800 u32 match u32 0 0 action mirred egress redirect dev ifb1',
      ],
    ],
    [{ kind: 'queue.delete', dev: 'v', at: 'root' }, ['qdisc del dev v root']],
    [{ kind: 'queue.delete', dev: 'v', at: 'ingress' }, ['qdisc del dev v ingress']],
  ])('%j', (op, lines) => expect(queueLines(op).map((words) => words.join(' '))).toEqual(lines))
})

const qdiscs = JSON.parse(
  '[{"kind":"tbf","handle":"1:","root":true,"refcnt":3,"options":{"rate":2500000,"burst":100000,"lat":25000}},{"kind":"ingress","handle":"ffff:","parent":"ffff:fff1","options":{}}]',
) as object[]
const filters = JSON.parse(
  '[{"protocol":"all","pref":1,"kind":"u32","chain":0},{"protocol":"all","pref":1,"kind":"u32","chain":0,"options":{"fh":"800:","ht_divisor":1}},{"protocol":"all","pref":1,"kind":"u32","chain":0,"options":{"fh":"800::800","order":2048,"key_ht":"800","bkt":"0","not_in_hw":true,"match":{"value":"0","mask":"0","offmask":"","off":0},"actions":[{"order":1,"kind":"mirred","mirred_action":"redirect","direction":"egress","to_dev":"ifb1","control_action":{"type":"stolen"},"index":1,"ref":1,"bind":1}]}}]',
) as object[]
const untouched = [{ kind: 'noqueue', handle: '0:', root: true, refcnt: 2, options: {} }]

describe('readQueue', () => {
  it('reads bucket, ingress and redirect; rates in bit/s', () => {
    const read = { rateBits: 20_000_000, burstBytes: 100_000, root: 'tbf', hasIngress: true, redirectTo: 'ifb1' }
    expect(readQueue([...qdiscs, ...filters])).toEqual(read)
  })
  it("takes what the kernel gives a link by itself for nobody's", () => {
    expect(readQueue(untouched)).toEqual({ hasIngress: false })
    expect(readQueue([])).toEqual({ hasIngress: false })
  })
  it("names another one's root, and takes clsact for an ingress", () => {
    const others = [
      { kind: 'htb', handle: '8001:', root: true, options: {} },
      { kind: 'clsact', handle: 'ffff:', parent: 'ffff:fff1', options: {} },
    ]
    expect(readQueue(others)).toEqual({ root: 'htb', hasIngress: true })
  })
})

describe('readTcAnswers', () => {
  const listing = '[{"kind":"tbf","dev":"v","root":true},{"kind":"ingress","dev":"v"}]'
  it('has a list for each query', () => {
    expect(readTcAnswers(`${listing}\n[]\n[{"protocol":"all","kind":"u32"}]\n`).map((each) => each.length)).toEqual([
      2, 0, 1,
    ])
    expect(readTcAnswers('')).toEqual([])
    expect(readTcAnswers('\n\n')).toEqual([])
  })

  // tc 5.10, which prints words for u32.
  const words = `[{"protocol":"all","pref":1,"kind":"u32","chain":0},{"protocol":"all","pref":1,"kind":"u32","chain":0,"options":{fh 800: ht divisor 1 }},{"protocol":"all","pref":1,"kind":"u32","chain":0,"options":{fh 800::800 order 2048 key ht 800 bkt 0 terminal flowid ??? not_in_hw
  match 00000000/00000000 at 0"actions":[{"order":1,"kind":"mirred","mirred_action":"redirect","direction":"egress","to_dev":"ifb1","control_action":{"type":"stolen"},"index":1,"ref":1,"bind":1}]}}]
`
  it('tells where a filter leads that is printed in words, over several lines', () => {
    const answers = readTcAnswers(`${listing}\n${words}[]\n`)
    expect(answers).toHaveLength(3)
    expect(readQueue([...(answers[0] ?? []), ...(answers[1] ?? [])])).toMatchObject({
      hasIngress: true,
      redirectTo: 'ifb1',
    })
  })

  it('tells kind, link and place of a discipline that is printed in words, and all of the others', () => {
    const [entries = []] = readTcAnswers(
      '[{"kind":"noqueue","handle":"0:","dev":"lo","root":true,"options":{}},{"kind":"odd","handle":"8001:","dev":"w","root":true,"options":{limit 127p]}},{"kind":"tbf","handle":"1:","dev":"v","root":true,"options":{"rate":2500000,"burst":100000}}]\n',
    )
    const queueOf = (name: string) => readQueue(entries.filter(({ dev }) => dev === name))
    expect(queueOf('lo')).toEqual({ hasIngress: false })
    expect(queueOf('w')).toEqual({ root: 'odd', hasIngress: false })
    expect(queueOf('v')).toEqual({ root: 'tbf', rateBits: 20_000_000, burstBytes: 100_000, hasIngress: false })
  })
})

describe('what was set up, read back', () => {
  const lacks = (entries: readonly object[], op: QueueOp) =>
    differencesOf({ ...op, place: 'host', why: '' }, { queues: new Map([['v', readQueue(entries)]]) })
  const changed = (options: object) => [{ ...qdiscs[0], options: { rate: 2_500_000, burst: 100_000, ...options } }]

  it('differs in nothing', () => {
    for (const op of [bucket, redirect]) expect(lacks([...qdiscs, ...filters], op)).toEqual([])
    expect(differencesOf({ ...bucket, place: 'host', why: '' }, {})).toEqual([])
  })
  it('differs in nothing by what tc rounds', () => {
    expect(lacks(changed({ rate: 2_500_003, burst: 99_999 }), bucket)).toEqual([])
  })
  it.each<[string, readonly object[], QueueOp, string]>([
    ['without a bucket', untouched, bucket, 'bandwidth limit is missing on v'],
    ['with another rate', changed({ rate: 1_250_000 }), bucket, 'bandwidth limit on v is 10000000 bit/s, not 20000000'],
    ['with another burst', changed({ burst: 5000 }), bucket, 'burst on v is 5000 bytes, not 100000'],
    ['without ingress', qdiscs.slice(0, 1), redirect, 'ingress qdisc is missing on v'],
    ['without redirect', qdiscs, redirect, 'filter to ifb1 is missing on v'],
    ['with another redirect', [...qdiscs, ...filters], { ...redirect, to: 'ifb2' }, 'filter to ifb2 is missing on v'],
  ])('is told %s', (_, entries, op, said) => expect(lacks(entries, op)).toEqual([said]))
})
