// SPDX-License-Identifier: Apache-2.0
// Our table from recorded output of nftables 1.0.6 (`nft -j list table inet trestle`).

import { describe, expect, it } from 'vitest'
import { readTable } from '../../../src/compile/read-nft.ts'

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
  it('reads elements as the operations write them', () => {
    expect([...(table.elements.get('masq4') ?? [])]).toEqual(['10.0.0.0/24'])
    expect([...(table.elements.get('keep4') ?? [])]).toEqual(['10.0.0.0/24 . 10.0.0.0/24'])
    expect([...(table.elements.get('keep6') ?? [])]).toEqual([])
    expect([...(table.elements.get('anyports4') ?? [])]).toEqual(['tcp . 8080 : 10.0.0.2 . 80'])
  })
  it('tells flags of the table and policies that drop, and nothing of either where there is none', () => {
    expect(Object.keys(table)).toEqual(['rules', 'elements'])
    const changed = listing.replace('"handle": 1}}', '"handle": 1, "flags": "dormant"}}').replace('"accept"', '"drop"')
    expect(readTable(changed)).toMatchObject({ hasFlags: true, dropping: ['postrouting'] })
  })
  it('throws a SyntaxError on output that was cut', () => {
    expect(() => readTable(listing.slice(0, 200))).toThrow(SyntaxError)
  })
})
