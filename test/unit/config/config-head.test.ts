// SPDX-License-Identifier: Apache-2.0
// What is wrong with a configuration as a whole: JSON, name, version, type; and the lenient DEL.

import { describe, expect, it } from 'vitest'
import { callerVersion, readVersionRequest } from '../../../src-before/cni/config-head.ts'
import type { Verb } from '../../../src-before/cni/invocation.ts'
import { supportedVersions } from '../../../src-before/cni/result.ts'
import { readConfig, readDelConfig } from '../../../src-before/config/config.ts'
import { callOf, configText, errorOf, lineOf, read } from '../cni/call.ts'

const deep = (levels: number) => `{"name":"net","x":${'['.repeat(levels)}${']'.repeat(levels)}}`

describe('JSON', () => {
  it.each([
    ['', 'stdin is empty at line 1, column 1'],
    ['  \n', 'stdin is empty at line 2, column 1'],
    ['{"name":"a",}', 'a comma before "}" at line 1, column 12'],
    ['{"name":"a"\n "x":1}', 'expected "," or "}", found "\\"" at line 2, column 2'],
    ['null', 'null is not an object'],
    ['[]', '[] is not an object'],
    ['"a"', '"a" is not an object'],
    ['3', '3 is not an object'],
    ['{} x', 'more text after the JSON value at line 1, column 4'],
    [deep(65), 'nested more than 64 levels deep'],
    [deep(20_000), 'nested more than 64 levels deep'],
  ])('%#', (stdin, message) => {
    const line = `(6) error unmarshall network config: ${message}`
    expect(lineOf(errorOf(() => readConfig(stdin, callOf('ADD'))))).toBe(line)
    expect(lineOf(errorOf(() => readDelConfig(stdin)))).toBe(line)
  })

  it('takes 63 levels below the top', () => {
    expect(read({ x: JSON.parse('['.repeat(63) + ']'.repeat(63)) }).name).toBe('net')
  })
})

describe('name', () => {
  it.each([undefined, '', null])('%j is missing', (name) => {
    expect(lineOf(errorOf(() => read({ name })))).toBe('(7) missing network name')
  })

  it.each(['-a', '.a', 'a/b', '../a', 'a b', 'a\n', 'ä', '_a'])('%j has bad characters', (name) => {
    const error = errorOf(() => read({ name }))
    expect(lineOf(error)).toBe('(7) invalid characters found in network name')
    expect(error.details).toContain(JSON.stringify(name))
    expect(lineOf(errorOf(() => readDelConfig(configText({ name }))))).toBe(lineOf(error))
  })

  it('is a string', () => {
    expect(lineOf(errorOf(() => read({ name: 3 })))).toBe('(7) name: 3 is not a string')
  })
})

describe('type', () => {
  it.each(['a/b', '..', '', 'a\\b', 7])('%j is refused', (type) => {
    expect(lineOf(errorOf(() => read({ type })))).toBe(`(7) type: ${JSON.stringify(type)} is not the name of a plugin`)
  })

  it('may be missing', () => {
    expect(read({ type: undefined })).toMatchObject({ type: 'trestle', role: 'main' })
  })
})

describe('cniVersion', () => {
  it.each(supportedVersions)('%s is supported', (cniVersion) => {
    expect(read({ cniVersion, podcidr: '10.1.0.0/24' }).cniVersion).toBe(cniVersion)
  })

  it.each([undefined, '', null])('%j is 0.1.0', (cniVersion) => {
    expect(read({ cniVersion, podcidr: '10.1.0.0/24' }).cniVersion).toBe('0.1.0')
  })

  it.each(['0.4', '2.0.0', 'abc', '1.1.0 ', 'v1.0.0', '0.2.1'])('%j is not', (cniVersion) => {
    const error = errorOf(() => read({ cniVersion }))
    expect(lineOf(error)).toBe('(1) incompatible CNI versions')
    expect(error.details).toBe(
      `config is "${cniVersion}", plugin supports ["0.1.0" "0.2.0" "0.3.0" "0.3.1" "0.4.0" "1.0.0" "1.1.0"]`,
    )
    expect(lineOf(errorOf(() => readDelConfig(configText({ cniVersion }))))).toBe(lineOf(error))
  })

  it.each([3, {}, [], true])('%j is not a string', (cniVersion) => {
    expect(lineOf(errorOf(() => read({ cniVersion })))).toBe(
      `(6) cniVersion: ${JSON.stringify(cniVersion)} is not a string`,
    )
  })

  it.each([
    ['CHECK', '0.3.1', '(1) config version does not allow CHECK'],
    ['CHECK', '0.1.0', '(1) config version does not allow CHECK'],
    ['CHECK', '0.3.9', '(1) config version does not allow CHECK'],
    ['CHECK', 'abc', '(6) cniVersion: "abc" is not a version'],
    ['CHECK', '1.2.3.4', '(6) cniVersion: "1.2.3.4" is not a version'],
    ['CHECK', '0.4', '(1) incompatible CNI versions'],
    ['CHECK', '2.0.0', '(1) plugin version does not allow CHECK'],
    ['GC', '1.0.0', '(1) config version does not allow GC'],
    ['GC', 'x', '(6) cniVersion: "x" is not a version'],
    ['STATUS', '1.0.0', '(1) config version does not allow STATUS'],
    ['STATUS', '1.2.0', '(1) plugin version does not allow STATUS'],
  ] as const)('%s with %s', (verb, cniVersion, line) => {
    expect(lineOf(errorOf(() => read({ cniVersion }, {}, verb)))).toBe(line)
  })

  it('the name is looked at first', () => {
    expect(errorOf(() => read({ cniVersion: 'abc', name: '' })).code).toBe(7)
  })

  it.each([
    ['{"cniVersion":"0.4.0"}', '0.4.0', '0.4.0'],
    ['{"CNIVersion":"0.4.0"}', '0.4.0', '0.4.0'],
    ['{"cniVersion":"9.9.9"}', '1.1.0', '1.1.0'],
    ['{"cniVersion":4}', '1.1.0', '1.1.0'],
    ['{}', '1.1.0', '0.1.0'],
    ['', '1.1.0', '1.1.0'],
    ['[', '1.1.0', '1.1.0'],
    ['null', '1.1.0', '1.1.0'],
  ])('VERSION and errors for %j', (stdin, version, error) => {
    expect(readVersionRequest(stdin)).toBe(version)
    expect(callerVersion(stdin)).toBe(error)
  })
})

describe('DEL', () => {
  it('reads what it needs', () => {
    const stdin = configText({ ipam: { type: 'dhcp', dataDir: '/x' }, log: '/l', record: 3 })
    expect(readDelConfig(stdin)).toEqual({
      cniVersion: '1.1.0',
      name: 'net',
      type: 'trestle',
      role: 'main',
      delegatedIpam: 'dhcp',
      dataDir: '/x',
      stdin,
    })
  })

  it.each([
    [{ ipam: 3, mtu: 'x', prevResult: 'garbage', vlan: 9999, type: 7, podcidr: {}, log: 3, record: {} }],
    [{ ipam: { type: '../../bin/sh', dataDir: 'relative', ranges: 'x' }, runtimeConfig: [] }],
    [{ ipam: { type: 'host-local', dataDir: 4 }, args: 'x', portmap: { externalSetMarkChain: 'X' } }],
    [{ ipam: null, prevResult: { cniVersion: '0.1.0' } }],
  ])('lets nothing else fail: %j', (changes) => {
    const stdin = configText(changes)
    const conf = { cniVersion: '1.1.0', name: 'net', type: 'trestle', role: 'main', stdin }
    expect(readDelConfig(stdin)).toEqual(conf)
  })

  it.each([
    [{ type: 'macvlan', ipam: { type: 'trestle' } }, 'ipam'],
    [{ mode: 'chained' }, 'chained'],
    [{ Mode: 'chained', ipam: { type: 'dhcp' } }, 'chained'],
    [{ mode: 'chain' }, 'main'],
  ])('%j is %s', (changes, role) => {
    const conf = readDelConfig(configText(changes))
    expect(conf.role).toBe(role)
    expect(conf.delegatedIpam).toBeUndefined()
  })
})

describe('valid attachments', () => {
  const key = 'cni.dev/valid-attachments'
  it.each([
    ['absent', {}, undefined],
    ['null', { [key]: null }, null],
    ['empty', { [key]: [] }, []],
    ['a list', { [key]: [{ containerID: 'a', ifname: 'eth0' }] }, [{ containerId: 'a', ifName: 'eth0' }]],
    ['any case', { [key]: [{ containerid: 'a', IfName: 'b' }] }, [{ containerId: 'a', ifName: 'b' }]],
    [
      "libcni's old key",
      { 'cni.dev/attachments': [{ containerID: 'a', ifname: 'b' }] },
      [{ containerId: 'a', ifName: 'b' }],
    ],
    ['both keys', { 'cni.dev/attachments': [{ containerID: 'x', ifname: 'y' }], [key]: [] }, []],
  ])('%s', (_, changes, expected) => {
    expect(read(changes, {}, 'GC').validAttachments).toEqual(expected)
  })

  it.each([
    [[{ containerID: 'a' }], '(7) cni.dev/valid-attachments[0]: containerID or ifname is missing'],
    [
      [{ containerID: 3, ifname: 'a' }],
      '(7) cni.dev/valid-attachments[0].containerID: 3 is not a string without control characters',
    ],
    [{}, '(7) cni.dev/valid-attachments: {} is not a list'],
    [[null], '(7) cni.dev/valid-attachments[0]: null is not an object'],
  ])('refuses %j: a wrong list must not remove pods', (value, line) => {
    expect(lineOf(errorOf(() => read({ [key]: value }, {}, 'GC' as Verb)))).toBe(line)
  })
})
