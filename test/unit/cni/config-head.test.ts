// SPDX-License-Identifier: Apache-2.0
// What is wrong with a configuration as a whole: JSON, name, version, type; and the lenient DEL.

import { describe, expect, it } from 'vitest'
import { callerVersion, readVersionRequest } from '../../../src/cni/config-head.ts'
import { supportedVersions } from '../../../src/cni/results.ts'
import { readConfig, readDelConfig } from '../../../src/config/read-config.ts'
import { callOf, configText, errorOf, lineOf, read } from '../call.ts'

const deep = (levels: number) => `{"name":"net","x":${'['.repeat(levels)}${']'.repeat(levels)}}`

describe('JSON', () => {
  it.each([
    ['', 'stdin is empty'],
    ['  \n', 'stdin is empty'],
    ['\ufeff{}', 'it begins with a byte order mark (U+FEFF)'],
    ['{"name":"a",}', expect.stringContaining('position 12')],
    ['null', 'null is not an object'],
    ['[]', '[] is not an object'],
    ['"a"', '"a" is not an object'],
    ['3', '3 is not an object'],
    ['{} x', expect.stringContaining('position 3')],
    [deep(65), 'nested more than 64 levels deep'],
    [deep(20_000), 'nested more than 64 levels deep'],
  ])('%#', (stdin, message) => {
    for (const read of [() => readConfig(stdin, callOf('ADD')), () => readDelConfig(stdin)]) {
      const [start, said] = lineOf(errorOf(read)).split('config: ')
      expect([start, said]).toEqual(['(6) error unmarshall network ', message])
    }
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
