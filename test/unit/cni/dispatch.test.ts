// SPDX-License-Identifier: Apache-2.0
// A whole call: which handler runs, what is printed, and one valid error for any garbage.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Environment } from '../../../src/cni/call.ts'
import { dispatch, type Verbs } from '../../../src/cni/dispatch.ts'
import { CniError, Code } from '../../../src/cni/errors.ts'
import { type Result, supportedVersions } from '../../../src/cni/results.ts'
import { configText, envFor, type Json } from '../call.ts'

const result: Result = { interfaces: [{ name: 'eth0' }], ips: [{ address: '10.0.0.2/8', interface: 0 }], routes: [] }

interface Outcome {
  readonly called: readonly string[]
  readonly stdout: string
  readonly exitCode: number
}

/** Dispatches with handlers that write down their names; `thrown`, when given, is what each throws. */
async function call(env: Environment, stdin: string | Error, thrown?: unknown, isTakenBack = false): Promise<Outcome> {
  const called: string[] = []
  const handler = (name: string) => async () => {
    called.push(name)
    if (thrown !== undefined) throw thrown
  }
  const handlers: Verbs = {
    add: async () => {
      await handler('add')()
      return result
    },
    del: handler('del'),
    check: handler('check'),
    gc: handler('gc'),
    status: handler('status'),
  }
  const readStdin = () => {
    if (stdin instanceof Error) throw stdin
    return stdin
  }
  const output = await dispatch({ env, stdin: readStdin, ownTypes: ['trestle'] }, handlers)
  const { stdout, exitCode, takeBack } = output
  if (isTakenBack) await takeBack?.()
  return { called, stdout, exitCode }
}

const prevResult = { cniVersion: '1.1.0', ips: [{ address: '10.0.0.2/8' }] }

describe('success', () => {
  it.each([
    [
      'ADD',
      {},
      'add',
      '{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"}],"ips":[{"address":"10.0.0.2/8","interface":0}]}\n',
    ],
    ['DEL', {}, 'del', ''],
    ['CHECK', { prevResult }, 'check', ''],
    ['GC', {}, 'gc', ''],
    ['STATUS', {}, 'status', ''],
  ])('%s calls its handler only', async (verb, changes: Json, name, stdout) => {
    expect(await call(envFor(verb), configText(changes))).toEqual({ called: [name], stdout, exitCode: 0 })
  })

  it.each(supportedVersions)('ADD answers in %s', async (cniVersion) => {
    const { stdout } = await call(envFor('ADD'), configText({ cniVersion, podcidr: '10.0.0.0/24' }))
    expect(JSON.parse(stdout)).toMatchObject({ cniVersion })
    expect(stdout.split('\n')).toHaveLength(2)
  })

  it.each<[string | Error, string]>([
    ['{"cniVersion":"0.4.0"}', '0.4.0'],
    ['{"cniVersion":"1.1.0","name":"!"}', '1.1.0'],
    ['{"cniVersion":"7"}', '1.1.0'],
    ['', '1.1.0'],
    ['garbage', '1.1.0'],
    [new Error('closed'), '1.1.0'],
  ])('VERSION with stdin %s', async (stdin, cniVersion) => {
    const outcome = await call({ CNI_COMMAND: 'VERSION' }, stdin)
    expect(outcome).toMatchObject({ called: [], exitCode: 0 })
    expect(JSON.parse(outcome.stdout)).toEqual({ cniVersion, supportedVersions })
  })
})

describe('failure', () => {
  it('VERSION is ended by a signal, not answered', async () => {
    const stdin = new CniError(Code.interrupted, 'call-interrupted', 'interrupted by a signal while stdin was read')
    const outcome = await call({ CNI_COMMAND: 'VERSION' }, stdin)
    expect([outcome.exitCode, JSON.parse(outcome.stdout)]).toMatchObject([1, { code: 106 }])
  })

  const config = configText({ cniVersion: '0.4.0' })
  const aggregate = new AggregateError([
    new CniError(Code.tryAgainLater, 'lock-held', 'one'),
    new CniError(Code.delegateFailed, 'ipam-plugin-failed', 'two', { details: 'why' }),
    new CniError(Code.tryAgainLater, 'lock-held', 'three'),
  ])
  it.each<[string, unknown, Json]>([
    [
      'a CniError',
      new CniError(Code.poolExhausted, 'pool-exhausted', 'pool is full', { details: 'd' }),
      { code: 101, msg: 'pool is full [pool-exhausted]', details: 'd' },
    ],
    [
      "a delegate's code",
      new CniError(1234, 'ipam-plugin-refused', 'x'),
      { code: 1234, msg: 'x [ipam-plugin-refused]' },
    ],
    [
      'a plain error',
      new Error('boom'),
      { code: 999, msg: 'internal error: boom [internal-error]', details: expect.any(String) },
    ],
    [
      'a full disk, told by write(2), which has no path',
      Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC', syscall: 'write' }),
      {
        code: 5,
        msg: 'ENOSPC: no space left on device, write [file-refused]',
        details: expect.stringContaining('free space'),
      },
    ],
    [
      'several, by the first one, each with its id',
      aggregate,
      {
        code: 11,
        msg: 'one; two; three [lock-held]',
        details: '(11) one [lock-held]\n(105) two [ipam-plugin-failed]\nwhy\n(11) three [lock-held]',
      },
    ],
    [
      'control characters',
      new CniError(Code.invalidConfig, 'wrong-type', 'a\nb\x1b[31m'),
      { code: 7, msg: 'a; b\\x1b[31m [wrong-type]' },
    ],
  ])('%s', async (_, thrown, expected) => {
    const { stdout, exitCode } = await call(envFor('ADD'), config, thrown)
    expect(exitCode).toBe(1)
    expect(JSON.parse(stdout)).toEqual({ cniVersion: '0.4.0', ...expected })
    expect(stdout.endsWith('}\n')).toBe(true)
  })

  it('an ADD whose result nobody reads is taken back by DEL, no other call', async () => {
    expect((await call(envFor('ADD'), configText({}), undefined, true)).called).toEqual(['add', 'del'])
    expect((await call(envFor('DEL'), configText({}), undefined, true)).called).toEqual(['del'])
  })

  it('of DEL has no words that containerd takes for a DEL that is done; of other verbs the words as they are', async () => {
    const thrown = new CniError(Code.delegateFailed, 'ipam-plugin-failed', 'lease not found', {
      details: 'Not found: ENOENT: no such file or directory, open x',
    })
    const del = await call(envFor('DEL'), config, thrown)
    expect(JSON.parse(del.stdout)).toEqual({
      cniVersion: '0.4.0',
      code: 105,
      msg: 'lease not-found [ipam-plugin-failed]',
      details: 'Not-found: ENOENT: no-such file or directory, open x',
    })
    expect((await call(envFor('CHECK', {}), configText({ prevResult }), thrown)).stdout).toContain('lease not found')
    const malformed = await call(envFor('DEL', { CNI_CONTAINERID: 'not found' }), config)
    expect(malformed.stdout).not.toContain('not found')
  })

  it.each<[string, Environment, string, string]>([
    ['S65 unknown verb', envFor('NOPE'), '{}', '1.1.0 4 unknown CNI_COMMAND: NOPE [verb-unknown]'],
    ['S69 no verb', {}, '{}', '1.1.0 4 required env variables [CNI_COMMAND] missing [variable-missing]'],
    [
      'S17 no cniVersion',
      envFor('ADD'),
      '{"name":"a b"}',
      '0.1.0 7 invalid characters found in network name [network-name-invalid]',
    ],
    [
      'S18 unsupported',
      envFor('ADD'),
      '{"name":"a","cniVersion":"x"}',
      '1.1.0 1 incompatible CNI versions [version-unsupported]',
    ],
  ])('%s', async (_, env, stdin, expected) => {
    const outcome = await call(env, stdin)
    const { cniVersion, code, msg } = JSON.parse(outcome.stdout)
    expect(`${cniVersion} ${code} ${msg}`).toBe(expected)
    expect(outcome).toMatchObject({ called: [], exitCode: 1 })
  })
})

const names = ['CNI_COMMAND', 'CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_ARGS', 'CNI_PATH']
const verbs = fc.constantFrom('ADD', 'DEL', 'CHECK', 'GC', 'STATUS', 'VERSION')
const garbage = fc.oneof(fc.string(), fc.string({ unit: 'binary' }))
const envs = fc.oneof(
  fc.dictionary(fc.constantFrom(...names), garbage),
  fc
    .tuple(verbs, fc.dictionary(fc.constantFrom(...names.slice(1)), garbage))
    .map(([verb, env]) => ({ ...env, CNI_COMMAND: verb })),
  verbs.map((verb) => envFor(verb)),
)
const words = (text: string) => text.split(' ')
const keys = words('mode podcidr bridge vlan vlanTrunk mtu ipam dns args runtimeConfig portmap firewall')
const moreKeys = words('bandwidth tuning sbr record prevResult type cniVersion cni.dev/valid-attachments __proto__')
const configs = fc
  .dictionary(fc.constantFrom(...keys, ...moreKeys), fc.oneof(fc.jsonValue(), fc.object()), { noNullPrototype: true })
  .map((changes) => configText(changes))
const stdins = fc.oneof(garbage, fc.json(), configs)
const codes: readonly number[] = Object.values(Code).filter((code) => code !== Code.internal)

describe('property', () => {
  it('any environment and stdin: one valid document or nothing, and never code 999', async () => {
    await fc.assert(
      fc.asyncProperty(envs, stdins, async (env, stdin) => {
        const { stdout, exitCode } = await call(env, stdin)
        if (exitCode === 0) {
          expect(stdout === '' || typeof JSON.parse(stdout).cniVersion === 'string').toBe(true)
          return
        }
        const body = JSON.parse(stdout)
        expect(supportedVersions).toContain(body.cniVersion)
        expect(codes).toContain(body.code)
        expect(body.msg).toMatch(/^[\t\P{Cc}]+$/u)
        expect(stdout.indexOf('\n')).toBe(stdout.length - 1)
      }),
      { numRuns: 3000 },
    )
  })

  it('DEL of a good container id and name succeeds whatever else the configuration holds', async () => {
    const noVersion = fc.dictionary(
      fc.constantFrom(...keys, ...moreKeys.filter((key) => key !== 'cniVersion')),
      fc.jsonValue(),
    )
    await fc.assert(
      fc.asyncProperty(noVersion, garbage, async (changes, text) => {
        const env = envFor('DEL', { CNI_NETNS: text, CNI_ARGS: text })
        expect(await call(env, configText(changes))).toEqual({ called: ['del'], stdout: '', exitCode: 0 })
      }),
      { numRuns: 500 },
    )
  })
})
