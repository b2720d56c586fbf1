// SPDX-License-Identifier: Apache-2.0
// The edge of the executable: environment and stdin of every verb, and what goes to stdout.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectUntouched } from '../../support/allowance.ts'
import { type Host, openHost, snapshot, trestle, type Verb } from '../../support/host.ts'
import { expectError, expectOneDocument, expectSilent } from '../../support/outcome.ts'
import { netConf } from '../../support/traffic/pods.ts'

let host: Host
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
})
afterEach(() => host.close())

const versions = ['0.1.0', '0.2.0', '0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0']
const prevResult = { cniVersion: '1.1.0', interfaces: [], ips: [], routes: [] }

function netnsOf(verb: Verb): string {
  return verb === 'ADD' || verb === 'CHECK' ? host.pod('p') : ''
}

describe('the environment', () => {
  it.each<[Verb, string]>([
    ['ADD', 'CNI_CONTAINERID'],
    ['ADD', 'CNI_NETNS'],
    ['ADD', 'CNI_IFNAME'],
    ['DEL', 'CNI_CONTAINERID'],
    ['DEL', 'CNI_IFNAME'],
    ['CHECK', 'CNI_CONTAINERID'],
    ['CHECK', 'CNI_NETNS'],
    ['CHECK', 'CNI_IFNAME'],
    ['GC', 'CNI_PATH'],
  ])('of %s needs %s, missing or empty', (verb, variable) => {
    const netns = netnsOf(verb)
    for (const value of [undefined, '']) {
      const call = host.cni(verb, netConf({ prevResult }), { netns, env: { [variable]: value } })
      expectError(call, 4, variable)
    }
    expectUntouched(host, before)
  })

  it.each<[Verb, readonly string[]]>([
    ['DEL', ['CNI_NETNS', 'CNI_ARGS', 'CNI_PATH']],
    ['GC', ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_ARGS']],
    ['STATUS', ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_ARGS', 'CNI_PATH']],
  ])('of %s may lack %j', (verb, optional) => {
    const env = Object.fromEntries(optional.map((name) => [name, undefined]))
    expectSilent(host.cni(verb, netConf(), { env }))
    expectUntouched(host, before)
  })

  it.each(['ADD', 'DEL', 'CHECK'] as const)(
    'of %s with a bad container id or interface name is refused, by name',
    (verb) => {
      const netns = netnsOf(verb)
      const bad = {
        CNI_CONTAINERID: ['-x', 'a b', '../x', 'a/b', 'a\nb', 'ü', '_a', '.'],
        CNI_IFNAME: ['.', '..', 'a/b', 'a:b', 'a b', 'a\tb', '0123456789abcdef', 'ééééééééé'],
      }
      for (const [variable, values] of Object.entries(bad)) {
        for (const value of values) {
          expectError(host.cni(verb, netConf({ prevResult }), { netns, env: { [variable]: value } }), 4, variable)
        }
      }
      expectUntouched(host, before)
    },
  )

  it.each(['x', './x', '/run/netns/a\nb', '/run/netns/none'])('of ADD with the namespace %j is refused', (netns) => {
    expectError(host.cni('ADD', netConf(), { netns }), 4, 'CNI_NETNS')
    expectUntouched(host, { ...before, state: snapshot(host).state })
  })

  it.each(['A=B', 'garbage', 'IP=10.240.0.5;X=Y', 'IgnoreUnknown=maybe', '=x'])(
    'of ADD with CNI_ARGS %j is refused',
    (args) => {
      expectError(host.cni('ADD', netConf(), { netns: host.pod('p'), args }), 4, 'CNI_ARGS')
      expectUntouched(host, before)
    },
  )

  it('with bad CNI_ARGS does not stop DEL', () => {
    expectSilent(host.cni('DEL', netConf(), { args: 'garbage;A=B' }))
  })

  it.each([undefined, '', 'add', 'FOO', 'ADD ', '%d'])('with the command %j is refused', (command) => {
    expectError(host.cni('ADD', netConf(), { netns: host.pod('p'), env: { CNI_COMMAND: command } }), 4, 'CNI_COMMAND')
    expectUntouched(host, before)
  })
})

describe('stdin', () => {
  const cases: readonly [string, number][] = [
    ['', 6],
    [' \n', 6],
    ['garbage', 6],
    ['null', 6],
    ['[]', 6],
    ['"text"', 6],
    ['{"cniVersion":"1.1.0"', 6],
    [`${JSON.stringify(netConf())}x`, 6],
    [JSON.stringify(netConf({ cniVersion: 1 })), 6],
    ['{}', 7],
    [JSON.stringify(netConf({ name: undefined })), 7],
    [JSON.stringify(netConf({ name: 5 })), 7],
    [JSON.stringify(netConf({ name: '../x' })), 7],
    [JSON.stringify(netConf({ cniVersion: '9.9.9' })), 1],
    [JSON.stringify(netConf({ cniVersion: '0.3.2' })), 1],
  ]
  it.each(cases)('%j is answered with code %i by every verb', (stdin, code) => {
    for (const verb of ['ADD', 'DEL', 'CHECK', 'GC', 'STATUS'] as const) {
      const answer = host.cni(verb, stdin, { netns: netnsOf(verb) ? `/run/netns/${host.name}` : '' })
      // Without cniVersion it is 0.1.0, which has neither CHECK, GC nor STATUS: that is looked at after the name.
      expectError(answer, code)
      host.run('ip', ['netns', 'del', `${host.name}-p`])
    }
    expectUntouched(host, before)
  })

  it.each<[Verb, string]>([
    ['CHECK', '0.3.1'],
    ['GC', '1.0.0'],
    ['STATUS', '1.0.0'],
  ])('of version too old for %s (%s) is refused with code 1', (verb, cniVersion) => {
    expectError(host.cni(verb, netConf({ cniVersion, prevResult }), { netns: netnsOf(verb) }), 1, verb)
    expectUntouched(host, before)
  })

  it('longer than 4 MiB is refused with code 5', () => {
    expectError(host.cni('ADD', ' '.repeat(5 * 1024 * 1024), { netns: host.pod('p') }), 5, 'stdin')
    expectUntouched(host, before)
  })
})

describe('VERSION', () => {
  it.each<[string, Record<string, string | undefined>]>([
    [
      'alone',
      {
        CNI_CONTAINERID: undefined,
        CNI_NETNS: undefined,
        CNI_IFNAME: undefined,
        CNI_ARGS: undefined,
        CNI_PATH: undefined,
      },
    ],
    ['with the dummies of libcni', { CNI_CONTAINERID: '', CNI_NETNS: 'dummy', CNI_IFNAME: 'dummy', CNI_PATH: 'dummy' }],
    [
      'with values no other verb takes',
      { CNI_CONTAINERID: '../', CNI_NETNS: 'x', CNI_IFNAME: 'a b', CNI_ARGS: 'garbage' },
    ],
  ])('answers %s', (_, env) => {
    const answer = host.cni('VERSION', '{"cniVersion":"1.1.0"}', { env })
    expectOneDocument(answer)
    expect(answer).toMatchObject({ code: 0, json: { cniVersion: '1.1.0', supportedVersions: versions } })
  })

  it.each(['', 'garbage', 'null', '[]', '{"cniVersion":"9.0.0"}', '{"cniVersion":7}'])(
    'answers whatever stdin holds: %j',
    (stdin) => {
      const answer = host.cni('VERSION', stdin)
      expectOneDocument(answer)
      expect(answer).toMatchObject({ code: 0, json: { cniVersion: '1.1.0', supportedVersions: versions } })
    },
  )

  it.each(versions)('echoes %s', (cniVersion) => {
    expect(host.cni('VERSION', { cniVersion }).json).toEqual({ cniVersion, supportedVersions: versions })
  })

  it('answers with stdin closed', () => {
    const answer = host.run('sh', ['-c', `CNI_COMMAND=VERSION exec "${trestle}" <&-`])
    expectOneDocument(answer)
    expect(answer.json?.supportedVersions).toEqual(versions)
  })
})
