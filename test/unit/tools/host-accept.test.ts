// SPDX-License-Identifier: Apache-2.0
// The command lines of the accept of the mark: no shell, and the rule says whose it is.

import { describe, expect, it } from 'vitest'
import {
  acceptMarkOf,
  deleteCommand,
  firewalldCommand,
  insertCommand,
  listChainCommand,
} from '../../../src-before/tools/accept-commands.ts'

const chain = { kind: 'nft', family: 'inet', table: 'fw', chain: 'forward' } as const
const place = { kind: 'iptables', program: 'iptables-nft', chain: 'FORWARD' } as const
const rule = [
  '-m',
  'mark',
  '--mark',
  '0x1000/0x1000',
  '-m',
  'comment',
  '--comment',
  'trestle accept 0x1000',
  '-j',
  'ACCEPT',
]

describe('the accept of the mark', () => {
  it('of iptables is put before a rule or at the end, and waits for the lock', () => {
    expect(insertCommand(place, 0x1000, '3')).toEqual({
      file: 'iptables-nft',
      args: ['-w', '5', '-I', 'FORWARD', '3', ...rule],
    })
    expect(insertCommand(place, 0x1000, undefined).args).toEqual(['-w', '5', '-A', 'FORWARD', ...rule])
  })
  it("of iptables is taken out by what it says: its number may be another rule's by now", () => {
    expect(deleteCommand(place, { id: '3', mark: 0x1000 }).args).toEqual(['-w', '5', '-D', 'FORWARD', ...rule])
  })
  it('of nft is put before a handle or at the end, and is taken out by handle', () => {
    const text = 'meta mark & 0x80000000 == 0x80000000 accept comment "trestle accept 0x80000000"\n'
    expect(insertCommand(chain, 2 ** 31, '7').stdin).toBe(`insert rule inet fw forward handle 7 ${text}`)
    expect(insertCommand(chain, 2 ** 31, undefined).stdin).toBe(`add rule inet fw forward ${text}`)
    expect(deleteCommand(chain, { id: '7', mark: 1 }).stdin).toBe('delete rule inet fw forward handle 7\n')
  })
  it('is told by its comment', () => {
    expect(acceptMarkOf('trestle accept 0x1000')).toBe(0x1000)
    for (const other of ['trestle cni0 in', 'trestle accept', 'not trestle accept 0x1000', 'trestle accept 0x1000 '])
      expect(acceptMarkOf(other)).toBeUndefined()
  })
  it('is looked for in one chain', () => {
    expect(listChainCommand(place).args).toEqual(['-w', '5', '-S', 'FORWARD'])
    expect(listChainCommand(chain).args).toEqual(['-j', '-t', 'list', 'chain', 'inet', 'fw', 'forward'])
  })
})

describe('firewalld', () => {
  it('is told of the running zone only', () => {
    expect(firewalldCommand('add', 'trusted', 'cni0').args).toEqual(['--zone=trusted', '--add-interface=cni0'])
    expect(firewalldCommand('remove', 'pods', 'fd00:1::/64').args).toEqual([
      '--zone=pods',
      '--remove-source=fd00:1::/64',
    ])
  })
})
