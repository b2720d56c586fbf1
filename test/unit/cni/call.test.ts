// SPDX-License-Identifier: Apache-2.0
// The environment of a call: which verb needs what (cni pkg/skel/skel_test.go), and hostile values.

import { describe, expect, it } from 'vitest'
import { readCall } from '../../../src/cni/call.ts'
import { callOf, envFor, errorOf, lineOf, read, readAny } from '../call.ts'

const all = ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_ARGS', 'CNI_PATH'] as const

const required = {
  ADD: ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME'],
  CHECK: ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME'],
  DEL: ['CNI_CONTAINERID', 'CNI_IFNAME'],
  GC: ['CNI_PATH'],
  STATUS: [],
  VERSION: [],
} as const

const verbs = Object.keys(required) as (keyof typeof required)[]

describe('required variables', () => {
  it.each(verbs)('of %s', (verb) => {
    for (const variable of all) {
      for (const value of [undefined, '']) {
        const env = envFor(verb, { [variable]: value })
        if ((required[verb] as readonly string[]).includes(variable))
          expect(lineOf(errorOf(() => readCall(env)))).toBe(`(4) required env variables [${variable}] missing`)
        else expect(readCall(env).verb).toBe(verb)
      }
    }
  })

  it.each([
    ['ADD', '[CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME]'],
    ['CHECK', '[CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME]'],
    ['DEL', '[CNI_CONTAINERID,CNI_IFNAME]'],
    ['GC', '[CNI_PATH]'],
  ])('%s names all that are missing, in order', (verb, list) => {
    const error = errorOf(() => readCall({ CNI_COMMAND: verb }))
    expect(lineOf(error)).toBe(`(4) required env variables ${list} missing`)
  })

  it.each([undefined, ''])('wants CNI_COMMAND (%s)', (value) => {
    expect(lineOf(errorOf(() => readCall({ CNI_COMMAND: value })))).toBe(
      '(4) required env variables [CNI_COMMAND] missing',
    )
  })

  it.each(['NOPE', 'add', 'Add', 'ADD ', '__proto__', 'toString', 'constructor'])('refuses the verb %s', (verb) => {
    expect(lineOf(errorOf(() => readCall(envFor(verb))))).toBe(`(4) unknown CNI_COMMAND: ${verb}`)
  })

  it("accepts libcni's dummies on VERSION", () => {
    const dummy = { CNI_IFNAME: 'dummy', CNI_NETNS: 'dummy', CNI_PATH: 'dummy', CNI_CONTAINERID: '', CNI_ARGS: 'x' }
    const call = {
      verb: 'VERSION',
      containerId: '',
      netns: '',
      ifName: '',
      args: { ip: [], gateway: [], problems: [] },
      path: [],
      ownTypes: ['trestle'],
    }
    expect(readCall({ CNI_COMMAND: 'VERSION', ...dummy })).toEqual(call)
  })
})

describe('CNI_CONTAINERID', () => {
  it.each(['some-%%container-id', '-a', '.a', '_a', 'a b', 'a/b', '../a', 'a\n', 'a\0', 'ä', 'a;b'])(
    'refuses %j',
    (id) => {
      for (const verb of ['ADD', 'DEL', 'CHECK'] as const) {
        const error = errorOf(() => callOf(verb, { CNI_CONTAINERID: id }))
        expect(lineOf(error)).toBe('(4) CNI_CONTAINERID: invalid characters in containerID')
        expect(error.details).toContain(JSON.stringify(id))
      }
    },
  )

  it.each(['a', '0', 'a.b_c-d', 'F'.repeat(200)])('accepts %s', (id) => {
    expect(callOf('ADD', { CNI_CONTAINERID: id }).containerId).toBe(id)
  })
})

describe('CNI_IFNAME', () => {
  it.each([
    ['1234567890123456', 'interface name is too long'],
    ['😀😀😀😀', 'interface name is too long'],
    ['.', 'interface name is . or ..'],
    ['..', 'interface name is . or ..'],
    ['test/test', 'interface name contains / or : or whitespace characters'],
    ['test test', 'interface name contains / or : or whitespace characters'],
    ['test\u00a0x', 'interface name contains / or : or whitespace characters'],
    ['test\u0085x', 'interface name contains / or : or whitespace characters'],
  ])('refuses %j on every verb', (name, text) => {
    for (const verb of ['ADD', 'CHECK', 'DEL'] as const) {
      expect(lineOf(errorOf(() => callOf(verb, { CNI_IFNAME: name })))).toBe(`(4) CNI_IFNAME: ${text}`)
    }
  })

  it.each(['eth%d', 'a#b', 'a\\b', 'a"b', "a'b", 'a`b', 'a\x01b', 'a\x7fb', '-eth0', 'all', 'default', 'a\ufffd'])(
    'refuses %j on ADD and CHECK and takes it on DEL',
    (name) => {
      for (const verb of ['ADD', 'CHECK'] as const) {
        const error = errorOf(() => callOf(verb, { CNI_IFNAME: name }))
        expect(error.code).toBe(4)
        expect(error.message).toContain('CNI_IFNAME')
      }
      expect(callOf('DEL', { CNI_IFNAME: name }).ifName).toBe(name)
    },
  )

  it.each(['eth0', 'net1', 'lo', '123456789012345', 'a.b', 'a@b', 'eth0-1'])('accepts %s', (name) => {
    expect(callOf('ADD', { CNI_IFNAME: name }).ifName).toBe(name)
  })
})

describe('CNI_NETNS', () => {
  it.each(['relative', 'a/b', '/a\0b', '/a\nb', '/a\x1b[31m'])(
    'refuses %j on ADD and CHECK, ignores it on DEL',
    (path) => {
      for (const verb of ['ADD', 'CHECK'] as const) {
        expect(lineOf(errorOf(() => callOf(verb, { CNI_NETNS: path })))).toBe('(4) CNI_NETNS: not an absolute path')
      }
      expect(callOf('DEL', { CNI_NETNS: path }).netns).toBe('')
    },
  )
})

describe('sizes', () => {
  it.each(all)('bounds %s', (variable) => {
    const value = `/${'a'.repeat(64 * 1024)}`
    const error = errorOf(() => callOf('ADD', { [variable]: value }))
    expect(lineOf(error)).toBe(`(4) ${variable}: too long`)
    expect((error.details ?? '').length).toBeLessThan(500)
  })
})

describe('CNI_ARGS', () => {
  it('reads the known keys', () => {
    const text =
      'IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod;K8S_POD_UID=u=1;IP=10.0.0.2, fd00::2;GATEWAY=10.0.0.1;MAC=c2:11:22:33:44:55;'
    expect(callOf('ADD', { CNI_ARGS: text }).args).toEqual({
      ip: ['10.0.0.2', 'fd00::2'],
      gateway: ['10.0.0.1'],
      mac: 'c2:11:22:33:44:55',
      podNamespace: 'ns',
      podName: 'pod',
      podUid: 'u=1',
      problems: [],
    })
  })

  it.each([
    '',
    ';',
    ';;;',
    'IP=',
    'K8S_POD_X=1;;',
    'FOO=1;IgnoreUnknown=true',
    'IgnoreUnknown=True;x=y=z',
    'IgnoreUnknown=TRUE;x=y',
    'MAC=',
  ])('accepts %j', (text) => {
    expect(read({}, { CNI_ARGS: text })).toMatchObject({ name: 'net' })
    expect(callOf('ADD', { CNI_ARGS: text }).args).toEqual({ ip: [], gateway: [], problems: [] })
  })

  it.each([
    ['FOO=bar', 'CNI_ARGS: ARGS: unknown args ["FOO"]'],
    ['FOO=bar;IgnoreUnknown=0', 'CNI_ARGS: ARGS: unknown args ["FOO"]'],
    ['ip=10.0.0.1', 'CNI_ARGS: ARGS: unknown args ["ip"]'],
    ['FOO', 'CNI_ARGS: ARGS: invalid pair "FOO"'],
    ['=x', 'CNI_ARGS: ARGS: invalid pair "=x"'],
    ['FOO;IgnoreUnknown=1', 'CNI_ARGS: ARGS: invalid pair "FOO"'],
    ['IgnoreUnknown=yes', 'CNI_ARGS: ARGS: IgnoreUnknown "yes" is not 1, 0, true or false'],
    ['IgnoreUnknown=toString', 'CNI_ARGS: ARGS: IgnoreUnknown "tostring" is not 1, 0, true or false'],
    ['__proto__=1', 'CNI_ARGS: ARGS: unknown args ["__proto__"]'],
  ])('refuses %j on ADD only', (text, message) => {
    expect(lineOf(errorOf(() => read({}, { CNI_ARGS: text })))).toBe(`(4) ${message}`)
    const delegating = { type: 'macvlan', ipam: { type: 'trestle', subnet: '10.1.0.0/24' } }
    expect(lineOf(errorOf(() => readAny(delegating, { CNI_ARGS: text })))).toBe(`(4) ${message}`)
    expect(callOf('DEL', { CNI_ARGS: text }).verb).toBe('DEL')
    expect(read({ prevResult: { cniVersion: '1.1.0' } }, { CNI_ARGS: text }, 'CHECK').name).toBe('net')
  })

  it('of mode loopback is not read, as the upstream plugin does not', () => {
    expect(read({ mode: 'loopback' }, { CNI_ARGS: 'none' }).mode).toBe('loopback')
  })
})
