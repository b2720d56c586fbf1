// SPDX-License-Identifier: Apache-2.0
// Nothing in the environment, in OpenSSL's or in Node's configuration makes the executable load code or open a port, and
// nothing of the host's files ends it without its document (docs/SECURITY.md, "The host's configuration").

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { execaSync } from 'execa'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Canaries, openCanaries, withOpensslConfiguration } from '../../support/canaries.ts'
import { haveStrace } from '../../support/faults/strace.ts'
import { environment, type Host, openHost, trestle } from '../../support/host.ts'
import { stateEnv } from '../../support/state-layout.ts'

const request = '{"cniVersion":"1.1.0"}'
const conf = { cniVersion: '1.1.0', name: 'net', type: 'trestle', podcidr: '10.240.0.0/24' }

/** Node's start ends by these before the first line of ours runs: nothing is loaded, and nothing is answered. */
const ending = ['NODE_CHANNEL_FD', 'NODE_REPL_EXTERNAL_MODULE']

let host: Host
let canaries: Canaries
beforeAll(() => {
  canaries = openCanaries()
})
afterAll(() => canaries.close())
afterEach(() => host?.close())

/** Every word in the executable that could be the name of a variable of Node or OpenSSL. */
function names(): readonly string[] {
  const text = readFileSync(trestle, 'latin1')
  const found = new Set(text.match(/(?<![A-Za-z0-9_])(?:NODE|OPENSSL|SSL)_[A-Za-z0-9_]+/g))
  return [...found].filter((name) => !ending.includes(name)).sort()
}

/** Groups that are set together; a name that could switch another one off is in a group without it. */
function groups(): readonly (readonly string[])[] {
  const isOff = (name: string) => /DISABLE|_NO_/.test(name)
  const [off, others] = [names().filter(isOff), names().filter((name) => !isOff(name))]
  const size = 100
  const cut = Array.from({ length: Math.ceil(others.length / size) }, (_, n) => others.slice(n * size, (n + 1) * size))
  return [off, ...cut]
}

const values = (): readonly string[] => [
  canaries.module,
  canaries.directory,
  `--require ${canaries.module} --inspect=127.0.0.1:9229`,
  canaries.configuration.loading,
  '1',
]

/** What a command did under strace. `touched`: canaries it opened to read, ports it opened. */
function traced(words: readonly string[], env: Readonly<Record<string, string>>, input: string) {
  const log = `${canaries.root}/strace`
  const strace = ['strace', '-f', '--seccomp-bpf', '-qq', '-e', 'trace=bind,listen,open,openat,execve', '-o', log]
  const options = { env, extendEnv: false, input, reject: false, cwd: canaries.root, timeout: 60_000 } as const
  const { exitCode, stdout } = execaSync('nsenter', [`--net=${host.path}`, '--', ...strace, ...words], options)
  const lines = readFileSync(log, 'utf8').split('\n')
  const isPort = (line: string) => / listen\(| bind\(.*AF_INET/.test(line)
  const isRead = (line: string) => line.includes(canaries.root) && / O_RDONLY|execve/.test(line)
  return { exitCode, stdout, touched: lines.filter((line) => isPort(line) || isRead(line)), loaded: canaries.loaded() }
}

describe.skipIf(!haveStrace())('a variable of Node or OpenSSL', { timeout: 120_000 }, () => {
  it('is found in the executable', () => {
    expect(names()).toEqual(expect.arrayContaining(['NODE_OPTIONS', 'OPENSSL_CONF', 'SSL_CERT_FILE', 'NODE_PATH']))
  })

  for (const [caller, words, call] of [
    ['a runtime', [], environment('VERSION', {})],
    ['a person', ['version'], { PATH: process.env['PATH'] ?? '' }],
  ] as const)
    it(`changes nothing of what ${caller} gets, whatever its value: no code, no port, the same answer`, () => {
      host = openHost()
      const plain = traced([trestle, ...words], call, request)
      expect(plain).toMatchObject({ exitCode: 0, touched: [], loaded: [] })
      for (const value of values())
        for (const group of groups()) {
          const env = { ...Object.fromEntries(group.map((name) => [name, value])), ...call }
          expect({ value, group, ...traced([trestle, ...words], env, request) }).toEqual({ value, group, ...plain })
        }
    })

  it('loads nothing into an ADD and a DEL', () => {
    host = openHost()
    const netns = host.pod('a')
    for (const value of values()) {
      const env = { ...Object.fromEntries(names().map((name) => [name, value])), ...stateEnv(host) }
      for (const verb of ['ADD', 'DEL'] as const) {
        const call = environment(verb, { netns, env })
        expect(traced([trestle], call, JSON.stringify(conf))).toMatchObject({ exitCode: 0, touched: [], loaded: [] })
      }
    }
  })

  it('that ends a call before its first line loads nothing, and docs/SECURITY.md names it', () => {
    host = openHost()
    const page = readFileSync('docs/SECURITY.md', 'utf8')
    for (const [name, more] of [
      ...ending.map((name) => [name, {}] as const),
      ['NODE_USE_ENV_PROXY', { HTTP_PROXY: 'x' }] as const,
    ]) {
      const value = name === 'NODE_USE_ENV_PROXY' ? '1' : canaries.module
      const run = traced([trestle], environment('VERSION', { env: { ...more, [name]: value } }), request)
      expect(run, name).toMatchObject({ stdout: '', touched: [], loaded: [] })
      expect(run.exitCode, name).not.toBe(0)
      expect(page).toContain(`\`${name}`)
    }
  })
})

describe("OpenSSL's configuration", { timeout: 60_000 }, () => {
  it('in OPENSSL_CONF loads no library, and ends no call', () => {
    host = openHost()
    const plain = host.cni('VERSION', request).stdout
    for (const [name, file] of Object.entries(canaries.configuration)) {
      expect(host.cni('VERSION', request, { env: { OPENSSL_CONF: file } }), name).toMatchObject({
        code: 0,
        stdout: plain,
      })
      expect(canaries.loaded(), name).toEqual([])
    }
  })

  it('in /etc/ssl/openssl.cnf loads no library, and ends neither a call nor a command', () => {
    host = openHost()
    const plain = host.cni('VERSION', request).stdout
    for (const [name, file] of Object.entries(canaries.configuration)) {
      const words = [...withOpensslConfiguration(file), trestle]
      const options = { extendEnv: false, reject: false } as const
      const called = execaSync('nsenter', [`--net=${host.path}`, ...words], {
        ...options,
        env: environment('VERSION', {}),
        input: request,
        stripFinalNewline: false,
      })
      expect(called, name).toMatchObject({ exitCode: 0, stdout: plain })
      const env = { PATH: process.env['PATH'] ?? '' }
      const asked = execaSync('nsenter', [`--net=${host.path}`, ...words, 'version'], { ...options, env })
      expect(asked, name).toMatchObject({ exitCode: 0, stderr: '' })
      expect(canaries.loaded(), name).toEqual([])
    }
  })
})

it('SIGUSR1 opens no inspector in a call, and the call answers', async () => {
  host = openHost()
  const call = spawn('nsenter', [`--net=${host.path}`, '--', trestle], { env: environment('VERSION', {}) })
  let answer = ''
  call.stdout.on('data', (chunk: Buffer) => {
    answer += chunk
  })
  const ended = new Promise((resolve) => call.once('close', resolve))
  const end = performance.now() + 10_000
  while (!isStarted(call.pid ?? 0) && performance.now() < end) await sleep(20)
  expect(isStarted(call.pid ?? 0)).toBe(true)
  call.kill('SIGUSR1')
  // Node's watchdog thread opens its port some milliseconds after the signal.
  await sleep(500)
  expect(host.run('ss', ['-Hltn']).stdout).toBe('')
  call.stdin.end(request)
  expect(await ended).toBe(0)
  expect(JSON.parse(answer)).toHaveProperty('supportedVersions')
})

/** Whether the process is past Node's own start: it catches SIGTERM. */
function isStarted(pid: number): boolean {
  const [, caught = '0'] = /^SigCgt:\s*(\S+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return (BigInt(`0x${caught}`) & (1n << 14n)) !== 0n
}
