// SPDX-License-Identifier: Apache-2.0
// What the tools said, word for word, and why that is: iproute2 6.1, nftables 1.0.6, Linux 6.

import { describe, expect, it } from 'vitest'
import { reasonOf } from '../../../src-before/tools/command-error.ts'

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
    ['RTNETLINK answers: Exchange full\n', 'full'],
    ['RTNETLINK answers: Invalid argument\n', 'invalid'],
    ['Error: Nexthop has invalid gateway.\n', 'invalid'],
    ['Error: argument "x" is wrong: Invalid "mtu" value\n', 'invalid'],
    ['', 'other'],
    ['Segmentation fault\n', 'other'],
  ])('reads %j as %s', (stderr, reason) => {
    expect(reasonOf(stderr)).toBe(reason)
  })
})
