// SPDX-License-Identifier: Apache-2.0
// What the error of a command says beyond the tool's own words.

import { describe, expect, it } from 'vitest'
import { commandError } from '../../../src/compile/command-error.ts'
import type { Op } from '../../../src/plan/op.ts'

type AddressOp = Extract<Op, { kind: 'addr.replace' }>

/** The error of a batch of one line. */
function errorOf(op: AddressOp, stderr: string) {
  return commandError({ tool: 'ip', in: 'host', ops: [op], stdin: 'line\n' }, { code: 1, stdout: '', stderr })
}

describe('the details of a command that failed', () => {
  const off = 'Error: ipv6: IPv6 is disabled on this device.\nCommand failed -:1\n'
  const gateway = (dev: string): AddressOp => {
    return { in: 'host', kind: 'addr.replace', dev, cidr: 'fd00::1/64', dad: false, why: 'add the gateway address' }
  }

  it.each([
    ['cni0', 'net.ipv6.conf.cni0.disable_ipv6'],
    ['br0.10', 'net.ipv6.conf.br0/10.disable_ipv6'],
  ])('name the setting that keeps IPv6 off %s, and what to do', (dev, key) => {
    const { message, details, reason } = errorOf(gateway(dev), off)
    expect(message).toBe('could not add the gateway address: Error: ipv6: IPv6 is disabled on this device.')
    expect(details).toContain(`\n${key} is 1: run sysctl -w ${key}=0, and see that nothing sets it again`)
    expect(reason).toBe('denied')
  })

  it('say nothing of it for another refusal', () => {
    expect(errorOf(gateway('cni0'), 'RTNETLINK answers: Operation not permitted\n').details).not.toContain(
      'disable_ipv6',
    )
  })
})
