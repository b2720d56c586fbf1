// SPDX-License-Identifier: Apache-2.0
// Keys in any case, as Go's decoder matches them, and lists of prefixes.

import { describe, expect, it } from 'vitest'
import {
  group,
  keyShapeOf,
  list,
  optional,
  readPrefixes,
  text,
  textMap,
  uint32,
  withKnownKeys,
} from '../../../src/cni/fields.ts'
import { errorOf, lineOf } from '../call.ts'

describe('withKnownKeys', () => {
  const shape = keyShapeOf(
    group({
      hostPort: uint32,
      map: textMap,
      inner: optional(group({ ifName: text })),
      rows: optional(list(list(group({ ID: text })))),
    }),
  )

  it.each([
    ['renames', { HOSTPORT: 1 }, { hostPort: 1 }],
    ['goes into objects', { Inner: { IFNAME: 'a', other: 1 } }, { inner: { ifName: 'a', other: 1 } }],
    ['goes into lists of lists', { rows: [[{ id: 'a' }], []] }, { rows: [[{ ID: 'a' }], []] }],
    ['keeps unknown keys', { x: { hostport: 1 }, Y: null }, { x: { hostport: 1 }, Y: null }],
    ['leaves the keys of maps', { MAP: { HostPort: 'a' } }, { map: { HostPort: 'a' } }],
    ['exact wins, first', { hostPort: 1, HostPort: 2 }, { hostPort: 1 }],
    ['exact wins, last', { HostPort: 2, hostPort: 1 }, { hostPort: 1 }],
    ['else the last wins', { HOSTPORT: 1, HostPort: 2 }, { hostPort: 2 }],
    ['null leaves the default', { hostPort: null, inner: null }, {}],
    ['a wrong type stays', { rows: 3, inner: [1] }, { rows: 3, inner: [1] }],
  ])('%s', (_, given, expected) => {
    expect(withKnownKeys(given, shape)).toEqual(expected)
  })

  it('keeps __proto__ a key and pollutes nothing', () => {
    const out = withKnownKeys(JSON.parse('{"__proto__": {"ifName": "x"}, "inner": {"__proto__": 1}}'), shape) as object
    expect(Object.getPrototypeOf(out)).toBe(Object.prototype)
    expect(Object.keys(out)).toEqual(['__proto__', 'inner'])
    expect(({} as { ifName?: string }).ifName).toBeUndefined()
  })
})

it('prefixes lose their host bits and repeats; what is none is refused', () => {
  expect(readPrefixes(['10.1.2.3/8', '10.0.0.0/8', 'FD00::1/8'], ['x'])).toEqual(['10.0.0.0/8', 'fd00::/8'])
  expect(lineOf(errorOf(() => readPrefixes(['10.0.0.0'], ['x'])))).toBe(
    '(7) x[0]: "10.0.0.0" is not a prefix in CIDR notation',
  )
})
