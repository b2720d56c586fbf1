// SPDX-License-Identifier: Apache-2.0
// Tuning: keys and their sources, and settings of the pod's interface: noted before they change another plugin's, put back.

import { describe, expect, it } from 'vitest'
import { readConfig } from '../../../src/config/read-config.ts'
import { emptySpec } from '../../../src/drivers/spec.ts'
import { tuning, tuningOf, tuningOfOther } from '../../../src/features/tuning.ts'
import { callOf, configText, errorOf, id, type Json, lineOf, linkOf, read } from '../call.ts'

describe('the keys', () => {
  it.each<[Json, Json | undefined]>([
    [{}, undefined],
    [{ tuning: {} }, { sysctl: {}, promisc: false }],
    [
      { tuning: { sysctl: { 'net.ipv4.conf.IFNAME.arp_filter': '1', 'net/core/somaxconn': '500' } } },
      { sysctl: { 'net/ipv4/conf/eth0/arp_filter': '1', 'net/core/somaxconn': '500' }, promisc: false },
    ],
    [
      {
        tuning: { sysctl: { 'net.core.somaxconn': '1' }, mtu: 1400, promisc: true },
        args: { cni: { sysctl: { 'net/core/somaxconn': '2' }, promisc: false, mtu: 1300, txQLen: 0, allmulti: false } },
      },
      { sysctl: { 'net/core/somaxconn': '2' }, promisc: false, mtu: 1300, txQLen: 0, allmulti: false },
    ],
    [
      { tuning: {}, args: { cni: { sysctl: { 'net.core.somaxconn': '2' } } } },
      { sysctl: { 'net/core/somaxconn': '2' }, promisc: false },
    ],
    [
      { args: { cni: { sysctl: { 'net.core.somaxconn': '2' }, promisc: true, mtu: 1300, txQLen: 9, allmulti: true } } },
      undefined,
    ],
    [{ args: { cni: { labels: [{ key: 'a' }], other: 1 } } }, undefined],
    [{ args: { cni: { mtu: '1400', sysctl: { a: 1 }, promisc: 'x', txQLen: -1, allmulti: [] } } }, undefined],
  ])('%j', (changes, expected) => {
    expect(read(changes).tuning).toEqual(expected)
  })

  it.each([
    'kernel.domainname',
    ...['net', 'net.ipv4', 'net/../kernel/domainname', 'net/ipv4/../../kernel/x', '../net/ipv4/x'],
    ...['net/ipv4/a b', 'net/ipv4/a\u0000b', 'net.ipv4.a;b', ''],
  ])('refuses the sysctl key %j', (key) => {
    const line = `(7) tuning.sysctl: invalid net sysctl key: ${JSON.stringify(key)}`
    expect(lineOf(errorOf(() => read({ tuning: { sysctl: { [key]: '1' } } })))).toBe(line)
  })

  it.each<[Json, RegExp]>([
    [{ sysctl: { 'net.core.x': 1 } }, /^\(7\) tuning\.sysctl: .* is not an object whose values are all strings$/],
    [{ sysctl: { 'net.core.x': '1\n2' } }, /^\(7\) tuning\.sysctl: .* is not an object whose values are all strings$/],
    [
      { sysctl: { 'net.core.x': '1', 'net/core/x': '2' } },
      /^\(7\) tuning\.sysctl: duplicated sysctl keys are not allowed: /,
    ],
    [{ mtu: 20 }, /^\(7\) tuning\.mtu: 20 is not an MTU$/],
    [{ txQLen: -1 }, /^\(7\) tuning\.txQLen: -1 is not /],
  ])('refuses %j', (tuning, line) => {
    expect(lineOf(errorOf(() => read({ tuning })))).toMatch(line)
  })
})

describe('a sysctl that is there twice', () => {
  it.each([
    ['in one spelling', '{"tuning":{"SysCtl":{"net.core.x":"1","net.core.x":"1"}},'],
    ['in args.cni', '{"tuning":{},"args":{"cni":{"sysctl":{"net.core.x":"1" , "net.core.x" :"2"}}},'],
  ])('is refused: %s', (_, start) => {
    const text = configText().replace('{', start)
    const line = '(7) tuning.sysctl: duplicated sysctl keys are not allowed: "net.core.x"'
    expect(lineOf(errorOf(() => readConfig(text, callOf('ADD'))))).toBe(line)
  })

  it('is one of one map: both maps and other objects may have it', () => {
    const x = { 'net.core.x': '1' }
    const tuning = { sysctl: x, more: [x, { sysctl: 1 }, x, '{"sysctl":{"a":1,"a":1}}'] }
    expect(read({ tuning, args: { cni: { sysctl: x } } }).tuning?.sysctl).toEqual({ 'net/core/x': '1' })
    const twice = configText({ tuning }).replace('{', '{"more":{"a":1,"a":{"b":1},"a":[]},')
    expect(readConfig(twice, callOf('ADD'))).toMatchObject({ tuning: { sysctl: { 'net/core/x': '1' } } })
  })
})

describe('the MAC', () => {
  const [a, b, c, d] = ['02:00:00:00:00:0a', '02:00:00:00:00:0b', '02:00:00:00:00:0c', '02:00:00:00:00:0d']
  it.each<[string, Json, string, string | undefined, string | undefined]>([
    ['none', {}, '', undefined, undefined],
    ['CNI_ARGS', {}, `MAC=${a}`, a, undefined],
    ['args over CNI_ARGS', { args: { cni: { mac: b } } }, `MAC=${a}`, b, undefined],
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

const conf = (keys: Json | undefined) => read({ tuning: keys })
const link = linkOf('eth0', { mac: '0a:00:00:00:00:01', allmulti: true })

describe('an interface of ours', () => {
  it('has no settings without tuning', () => expect(tuningOf(conf(undefined))).toBeUndefined())

  it('is made with its MAC and MTU, so that they are no settings', () => {
    const own = tuningOf(conf({ mac: '0a:00:00:00:00:10', mtu: 1400, txQLen: 5, allmulti: false, promisc: true }))
    expect(own).toEqual({ sysctl: {}, settings: { promisc: true, txQLen: 5, allmulti: false } })
  })

  it('has sysctls by path, set last', () => {
    const spec = {
      ...emptySpec(id, 'bridge'),
      tuning: tuningOf(conf({ sysctl: { 'net.core.somaxconn': '9' } })),
    } as never
    expect(tuning.ops?.(spec)).toMatchObject([{ place: 'pod', key: 'net/core/somaxconn', value: '9', when: 'last' }])
  })
})

describe('an interface of another plugin', () => {
  it('is noted as it was, in what is changed', () => {
    const all = { mtu: 1400, txQLen: 5, allmulti: false, promisc: true }
    expect(tuningOfOther(conf(all), '0a:00:00:00:00:10', link)).toMatchObject({
      settings: { mac: '0a:00:00:00:00:10', ...all },
      before: { mac: link.mac, mtu: 1500, promisc: false, allmulti: true, txQLen: 1000 },
    })
    expect(tuningOfOther(conf({ mtu: 1400 }), undefined, link)?.before).toEqual({ mtu: 1500 })
  })

  it.each<[string, object | undefined, object | undefined]>([
    ['is put back', {}, { mtu: 1500, promisc: true }],
    ['of ours goes with the pod', undefined, undefined],
  ])('%s', (_, chained, set) => {
    const own = tuningOfOther(conf({ mtu: 1400, promisc: true }), undefined, { ...link, promisc: true })
    const spec = { ...emptySpec(id, 'chained'), tuning: own, ...(chained && { chained }) } as never
    expect((tuning.undo?.(spec) ?? []).map((op) => (op.kind === 'link.set' ? op.set : op.kind))).toEqual(
      set ? [set] : [],
    )
  })
})
