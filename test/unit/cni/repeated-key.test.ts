// SPDX-License-Identifier: Apache-2.0
// A sysctl that a configuration has twice in one spelling, which JSON.parse hides.

import { describe, expect, it } from 'vitest'
import { readConfig } from '../../../src-before/config/config.ts'
import { callOf, configText, errorOf, lineOf, read } from './call.ts'

describe('sysctls', () => {
  it.each([
    ['in one spelling', '{"tuning":{"SysCtl":{"net.core.x":"1","net.core.\\u0078":"1"}},'],
    ['in args.cni', '{"tuning":{},"args":{"cni":{"sysctl":{"net.core.x":"1" , "net.core.x" :"2"}}},'],
  ])('refuses a key that is there twice, %s', (_, start) => {
    const text = configText().replace('{', start)
    const line = '(7) tuning.sysctl: duplicated sysctl keys are not allowed: "net.core.x"'
    expect(lineOf(errorOf(() => readConfig(text, callOf('ADD'))))).toBe(line)
  })

  it('takes a key that both maps or other objects have', () => {
    const x = { 'net.core.x': '1' }
    const tuning = { sysctl: x, more: [x, { sysctl: 1 }, x, '{"sysctl":{"a":1,"a":1}}'] }
    expect(read({ tuning, args: { cni: { sysctl: x } } }).tuning?.sysctl).toEqual({ 'net/core/x': '1' })
    const twice = configText({ tuning }).replace('{', '{"more":{"a":1,"a":{"b":1},"a":[]},')
    expect(readConfig(twice, callOf('ADD'))).toMatchObject({ tuning: { sysctl: { 'net/core/x': '1' } } })
  })

  it('are looked at beside a text of 4 MB', () => {
    const long = '\\'.repeat(950_000)
    const text = configText({ args: { long } }).replace(
      '{',
      '{"tuning":{"sysctl":{"net.core.x":"1","net.core.x":"1"}},',
    )
    expect(lineOf(errorOf(() => readConfig(text, callOf('ADD'))))).toContain('duplicated sysctl keys')
    const once = configText({ args: { long }, tuning: { sysctl: { 'net.core.x': '1' } } })
    expect(readConfig(once, callOf('ADD'))).toMatchObject({ tuning: { sysctl: { 'net/core/x': '1' } } })
  })
})
