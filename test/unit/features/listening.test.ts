// SPDX-License-Identifier: Apache-2.0
// Lines of /proc/net/tcp, tcp6, udp and udp6, and which of them have a host port's traffic.

import { describe, expect, it } from 'vitest'
import { listensOn, readListener } from '../../../src-before/system/kernel/listening.ts'

const rest = '00000000:00000000 00:00000000 00000000     0        0 28023 1 0000000000000000 100 0 0 10 0'
const zero6 = '0'.repeat(32)
const line4 = (address: string, state = '0A') => `   0: ${address}:1F90 00000000:0000 ${state} ${rest}`
const line6 = (address: string, state = '0A') => `  10: ${address}:1F90 ${zero6}:0000 ${state} ${rest}`

describe('readListener', () => {
  it.each([
    [line4('0100007F'), { family: 4, address: '127.0.0.1', port: 8080 }],
    [line4('00000000', '07'), { family: 4, address: '0.0.0.0', port: 8080 }],
    [line6(zero6), { family: 6, address: '::', port: 8080 }],
    [line6('B80D0120000000000000000001000000'), { family: 6, address: '2001:db8::1', port: 8080 }],
    [line6('0000000000000000FFFF00000100007F'), { family: 4, address: '127.0.0.1', port: 8080 }],
  ])('reads %s', (line, listener) => {
    expect(readListener(line)).toEqual(listener)
  })
  it('tells a connected socket, and what is no line of a socket', () => {
    expect(readListener(line4('0100007F', '01'))).toBe('other')
    for (const text of ['', '  sl  local_address rem_address   st', '   0: 01', 'x'.repeat(300)])
      expect(readListener(text)).toBeUndefined()
  })
})

describe('listensOn', () => {
  const port = { protocol: 'tcp', hostPort: 8080, podIp: '', containerPort: 80 } as const
  it.each([
    ['0.0.0.0', 4, { family: 4 }, true],
    ['127.0.0.1', 4, { family: 4 }, true],
    ['127.0.0.1', 4, { family: 4, hostIp: '192.0.2.1' }, false],
    ['0.0.0.0', 4, { family: 4, hostIp: '192.0.2.1' }, true],
    ['192.0.2.1', 4, { family: 4, hostIp: '192.0.2.1' }, true],
    ['0.0.0.0', 4, { family: 6 }, false],
    ['::', 6, { family: 4 }, true],
    ['::', 6, { family: 6, hostIp: '2001:db8::1' }, true],
    ['2001:db8::1', 6, { family: 6 }, true],
    ['2001:db8::1', 6, { family: 4 }, false],
    ['::1', 6, { family: 6 }, false],
    ['::', 6, { family: 6, hostIp: '::1' }, false],
  ] as const)('%s (IPv%i) and %j: %s', (address, family, more, expected) => {
    expect(listensOn({ family, address, port: 8080 }, { ...port, ...more })).toBe(expected)
    expect(listensOn({ family, address, port: 8081 }, { ...port, ...more })).toBe(false)
  })
})
