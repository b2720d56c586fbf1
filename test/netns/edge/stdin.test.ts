// SPDX-License-Identifier: Apache-2.0
// A caller that keeps stdin open: a signal ends the call at once with a document, and silence ends it at the deadline.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectUntouched } from '../../support/allowance.ts'
import { atRest } from '../../support/faults/started.ts'
import { environment, type Host, openHost, snapshot, trestle, type Verb } from '../../support/host.ts'
import { stateEnv } from '../../support/state-layout.ts'
import { netConf } from '../../support/traffic/pods.ts'

let host: Host
let netns: string
let before: ReturnType<typeof snapshot>
let started: ChildProcess | undefined
beforeEach(() => {
  host = openHost()
  netns = host.pod('a')
  before = snapshot(host)
})
afterEach(() => {
  started?.kill('SIGKILL')
  started?.stdin?.end()
  host.close()
})

/** `cat |` makes the executable's stdin a pipe; without it Node's own, a socket. */
function start(verb: Verb, kind: 'pipe' | 'socket') {
  const env = environment(verb, { netns, env: stateEnv(host) })
  const [file, args] =
    kind === 'pipe' ? ['bash', ['-c', `exec 3< <(cat); exec "$0" <&3`, trestle]] : [trestle, [] as string[]]
  const child = spawn('nsenter', [`--net=${host.path}`, '--', file, ...args], { env, stdio: 'pipe' })
  started = child
  const chunks: string[] = []
  child.stdout.on('data', (chunk) => chunks.push(String(chunk)))
  const ended = once(child, 'close').then(([code]) => ({ code, json: JSON.parse(chunks.join('')) }))
  return { child, ended }
}

describe.each(['pipe', 'socket'] as const)('stdin as a %s that stays open', (kind) => {
  it.each<[Verb, NodeJS.Signals]>([
    ['ADD', 'SIGTERM'],
    ['DEL', 'SIGTERM'],
    ['STATUS', 'SIGINT'],
  ])('lets %s end with %s and code 106', async (verb, signal) => {
    const { child, ended } = start(verb, kind)
    child.stdin.write('{"cniVersion":"1.1.0",')
    await atRest(child)
    child.kill(signal)
    expect(await ended).toMatchObject({ code: 1, json: { code: 106, msg: expect.stringContaining('stdin') } })
    expectUntouched(host, before)
  })

  it('is read to its end when that comes late, in pieces', async () => {
    const { child, ended } = start('ADD', kind)
    for (const piece of JSON.stringify(netConf()).match(/.{1,30}/g) ?? []) {
      child.stdin.write(piece)
      await new Promise((resolve) => setTimeout(resolve, 60))
    }
    child.stdin.end()
    expect(await ended).toMatchObject({ code: 0, json: { ips: [{ address: '10.240.0.2/24' }] } })
  })
})

it.each(['SIGQUIT', 'SIGUSR2', 'SIGALRM', 'SIGVTALRM', 'SIGPROF', 'SIGXCPU', 'SIGIO', 'SIGPWR', 'SIGSTKFLT'] as const)(
  '%s ends a call like SIGTERM, with its document',
  async (signal) => {
    const { child, ended } = start('ADD', 'socket')
    await atRest(child)
    child.kill(signal)
    expect(await ended).toMatchObject({ code: 1, json: { code: 106, msg: expect.stringContaining('stdin') } })
    expectUntouched(host, before)
  },
)

it.each(['SIGPIPE', 'SIGUSR1', 'SIGXFSZ', 'SIGWINCH'] as const)('%s ends no call', async (signal) => {
  const { child, ended } = start('ADD', 'socket')
  await atRest(child)
  child.kill(signal)
  child.stdin.end(JSON.stringify(netConf()))
  expect(await ended).toMatchObject({ code: 0, json: { ips: [{ address: '10.240.0.2/24' }] } })
})

it('VERSION answers although its stdin never ends, which upstream does not read', async () => {
  const startedMs = Date.now()
  const { ended } = start('VERSION', 'pipe')
  expect(await ended).toMatchObject({ code: 0, json: { cniVersion: '1.1.0', supportedVersions: expect.any(Array) } })
  expect(Date.now() - startedMs).toBeLessThan(8000)
})

it('a stdin that never ends is given up at the deadline of the call', async () => {
  const { ended } = start('ADD', 'pipe')
  expect(await ended).toMatchObject({ code: 1, json: { code: 5, msg: 'stdin did not end in time [stdin-not-closed]' } })
  expectUntouched(host, before)
})
