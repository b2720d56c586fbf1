// SPDX-License-Identifier: Apache-2.0
// resolv.conf as text, DNS settings as data.

import { expect, it } from 'vitest'
import { readResolvConf } from '../../../../src-before/system/ipam/ipam.ts'

it.each([
  ['', {}],
  ['nameserver 192.0.2.0\nnameserver 192.0.2.1\n', { nameservers: ['192.0.2.0', '192.0.2.1'] }],
  ['# nameserver 1.1.1.1\n;nameserver 2.2.2.2\n  #x y\nnameserver 192.0.2.0', { nameservers: ['192.0.2.0'] }],
  ['nameserver\n\n \nsortlist 10.0.0.0\nNAMESERVER 1.1.1.1', {}],
  ['\tnameserver\t192.0.2.0  second\r\n', { nameservers: ['192.0.2.0'] }],
  ['domain a.example\ndomain b.example', { domain: 'b.example' }],
  [
    'search a.example b.example\nsearch c.example\noptions ndots:2\noptions debug rotate',
    { search: ['a.example', 'b.example', 'c.example'], options: ['ndots:2', 'debug', 'rotate'] },
  ],
])('%j', (text, expected) => {
  expect(readResolvConf(text)).toEqual(expected)
})
