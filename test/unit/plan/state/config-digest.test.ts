// SPDX-License-Identifier: Apache-2.0
// The digest that tells two plugins of one list apart.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  configDigestAs,
  configDigest as digestOf,
  withIpam,
  withNetworkName,
} from '../../../../src-before/plan/state/config-digest.ts'

const configDigest = (stdin: string) => digestOf({ stdin, role: 'main' })

describe('configDigest', () => {
  it('is the same for any order of keys, and without what the runtime adds', () => {
    const own = '{"name":"n","type":"trestle","ipam":{"type":"static","addresses":[]}}'
    const sent =
      '{"ipam":{"addresses":[],"type":"static"},"cniVersion":"1.1.0","type":"trestle","prevResult":{},"name":"n"}'
    expect(configDigest(sent)).toBe(configDigest(own))
  })

  it('differs when a key or value of its own differs', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.string()), fc.dictionary(fc.string(), fc.string()), (a, b) => {
        const isSame = JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort())
        expect(configDigest(JSON.stringify({ a })) === configDigest(JSON.stringify({ a: b }))).toBe(isSame)
      }),
    )
  })

  it('is the same under every name of the executable, and not for plugins that delegate to us', () => {
    const under = (type: string) => JSON.stringify({ name: 'n', type, podcidr: '10.1.0.0/24' })
    expect(configDigest(under('trestle-v2'))).toBe(configDigest(under('trestle')))
    const ofIpam = (type: string) => digestOf({ stdin: under(type), role: 'ipam' })
    expect(ofIpam('bridge')).not.toBe(ofIpam('macvlan'))
    // As the release before wrote it.
    expect(configDigest('{"name":"n","type":"trestle"}')).toBe('ce934523e475097dec9f6a553802d22a')
  })

  it('takes text that is no JSON as it is', () => {
    expect(configDigest('{')).not.toBe(configDigest('}'))
    expect(configDigest('{')).toMatch(/^[0-9a-f]{32}$/)
  })
})

describe('withNetworkName', () => {
  it('is the very text where the name is the same, or the text is no JSON object', () => {
    for (const text of ['{ "name": "a" }', '{', '[]', '5']) expect(withNetworkName(text, 'a')).toBe(text)
  })

  it('changes the name and nothing else', () => {
    expect(withNetworkName('{"name":"b","ipam":{"name":"b"}}', 'a')).toBe('{"name":"a","ipam":{"name":"b"}}')
    const other = { stdin: '{"mtu":9,"name":"b"}', role: 'main' } as const
    expect(configDigestAs(other, 'a')).toBe(configDigest('{"name":"a","mtu":9}'))
    expect(configDigestAs(other, 'a')).not.toBe(configDigest('{"name":"a","mtu":8}'))
  })
})

describe('withIpam', () => {
  it.each<[string, string, string | undefined, string]>([
    ['the same', '{ "ipam": {"type":"a"} }', '{"type":"a"}', '{ "ipam": {"type":"a"} }'],
    ['another, by any spelling', '{"IPAM":{"type":"b"},"x":1}', '{"type":"a"}', '{"x":1,"ipam":{"type":"a"}}'],
    ['none by now', '{"podcidr":"10.1.0.0/24"}', '{"type":"a"}', '{"podcidr":"10.1.0.0/24","ipam":{"type":"a"}}'],
    ['not recorded', '{ "ipam": {} }', undefined, '{ "ipam": {} }'],
    ['damaged in the record', '{ "ipam": {} }', '{"typ', '{ "ipam": {} }'],
  ])('%s', (_, stdin, ipam, expected) => {
    expect(withIpam(stdin, ipam)).toBe(expected)
  })
})
