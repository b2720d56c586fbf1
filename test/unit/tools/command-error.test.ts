// SPDX-License-Identifier: Apache-2.0
// What the error of a command says beyond the tool's own words.

import { describe, expect, it } from 'vitest'
import type { Op } from '../../../src-before/model/op.ts'
import { commandError } from '../../../src-before/tools/command-error.ts'

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

  it('name an nft that is too old', () => {
    const stderr = 'internal:0:0-0: Error: Could not open file "/dev/stdin": No such device or address\n'
    const op = {
      in: 'host',
      kind: 'nft.flush',
      set: 'masq4',
      why: 'empty the set',
    } as const
    const batch = {
      tool: 'nft',
      in: 'host',
      ops: [op],
      stdin: 'flush set inet trestle masq4\n',
    } as const
    const { details } = commandError(batch, { code: 1, stdout: '', stderr })
    expect(details).toContain('this nft is too old')
    expect(details).toContain('nftables 1.0.2 and newer')
  })

  it('say nothing of it for another refusal', () => {
    expect(errorOf(gateway('cni0'), 'RTNETLINK answers: Operation not permitted\n').details).not.toContain(
      'disable_ipv6',
    )
  })
})

describe('the message of a command that failed', () => {
  const set = (key: string): Extract<Op, { kind: 'sysctl.pod' }> => {
    return { in: 'pod', kind: 'sysctl.pod', key, value: '1', why: `set ${key.replaceAll('/', '.')} in the pod` }
  }
  const ops = [set('net/core/somaxconn'), set('net/ipv4/conf/eth0.10/arp_filter'), set('net/ipv4/no_such')]
  const ended = (stderr: string) =>
    commandError({ tool: 'sysctl', in: 'pod', ops, stdin: '' }, { code: 1, stdout: '', stderr }).message

  it.each([
    ['sysctl: setting key "net.ipv4.conf.eth0/10.arp_filter": Invalid argument\n', 'net.ipv4.conf.eth0.10.arp_filter'],
    ['sysctl: cannot stat /proc/sys/net/ipv4/no_such: No such file or directory\n', 'net.ipv4.no_such'],
  ])('names the key that sysctl named: %j', (stderr, key) => {
    expect(ended(stderr)).toBe(`could not set ${key} in the pod: ${stderr.trim()}`)
  })

  it('names all that was meant where the tool does not tell, but not without end', () => {
    expect(ended('killed')).toContain('somaxconn in the pod, or set net.ipv4.conf.eth0.10.arp_filter in the pod, or')
    const many = Array.from({ length: 1024 }, (_, at) => set(`net/core/a${at}`))
    const { message } = commandError(
      { tool: 'sysctl', in: 'pod', ops: many, stdin: '' },
      { code: 1, stdout: '', stderr: 'x' },
    )
    expect(message).toMatch(/a7 in the pod, or do one of 1016 more things: x$/)
    expect(ended('what a thousand lines say\n'.repeat(1000)).length).toBeLessThan(3000)
  })
})
