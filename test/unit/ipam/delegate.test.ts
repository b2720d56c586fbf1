// SPDX-License-Identifier: Apache-2.0
// Another plugin as our IPAM: what is taken from its result, its errors, and which configuration its DEL gets.

import { describe, expect, it } from 'vitest'
import { delegate, readLease, requirePlugin, stdinForDel } from '../../../src/ipam/delegate.ts'
import type { Machine } from '../../../src/process/machine.ts'
import { errorOf, lineOf } from '../call.ts'

describe('a lease', () => {
  it.each<[string, object, object]>([
    [
      'of 1.1.0, without keys that are not ours to pass on',
      {
        cniVersion: '1.1.0',
        interfaces: [{ name: 'x' }],
        ips: [{ address: '10.1.0.2/24', gateway: '10.1.0.1', interface: 0, vendor: 1 }],
        routes: [{ dst: '0.0.0.0/0', gw: '10.1.0.1', mtu: 1400, vendor: 1 }],
        dns: { nameservers: ['1.1.1.1'], vendor: 1 },
      },
      {
        addresses: [{ address: '10.1.0.2/24', gateway: '10.1.0.1' }],
        routes: [{ dst: '0.0.0.0/0', gw: '10.1.0.1', mtu: 1400 }],
        dns: { nameservers: ['1.1.1.1'] },
      },
    ],
    [
      'of 0.2.0',
      { cniVersion: '0.2.0', ip4: { ip: '10.1.0.2/24', routes: [{ dst: '0.0.0.0/0' }] } },
      { addresses: [{ address: '10.1.0.2/24' }], routes: [{ dst: '0.0.0.0/0' }] },
    ],
    [
      'without a version has that of the configuration',
      { ips: [{ address: 'FD00::2/64' }] },
      { addresses: [{ address: 'fd00::2/64' }], routes: [] },
    ],
    [
      'that names an address twice has it once',
      { ips: [{ address: '10.1.0.2/24', gateway: '10.1.0.1' }, { address: '10.1.0.2/16' }] },
      { addresses: [{ address: '10.1.0.2/24', gateway: '10.1.0.1' }], routes: [] },
    ],
  ])('%s', (_, result, lease) => {
    expect(readLease(JSON.stringify(result), 'dhcp', '1.0.0')).toEqual(lease)
  })

  it.each([
    ['', '(105) the IPAM plugin dhcp printed no result'],
    ['[]', '(105) the IPAM plugin dhcp printed no result'],
    ['{"ips":[]}', '(105) the IPAM plugin dhcp gave no address'],
    [
      '{"ips":[{"address":"x"}]}',
      '(105) the IPAM plugin dhcp printed a result that cannot be read: result of dhcp.ips[0].address: "x" is not in CIDR notation',
    ],
  ])('is not read from %j', (stdout, line) => {
    expect(lineOf(errorOf(() => readLease(stdout, 'dhcp', '1.0.0')))).toBe(line)
  })
})

describe('the error of a plugin', () => {
  const call = { type: 'sh', verb: 'ADD', path: ['/bin'], stdin: '{}' } as const
  const failing = (output: object) => {
    return { ask: async () => ({ code: 1, stdout: '', stderr: '', ...output }) } as unknown as Machine
  }

  it.each<[string, object, object]>([
    [
      'is passed on with its code',
      { stdout: '{"code":11,"msg":"later","details":"d"}' },
      { code: 11, message: 'later', details: 'from the IPAM plugin sh: d' },
    ],
    ['a code of its own, too', { stdout: '{"code":1234,"msg":"x"}' }, { code: 1234, message: 'x' }],
    [
      '0 is no code',
      { stdout: '{"code":0,"msg":"x"}' },
      { code: 105, message: 'the IPAM plugin sh ended with status 1 on ADD without an error object' },
    ],
    ['none that a runtime can read', { stdout: '{"code":4294967296,"msg":"x"}' }, { code: 105 }],
    [
      'a signal',
      { code: undefined, signal: 'SIGKILL' },
      { code: 105, message: 'the IPAM plugin sh was ended by SIGKILL on ADD without an error object' },
    ],
  ])('%s', async (_, output, expected) => {
    await expect(delegate(failing(output), call)).rejects.toMatchObject(expected)
  })

  it('that is not there names where it was looked for', () => {
    const error = errorOf(() => requirePlugin({ type: 'no-such-plugin', path: ['/a', '/b'] }))
    expect(error).toMatchObject({ code: 105, details: expect.stringContaining('/a/no-such-plugin, /b/no-such-plugin') })
  })
})

describe('the DEL of a lease', () => {
  const recorded = '{"name":"n","type":"trestle","ipam":{"type":"dhcp"}}'
  it.each([
    ['the present configuration, where it asks the same', '{"mtu":9,"name":"n","ipam":{"type":"dhcp"}}', true],
    ['the present one with another spelling of ipam', '{"name":"n","IPAM":{"type":"dhcp"}}', true],
    ['the recorded one, where ipam has changed', '{"name":"n","ipam":{"type":"other"}}', false],
    ['the recorded one, where the network is another', '{"name":"m","ipam":{"type":"dhcp"}}', false],
    ['the recorded one, where there is no ipam any more', '{"name":"n"}', false],
    ['the recorded one, where the present one is damaged', '{', false],
  ])('gets %s', (_, present, isPresent) => {
    expect(stdinForDel(recorded, present)).toBe(isPresent ? present : recorded)
  })
})
