// SPDX-License-Identifier: Apache-2.0
// `trestle try` as a person runs it: what it prints, its exit codes, and that it leaves nothing.

import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { execaSync } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { trestle } from '../../support/host.ts'
import { missingPlugins, upstreamPlugins } from '../../support/upstream.ts'

/** Everything of this (private) machine that `try` must not touch. */
function surroundings() {
  const shown = (file: string, args: string[]) => execaSync(file, args, { reject: false }).stdout
  return {
    links: shown('ip', ['-o', 'link']),
    routes: shown('ip', ['route', 'show', 'table', 'all']),
    rules: shown('nft', ['list', 'ruleset']),
    mounts: shown('findmnt', ['-rno', 'TARGET']),
    forwarding: shown('sysctl', ['net.ipv4.ip_forward', 'net.ipv6.conf.all.forwarding']),
    run: readdirSync('/run', { recursive: true }).map(String).sort(),
    cni: readdirSync('/var/lib/cni', { recursive: true }),
  }
}

const run = (args: readonly string[], input = '', env = {}) =>
  execaSync(trestle, args, { input, env, reject: false, timeout: 150_000 })

const list = (...plugins: object[]) => JSON.stringify({ cniVersion: '1.1.0', name: 'tried', plugins })

describe('trestle try', () => {
  let before: ReturnType<typeof surroundings>
  let directory: string
  beforeAll(() => {
    if (process.env['TRESTLE_TEST_NETNS'] !== readlinkSync('/proc/self/ns/net')) {
      throw new Error('run this through scripts/in-netns.sh: npm run test:netns')
    }
    directory = mkdtempSync(`${tmpdir()}/trestle-try-`)
    // As on a node that has pods.
    mkdirSync('/run/trestle', { mode: 0o700, recursive: true })
    before = surroundings()
  })
  afterAll(() => {
    rmSync(directory, { recursive: true })
    expect(surroundings()).toEqual(before)
  })

  it('tries both families, finds nothing wrong, and touches nothing', () => {
    const { exitCode, stdout } = run(['try'])
    expect(exitCode, stdout).toBe(0)
    expect(stdout).toContain('ok    pod a to outside 198.51.100.1, seen as the node (198.51.100.2)')
    expect(stdout).toContain('ok    pod a to pod b (fd00:240::3)')
    const [counts, last] = stdout.split('\n').slice(-2)
    expect(counts).toMatch(/^\d+ ok, 0 failed, 0 skipped$/)
    expect(last).toContain('the node itself was not looked at: `trestle lint`')
    expect(stdout).not.toContain('\x1b')
    expect(surroundings()).toEqual(before)
  })

  it('says the same as JSON', () => {
    const { exitCode, stdout } = run(
      ['try', '-', '-o', 'json'],
      '{"cniVersion":"0.3.1","name":"n","type":"trestle","podcidr":"10.9.0.0/24"}',
    )
    const { checks, counts, exitCode: said } = JSON.parse(stdout)
    expect([exitCode, said]).toEqual([0, 0])
    expect(counts).toEqual({ ok: checks.length - 1, failed: 0, skipped: 1 })
    expect(checks.filter((check: { status: string }) => check.status === 'skip')).toMatchObject([{ summary: 'CHECK' }])
  })

  it('sees the pod itself where nothing is masqueraded', () => {
    const { exitCode, stdout } = run(['try', '-'], list({ type: 'trestle', podcidr: '10.9.0.0/24', ipMasq: false }))
    expect(exitCode, stdout).toBe(0)
    expect(stdout).toContain('seen as the pod (10.9.0.2)')
  })

  it('looks at the link only on layer 2', () => {
    const { exitCode, stdout } = run(['try', 'conf-examples/layer-2.conflist'])
    expect(exitCode, stdout).toBe(0)
    expect(stdout).toContain('ok    pod b: eth0 is up')
    expect(stdout).toContain('the network gives no addresses')
  })

  it('finds nothing wrong with the example of every key', () => {
    const { exitCode, stdout } = run(['try', 'conf-examples/everything.conflist'])
    expect(exitCode, stdout).toBe(0)
    expect(stdout).toContain('0 failed, 0 skipped')
  })

  it.each(['without a master', 'with one of the node'])('is the router of pods on a link of the node, %s', (how) => {
    const network = JSON.parse(readFileSync('conf-examples/macvlan.conflist', 'utf8')) as { plugins: object[] }
    const plugin = { ...network.plugins[0], ...(how === 'without a master' ? {} : { master: 'ens3' }) }
    const { exitCode, stdout } = run(['try', '-'], JSON.stringify({ ...network, plugins: [plugin] }))
    expect(exitCode, stdout).toBe(0)
    expect(stdout).toContain('ok    pod a to gateway 10.251.0.1\n')
    expect(stdout).toContain('ok    pod a to outside 198.51.100.1, seen as the pod (10.251.0.100)\n')
  })

  it('sends ranges where the configuration takes a runtime’s and has none', () => {
    const { exitCode, stdout } = run(['try', 'conf-examples/every-capability.conflist'])
    expect(exitCode, stdout).toBe(0)
    expect(stdout.split('\n')[0]).toMatch(/, with ipRanges 10\.240\.0\.0\/24 and fd00:240::\/64$/)
    expect(stdout).toContain('ok    pod a to pod b (fd00:240::3)\n')
    const capabilities = { ipRanges: true }
    const own = run(['try', '-'], list({ type: 'trestle', podcidr: '10.9.0.0/24', capabilities }))
    expect(own.stdout).toContain('ok    pod a to pod b (10.9.0.3)\n')
    expect(own.stdout).not.toContain('10.240.0.')
  })

  it('runs a list in order and fails with what a plugin says', () => {
    const failing = `${directory}/failing`
    const error = '{"cniVersion":"1.1.0","code":123,"msg":"not today"}'
    const script = `#!/bin/sh\ncat >/dev/null\n[ $CNI_COMMAND != ADD ] || { echo '${error}'; exit 1; }\n`
    writeFileSync(failing, script, { mode: 0o755 })
    const conflist = list({ type: 'trestle', podcidr: '10.9.0.0/24' }, { type: 'failing' })
    const { exitCode, stdout } = run(['try', '-'], conflist, { CNI_PATH: directory })
    expect(exitCode).toBe(1)
    expect(stdout).toContain('FAIL  ADD pod a\n        code 123: not today')
    expect(stdout).toContain('ok    nothing is left')
  })

  const pool = { type: 'host-local', subnet: '10.9.0.0/24' }
  const ports = { capabilities: { portMappings: true } }
  const bridge = { type: 'bridge', isDefaultGateway: true, ipMasq: true, hairpinMode: true, ipam: pool }
  const ours = { ...bridge, ...ports, type: 'trestle', mode: 'bridge' }
  const upstream = missingPlugins(['bridge', 'host-local', 'portmap'])
  const causes = [
    ['hairpin-off', [{ ...ours, hairpinMode: false }], ['pod b to its own host port']],
    ['ports-isolated', [{ ...ours, portIsolation: true }], ['pod a to pod b', "pod a to pod b's host port"]],
    ['policy-isolated', [{ ...ours, firewall: { ingressPolicy: 'isolated' } }], ['pod a to pod b']],
    ...(upstream === undefined
      ? ([
          [
            'hairpin-off',
            [
              { ...bridge, hairpinMode: false },
              { type: 'portmap', ...ports },
            ],
            ['pod b to its own host port'],
          ],
          [
            'no-default-route',
            [
              { ...bridge, isDefaultGateway: false, isGateway: true },
              { type: 'portmap', ...ports },
            ],
            ["outside to pod b's host port"],
          ],
          [
            'gateway-of-nobody',
            [{ type: 'bridge', ipMasq: true, ipam: { ...pool, routes: [{ dst: '0.0.0.0/0' }] } }],
            ['pod a to outside'],
          ],
        ] as const)
      : []),
  ] as const

  it.each(causes)('names what %s breaks: %j', (_, plugins, failed) => {
    const text = list(...plugins).replace('1.1.0', '1.0.0')
    const { exitCode, stdout } = run(['try', '-', '-o', 'json'], text, { CNI_PATH: upstreamPlugins })
    const { checks } = JSON.parse(stdout) as { checks: { status: string; summary: string }[] }
    expect(exitCode, stdout).toBe(1)
    for (const summary of failed) {
      const found = checks.find((check) => check.status === 'fail' && check.summary.startsWith(summary))
      expect(found, stdout).toBeDefined()
    }
  })

  it.each([
    ['is not root', ['setpriv', '--reuid=65534', '--clear-groups', trestle, 'try'], 'needs root'],
    [
      'lacks a plugin',
      ['env', 'CNI_PATH=/nonexistent', trestle, 'try', '-'],
      'the plugin "bridge" is not in /nonexistent',
    ],
  ])('exits 3 when it %s', (_, [file = '', ...args], message) => {
    const { exitCode, stdout, stderr } = execaSync(file, args, { input: list({ type: 'bridge' }), reject: false })
    expect([exitCode, stdout]).toEqual([3, ''])
    expect(stderr).toContain(message)
  })

  it('leaves nothing when it is interrupted', async () => {
    const child = spawn(trestle, ['try'], { stdio: ['ignore', 'pipe', 'pipe'] })
    const ended = new Promise((resolve) => child.on('exit', resolve))
    await new Promise((resolve) => child.stdout.once('data', resolve))
    child.kill('SIGINT')
    expect(await ended).toBe(3)
    expect(surroundings()).toEqual(before)
  })
})
