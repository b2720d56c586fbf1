// SPDX-License-Identifier: Apache-2.0
// The command lines of an accept pair: no shell, and both rules say whose they are.

import { describe, expect, it } from 'vitest'
import {
  acceptHandles,
  firewalldCommand,
  iptablesCommand,
  nftDeleteCommand,
  nftInsertCommand,
} from '../../../src/compile/host-accept.ts'

const chain = { kind: 'nft', family: 'inet', table: 'fw', chain: 'forward' } as const

describe('an accept pair', () => {
  it('of iptables names trestle and the bridge, and waits for the lock', () => {
    const place = { kind: 'iptables', program: 'iptables-nft', chain: 'DOCKER-USER' } as const
    const { file, args } = iptablesCommand('-I', place, { of: 'cni0', direction: 'out' })
    const expected = ['-w', '5', '-I', 'DOCKER-USER', '-o', 'cni0', '-m', 'comment', '--comment', 'trestle cni0 out']
    expect([file, ...args]).toEqual(['iptables-nft', ...expected, '-j', 'ACCEPT'])
  })
  it('of nft goes to the head of the chain in one transaction, and is taken out by handle', () => {
    expect(nftInsertCommand(chain, 'cni0').stdin).toBe(
      'insert rule inet fw forward iifname "cni0" accept comment "trestle cni0 in"\n' +
        'insert rule inet fw forward oifname "cni0" accept comment "trestle cni0 out"\n',
    )
    const listing = `	chain forward { # handle 1
		iifname "cni0" accept comment "trestle cni0 in" # handle 7
		iifname "cni01" accept comment "trestle cni01 in" # handle 8
		oifname "cni0" accept comment "trestle cni0 out" # handle 9
		accept comment "foreign" # handle 10
`
    const handles = acceptHandles(listing, 'cni0')
    expect(handles).toEqual(['7', '9'])
    expect(nftDeleteCommand(chain, handles).stdin).toBe(
      'delete rule inet fw forward handle 7\ndelete rule inet fw forward handle 9\n',
    )
  })
  it('is refused for a bridge whose name nft would read as something else', () => {
    for (const bridge of ['a*', 'a b', 'a"', '$x', '{'])
      expect(() => nftInsertCommand(chain, bridge)).toThrow('cannot be named')
  })
  it('of iptables is refused for a bridge whose name iptables would read as a pattern or an option', () => {
    const place = { kind: 'iptables', program: 'iptables-nft', chain: 'FORWARD' } as const
    for (const bridge of ['br+', '!br', '-x', 'a"b'])
      expect(() => iptablesCommand('-I', place, { of: bridge, direction: 'in' })).toThrow('cannot be named')
  })
  it('of a subnet is by source and destination', () => {
    const place = { kind: 'iptables', program: 'ip6tables-nft', chain: 'FORWARD' } as const
    const rule = (direction: 'in' | 'out') => iptablesCommand('-I', place, { of: 'fd00:1::/64', direction }).args
    expect(rule('in').slice(4, 6)).toEqual(['-s', 'fd00:1::/64'])
    expect(rule('out').slice(4, 6)).toEqual(['-d', 'fd00:1::/64'])
    expect(nftInsertCommand(chain, '10.1.0.0/24').stdin).toBe(
      'insert rule inet fw forward ip saddr 10.1.0.0/24 accept comment "trestle 10.1.0.0/24 in"\n' +
        'insert rule inet fw forward ip daddr 10.1.0.0/24 accept comment "trestle 10.1.0.0/24 out"\n',
    )
    expect(nftInsertCommand(chain, 'fd00:1::/64').stdin).toContain(' ip6 daddr fd00:1::/64 accept')
    for (const of of ['10.1.0.0/33', '10.1.0.0/24 accept;', '/', '010.1.0.0/24']) {
      expect(() => nftInsertCommand(chain, of)).toThrow('cannot be named')
    }
  })
  it('of firewalld is of the running zone only', () => {
    expect(firewalldCommand('add', 'trusted', 'cni0').args).toEqual(['--zone=trusted', '--add-interface=cni0'])
    expect(firewalldCommand('remove', 'trusted', 'fd00:1::/64').args).toEqual([
      '--zone=trusted',
      '--remove-source=fd00:1::/64',
    ])
  })
})
