// SPDX-License-Identifier: Apache-2.0
// What the tools said, word for word, and why that is: iproute2 6.1, nftables 1.0.6, Linux 6.

import { describe, expect, it } from 'vitest'
import { commandError, reasonOf } from '../../../src/kernel/messages.ts'

describe('reasonOf', () => {
  it.each([
    ['RTNETLINK answers: File exists\nCommand failed -:1\n', 'exists'],
    ['/dev/stdin:1:1-1: Error: Could not process rule: File exists\n', 'exists'],
    ['Error: interval overlaps with an existing one\n', 'exists'],
    ['Cannot find device "veth0"\nCommand failed -:2\n', 'absent'],
    ['Device "veth0" does not exist.\nCommand failed -:1\n', 'absent'],
    ['RTNETLINK answers: No such process\n', 'absent'],
    ['Error: Invalid handle.\nCommand failed -:1\n', 'absent'],
    ['RTNETLINK answers: No such device\n', 'absent'],
    ['/dev/stdin:1:20-26: Error: No such file or directory; did you mean table ‘x’ in family inet?\n', 'absent'],
    ['RTNETLINK answers: Permission denied\n', 'denied'],
    ['RTNETLINK answers: Operation not permitted\n', 'denied'],
    ['RTNETLINK answers: Device or resource busy\n', 'busy'],
    ['RTNETLINK answers: Exchange full\n', 'bridge-full'],
    ['RTNETLINK answers: Invalid argument\n', 'invalid'],
    ['Error: ipv6: IPv6 is disabled on this device.\nCommand failed -:1\n', 'ipv6-off'],
    ['internal:0:0-0: Error: Could not open file "/dev/stdin": No such device or address\n', 'too-old'],
    ['', undefined],
    ['Segmentation fault\n', undefined],
  ])('reads %j as %s', (stderr, reason) => {
    expect(reasonOf(stderr)).toBe(reason)
  })
})

describe('commandError', () => {
  const op = { place: 'host', kind: 'link.delete', dev: 'v', why: 'remove v' } as const
  const failed = (stderr: string, more: object = {}) =>
    commandError({ command: 'ip -batch -', op, whys: ['remove v'], stderr, code: 1, ...more })

  it('says what could not be done and why, not which line of a batch it was', () => {
    const error = failed('RTNETLINK answers: Device or resource busy\nCommand failed -:1\n')
    expect(error).toMatchObject({
      code: 100,
      message: 'could not remove v: Device or resource busy',
      reason: 'busy',
      op,
    })
    expect(error.details).toContain('ip -batch -: RTNETLINK answers')
    expect(failed('/dev/stdin:3:1-9: Error: No such table\nadd element x\n^^^^').message).toBe(
      'could not remove v: No such table',
    )
  })

  it('names the command where the tool does not say which line it refused', () => {
    const several = { op: undefined, whys: ['a', 'b'] }
    expect(failed('', several).message).toBe('could not run ip -batch -: exit status 1')
    expect(failed('', { ...several, code: undefined, signal: 'SIGKILL' }).message).toBe(
      'could not run ip -batch -: ended by SIGKILL',
    )
  })

  it.each([
    ['Error: ipv6: IPv6 is disabled on this device.', 'IPv6 is switched off'],
    ['Error: Could not open file "/dev/stdin": x', 'update nftables to 1.0.2 or newer'],
  ])('says what to do after %j', (stderr, cure) => {
    expect(failed(stderr).details).toContain(cure)
  })
})
