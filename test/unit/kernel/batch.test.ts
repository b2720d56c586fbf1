// SPDX-License-Identifier: Apache-2.0
// Operations as the input of one process, words that a batch carries or refuses, and which operation a tool refused.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { batchLine, commandOf, commitProof, failedOp, toBatch } from '../../../src/kernel/batch.ts'
import type { Element } from '../../../src/kernel/nft-table.ts'
import { elementOps, type Op } from '../../../src/kernel/operation.ts'

const up = (dev: string, place: Op['place'] = 'host'): Op => {
  return { place, kind: 'link.set', dev, set: { up: true }, why: `set ${dev} up` }
}
const masq = (subnet: string): Element => ({ set: 'masq4', key: [subnet], comment: 'c' })
const table: Op = { place: 'host', kind: 'table.set', table: 'inet', isEmptied: false, hasAccept: true, why: 'table' }
const sysctl = (key: string): Op => ({ place: 'pod', kind: 'sysctl.set', key, value: '1', when: 'last', why: key })

/** The words that `ip -batch` makes of a line; undefined where it stops or reads on (lib/utils.c, getcmdline, makeargs). */
function readAsIproute2(line: string): readonly string[] | undefined {
  if (/[\n\0]/.test(line)) return undefined
  const [kept = ''] = line.split('#', 1)
  if (kept.endsWith('\\')) return undefined
  const word = /"([^"]*)"|'([^']*)'|([^ \t\r"'][^ \t\r]*)/g
  // A quote that is not closed stops it.
  if (kept.replace(word, '').trim() !== '') return undefined
  return [...kept.matchAll(word)].map(([, a, b, c]) => a ?? b ?? c ?? '')
}

describe('batchLine', () => {
  it('is read back by iproute2 as the same words, or refuses them', () => {
    const letters = fc.constantFrom('a', '1', '#', '\\', '"', "'", ' ', '\t', '\n', '\r', '\0', 'é', '-', '$', ';', '`')
    const word = fc.oneof(
      fc.string({ unit: letters, maxLength: 4 }),
      fc.string({ unit: 'binary', maxLength: 2 }),
      fc.string(),
    )
    let carried = 0
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 4 }), (words) => {
        let line: string
        try {
          line = batchLine(words)
        } catch (error) {
          expect(error).toMatchObject({ code: 4 })
          return
        }
        carried += 1
        expect(line.endsWith('\n')).toBe(true)
        expect(readAsIproute2(line.slice(0, -1))).toEqual(words)
      }),
      { numRuns: 5000 },
    )
    expect(carried).toBeGreaterThan(100)
  })

  it.each(['', 'a#b', '#', 'a\\', 'a\nb', 'a\0', 'a"b\'c d', 'é', '\x1b[31m', 'a\tb'])('refuses %j', (word) => {
    expect(() => batchLine(['link', 'set', word])).toThrowError(expect.objectContaining({ code: 4 }))
  })

  it.each([
    [['link', 'set', 'dev', 'veth0', 'up'], 'link set dev veth0 up'],
    [['link', 'set', 'dev', 'a b', 'up'], 'link set dev "a b" up'],
    [['alias', 'say "hi"'], `alias 'say "hi"'`],
    [['link', 'set', 'dev', 'a', 'alias', ''], 'link set dev a alias ""'],
    [['addr', 'add', 'fd00::1/64', 'dev', 'eth0@if7'], 'addr add fd00::1/64 dev eth0@if7'],
  ])('writes %j as %j', (words, line) => {
    expect(batchLine(words)).toBe(`${line}\n`)
  })
})

describe('the command of a batch', () => {
  const inPod = ['--net=/proc/self/fd/3', '--']
  it.each<[string, readonly Op[], { file: string; args: readonly string[] }]>([
    ['links', [up('a')], { file: 'ip', args: ['-j', '-batch', '-'] }],
    ['a pod', [up('a', 'pod')], { file: 'nsenter', args: [...inPod, 'ip', '-j', '-batch', '-'] }],
    [
      'IPv6 rules',
      [{ place: 'pod', kind: 'rule.add', from: 'fd00::2/128', table: 100, why: '' }],
      { file: 'nsenter', args: [...inPod, 'ip', '-6', '-j', '-batch', '-'] },
    ],
    [
      'VLANs',
      [{ place: 'host', kind: 'vlan.delete', dev: 'v', vid: 1, why: '' }],
      { file: 'bridge', args: ['-batch', '-'] },
    ],
    [
      'queues',
      [{ place: 'host', kind: 'queue.delete', dev: 'v', at: 'root', why: '' }],
      { file: 'tc', args: ['-batch', '-'] },
    ],
    ['rules', elementOps([masq('10.0.0.0/24')]), { file: 'nft', args: ['-t', '-f', '-'] }],
    ['sysctls', [sysctl('net/core/a')], { file: 'nsenter', args: [...inPod, 'sysctl', '-q', '-p', '-'] }],
    [
      'a sysctl that would be a pattern in a file',
      [sysctl('net/core/a*')],
      { file: 'nsenter', args: [...inPod, 'sysctl', '-qw', 'net/core/a*=1'] },
    ],
  ])('of %s', (_, ops, command) => {
    expect(commandOf(toBatch(ops))).toMatchObject(command)
  })

  it('lets the kernel advertise IPv6 addresses by a script of constant text', () => {
    const { args } = commandOf(
      toBatch([{ place: 'pod', kind: 'announce6', dev: 'a;b', mac: '02:00:00:00:00:01', why: '' }]),
    )
    expect(args.slice(2, 4)).toEqual(['sh', '-c'])
    expect(args[4]).not.toContain('a;b')
    expect(args.slice(5)).toEqual(['ip', '-j', '-batch', '-'])
  })

  it('tells when nft has committed, and lists one chain only', () => {
    const batch = toBatch(elementOps([masq('10.0.0.0/24')]))
    expect(commandOf(batch, true).args).toEqual(['-e', '-t', '-f', '-'])
    expect(commitProof(batch)).toBe('list chain inet trestle forward\n')
    const frames = toBatch(elementOps([{ set: 'guarded', key: ['v'], comment: 'c' }]))
    expect(commitProof(frames)).toBe('list chain bridge trestle prerouting\n')
  })
})

describe('failedOp', () => {
  const links = toBatch([up('a'), up('b'), up('c')])
  it.each([
    ['Cannot find device "b"\nCommand failed -:2\n', 1],
    ['Command failed -:1\n', 0],
    ['a warning\nRTNETLINK answers: File exists\nCommand failed -:3\n', 2],
  ])('is the line that ip names in %j', (stderr, at) => {
    expect(failedOp(links, stderr)).toBe(links.ops[at])
  })

  it.each(['Unterminated quoted string\n', 'Error: argument "x" is wrong: y\n', '', 'Command failed -:9\n'])(
    'is unknown where ip left without a line of ours: %j',
    (stderr) => expect(failedOp(links, stderr)).toBeUndefined(),
  )

  it('is the operation whose lines hold the one that nft names', () => {
    const removed = elementOps([masq('10.1.0.0/24')], 'element.delete')
    const rules = toBatch([
      table,
      ...elementOps([masq('10.0.0.0/24')]),
      ...removed,
      ...elementOps([masq('10.2.0.0/24')]),
    ])
    const owners = rules.texts.flatMap((text, at) =>
      text
        .trimEnd()
        .split('\n')
        .map(() => rules.ops[at]),
    )
    expect(new Set(owners).size).toBe(4)
    for (const [at, op] of owners.entries())
      expect(failedOp(rules, `/dev/stdin:${at + 1}:1-9: Error: x\n`), `line ${at + 1}`).toBe(op)
    expect(failedOp(rules, `/dev/stdin:${owners.length + 1}:1-9: Error: x\n`)).toBeUndefined()
    expect(failedOp(rules, 'netlink: Error: cannot initialise\n')).toBeUndefined()
  })

  it.each([
    ['sysctl: setting key "net.ipv4.conf.eth0/10.arp_filter": Invalid argument\n', 1],
    ['sysctl: cannot stat /proc/sys/net/ipv4/no_such: No such file or directory\n', 2],
    ['killed\n', undefined],
  ])('is the key that sysctl names: %j', (stderr, at) => {
    const keys = ['net/core/somaxconn', 'net/ipv4/conf/eth0.10/arp_filter', 'net/ipv4/no_such'].map(sysctl)
    expect(failedOp(toBatch(keys), stderr)).toBe(at === undefined ? undefined : keys[at])
  })
})
