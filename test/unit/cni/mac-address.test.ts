// SPDX-License-Identifier: Apache-2.0
// MAC addresses: their text, and which source of one wins.

import { describe, expect, it } from 'vitest'
import { parseMac } from '../../../src-before/cni/address.ts'
import { errorOf, type Json, lineOf, read } from './call.ts'

describe('MAC', () => {
  it.each([
    ['C2:11:22:33:44:55', 'c2:11:22:33:44:55'],
    ['c2-11-22-33-44-5F', 'c2:11:22:33:44:5f'],
    ['c211.2233.4455', 'c2:11:22:33:44:55'],
    ['c2:11:22:33:44', undefined],
    ['c2:11-22:33:44:55', undefined],
    ['c2:11:22:33:44:55:66:77', undefined],
    ['c2112233.4455', undefined],
    ['c2:11:22:33:44:5', undefined],
    ['c2:11:22:33:44:55\n', undefined],
    ['', undefined],
  ])('parses %j', (text, expected) => {
    expect(parseMac(text)).toBe(expected)
  })

  const [a, b, c, d] = ['02:00:00:00:00:0a', '02:00:00:00:00:0b', '02:00:00:00:00:0c', '02:00:00:00:00:0d']
  it.each<[string, Json, string, string | undefined, string | undefined]>([
    ['none', {}, '', undefined, undefined],
    ['CNI_ARGS', {}, `MAC=${a}`, a, undefined],
    ['args over CNI_ARGS', { args: { cni: { mac: b } } }, `MAC=${a}`, b, undefined],
    ['runtimeConfig over args', { args: { cni: { mac: b } }, runtimeConfig: { mac: c } }, `MAC=${a}`, c, undefined],
    ['tuning alone', { tuning: { mac: d } }, '', undefined, d],
    ['tuning below CNI_ARGS', { tuning: { mac: d } }, `MAC=${a}`, a, a],
    ['tuning: args over runtimeConfig', { tuning: {}, args: { cni: { mac: b } }, runtimeConfig: { mac: c } }, '', c, b],
  ])('%s', (_, changes, args, mac, tuningMac) => {
    const conf = read(changes, { CNI_ARGS: args })
    expect(conf.mac).toBe(mac)
    expect(conf.tuning?.mac).toBe(tuningMac)
  })

  it.each<[Json, string, string]>([
    [{ runtimeConfig: { mac: 'x' } }, '', '(7) runtimeConfig.mac: "x" is not a MAC address'],
    [
      { runtimeConfig: { mac: '01:00:5e:00:00:01' } },
      '',
      '(7) runtimeConfig.mac: "01:00:5e:00:00:01" is not a unicast MAC address',
    ],
    [
      { runtimeConfig: { mac: '00:00:00:00:00:00' } },
      '',
      '(7) runtimeConfig.mac: "00:00:00:00:00:00" is not an address an interface can have',
    ],
    [
      { args: { cni: { mac: '02:00' } }, runtimeConfig: { mac: a } },
      '',
      '(7) args.cni.mac: "02:00" is not a MAC address',
    ],
    [{ tuning: { mac: 'x' } }, '', '(7) tuning.mac: "x" is not a MAC address'],
    [{}, 'MAC=x', '(4) CNI_ARGS MAC: "x" is not a MAC address'],
  ])('refuses %j %s', (changes, args, line) => {
    const error = errorOf(() => read(changes, { CNI_ARGS: args }))
    expect(lineOf(error)).toBe(line)
    expect(error.details).toMatch(/^use /)
  })
})
