// SPDX-License-Identifier: Apache-2.0
// Our table from recorded output of nftables 1.0.6 (`nft -j list table inet trestle`), and the news of a commit.

import { describe, expect, it } from 'vitest'
import { elementsIn } from '../../../src-before/model/op.ts'
import type { SetName } from '../../../src-before/model/tables.ts'
import { isCommitted, readBase, readTable } from '../../../src-before/tools/nft.ts'

const listing =
  '{"nftables": [{"metainfo": {"version": "1.0.6", "release_name": "Lester Gooch #5", "json_schema_version": 1}}, {"table": {"family": "inet", "name": "trestle", "handle": 1}}, {"set": {"family": "inet", "name": "masq4", "table": "trestle", "type": "ipv4_addr", "handle": 2, "flags": ["interval"], "elem": [{"prefix": {"addr": "10.0.0.0", "len": 24}}]}}, {"set": {"family": "inet", "name": "keep4", "table": "trestle", "type": ["ipv4_addr", "ipv4_addr"], "handle": 3, "flags": ["interval"], "elem": [{"concat": [{"prefix": {"addr": "10.0.0.0", "len": 24}}, {"prefix": {"addr": "10.0.0.0", "len": 24}}]}]}}, {"set": {"family": "inet", "name": "keep6", "table": "trestle", "type": ["ipv6_addr", "ipv6_addr"], "handle": 4, "flags": ["interval"]}}, {"map": {"family": "inet", "name": "anyports4", "table": "trestle", "type": ["inet_proto", "inet_service"], "handle": 4, "map": "ipv4_addr . inet_service", "elem": [[{"concat": ["tcp", 8080]}, {"concat": ["10.0.0.2", 80]}]]}}, {"chain": {"family": "inet", "table": "trestle", "name": "hostports", "handle": 9}}, {"chain": {"family": "inet", "table": "trestle", "name": "postrouting", "handle": 1, "type": "nat", "hook": "postrouting", "prio": 100, "policy": "accept"}}, {"rule": {"family": "inet", "table": "trestle", "chain": "postrouting", "handle": 5, "comment": "trestle 1 masquerade4", "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "@masq4"}}, {"masquerade": null}]}}, {"rule": {"family": "inet", "table": "trestle", "chain": "postrouting", "handle": 6, "expr": [{"accept": null}]}}]}'

describe('readTable', () => {
  const table = readTable(listing)
  it('reads the comments of rules by chain, empty chains and rules without comment too', () => {
    expect([...table.rules]).toEqual([
      ['hostports', []],
      ['postrouting', ['trestle 1 masquerade4', '']],
    ])
  })
  it('reads elements as the operations have them', () => {
    const of = (set: SetName) => elementsIn(table.elements, set)
    expect(of('masq4')).toEqual([{ set: 'masq4', key: ['10.0.0.0/24'] }])
    expect(of('keep4')).toEqual([{ set: 'keep4', key: ['10.0.0.0/24', '10.0.0.0/24'] }])
    expect(of('keep6')).toEqual([])
    expect(of('anyports4')).toEqual([{ set: 'anyports4', key: ['tcp', '8080'], value: ['10.0.0.2', '80'] }])
  })
  it('names protocols where nft has their numbers, without /etc/protocols', () => {
    expect(readTable(listing.replace('"tcp", 8080', '6, 8080')).elements).toEqual(table.elements)
  })
  it('reads fields that stand alone: a name, an address, a prefix, a range', () => {
    const elem = ['cni0', '10.0.0.1', { prefix: { addr: 'fd00::', len: 64 } }, { range: ['10.0.0.1', '10.0.0.3'] }]
    const { elements } = readTable(JSON.stringify({ nftables: [{ set: { name: 'masq4', elem } }] }))
    const fields = elementsIn(elements, 'masq4').flatMap(({ key }) => key)
    expect(fields).toEqual(['cni0', '10.0.0.1', 'fd00::/64', '10.0.0.1-10.0.0.3'])
  })
  it('reads a verdict as its chain, and what is wrapped for a comment or a counter', () => {
    const elem = [{ elem: { val: { concat: ['udp', 53] }, comment: 'x' } }, { goto: { target: 'cond4_a' } }]
    const map = { map: { name: 'anygates4', elem: [elem] } }
    const { elements } = readTable(JSON.stringify({ nftables: [map, { set: { name: 'other', elem: ['x'] } }] }))
    expect([...elements.keys()]).toEqual(['anygates4'])
    expect(elementsIn(elements, 'anygates4')).toEqual([{ set: 'anygates4', key: ['udp', '53'], value: ['cond4_a'] }])
  })
  it('tells flags of the table and policies that drop, and nothing of either where there is none', () => {
    expect(Object.keys(table)).toEqual(['rules', 'elements'])
    const changed = listing.replace('"handle": 1}}', '"handle": 1, "flags": "dormant"}}').replace('"accept"', '"drop"')
    expect(readTable(changed)).toMatchObject({ hasFlags: true, dropping: ['postrouting'] })
  })
  it('reads from a listing without elements which rules there are, and whether they are off', () => {
    const text = 'table inet trestle {\n\tchain a {\n\t\tgoto b comment "trestle 4 x"\n\t\taccept\n\t}\n}\n'
    expect(readBase(text)).toEqual({ isDormant: false, comments: new Set(['trestle 4 x']) })
    expect(readBase(text.replace('{\n', '{\n\tflags dormant\n')).isDormant).toBe(true)
  })
  it('throws a SyntaxError on output that was cut', () => {
    expect(() => readTable(listing.slice(0, 200))).toThrow(SyntaxError)
  })
})

describe('isCommitted', () => {
  const echo = 'add element inet trestle fenced { "veth1" }\n'

  it('reads the generation that nft tells, to the end of its line', () => {
    expect(isCommitted(`${echo}# new generation 11 by process 6140 (nft)\n`)).toBe(true)
    expect(isCommitted(`${echo}# new generation 11 by process 6140 (nft)`)).toBe(false)
    expect(isCommitted(`${echo}# new generation 11`)).toBe(false)
  })

  it('does not take an element or a comment for it', () => {
    expect(isCommitted(echo)).toBe(false)
    expect(isCommitted('comment "# new generation 11 by process 6140 (nft)"\n')).toBe(false)
  })
})
