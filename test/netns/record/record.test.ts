// SPDX-License-Identifier: Apache-2.0
// Recording of every call, by a switch and by the key `record`; in another plugin's place by record.wrap and
// record.answer.

import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'
import { command, lineOf, linesOf } from '../../support/records.ts'
import { ringFiles, stateFiles, verbOfRecord } from '../../support/state-layout.ts'

const conf = { cniVersion: '1.1.0', name: 'pods', type: 'trestle', bridge: 'br-rec', podcidr: '10.92.0.0/24' }
const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u-1'

let host: Host
let netns: string
let path: string
beforeEach(() => {
  host = openHost()
  netns = host.pod('a')
  path = mkdtempSync(`${tmpdir()}/trestle-plugins-`)
})
afterEach(() => {
  host.close()
  rmSync(path, { recursive: true })
})

const record = (...words: string[]) => command(host, 'record', ...words)

describe('trestle record on', () => {
  it('records each call until off, and shows each', () => {
    expect(record('on').stdout).toContain('records each call')
    const env = { CNI_SECRET: 'CANARY', HOME: '/root' }
    const add = host.cni('ADD', conf, { netns, args, env })
    host.cni('CHECK', { ...conf, prevResult: add.json }, { netns, args })
    host.cni('STATUS', conf)
    host.cni('VERSION', { cniVersion: '1.1.0' })
    host.cni('DEL', conf, { netns, args })
    const verbs = ringFiles(host, 'records').map((file) => lineOf(linesOf(host, file), 'call').verb)
    expect(verbs).toEqual(['ADD', 'CHECK', 'STATUS', 'VERSION', 'DEL'])
    const lines = linesOf(host, ringFiles(host, 'records', 'ADD')[0] ?? '')
    const call = lineOf(lines, 'call')
    expect(call).toMatchObject({ stdin: JSON.stringify(conf), pod: { namespace: 'shop', name: 'web', uid: 'u-1' } })
    expect(call.env).toMatchObject({
      CNI_COMMAND: 'ADD',
      CNI_NETNS: netns,
      PATH: expect.any(String),
    })
    expect(call.otherEnv).toContain('HOME')
    expect(lineOf(lines, 'result')).toMatchObject({ exit: 0, stdout: add.stdout, stderr: '' })
    const runs = lines.filter((line) => line.type === 'exec')
    expect(runs.map(({ argv }) => argv.join(' '))).toEqual(expect.arrayContaining([expect.stringContaining('nft')]))
    expect(runs.find(({ argv, stdin }) => argv[0] === 'nft' && stdin !== undefined)?.stdin).toContain('trestle')
    expect(runs.every(({ ms }) => ms !== undefined)).toBe(true)
    expect(host.run('grep', ['-r', 'CANARY', host.stateDir]).stdout).toBe('')
    expect(record('off').code).toBe(0)
    host.cni('STATUS', conf)
    expect(ringFiles(host, 'records', 'STATUS')).toHaveLength(1)
    expect(existsSync(stateFiles(host).recording)).toBe(false)
  })

  it('records only the pod or the network that --only names', () => {
    record('on', '--only', 'shop/web')
    host.cni('ADD', conf, { netns, args })
    host.cni('STATUS', conf)
    host.cni('DEL', conf, { netns, args })
    expect(ringFiles(host, 'records').map(verbOfRecord)).toEqual(['ADD', 'DEL'])
    record('on', '--only', 'pods')
    host.cni('STATUS', conf)
    expect(ringFiles(host, 'records', 'STATUS')).toHaveLength(1)
  })

  it('a hundred STATUS push out no ADD', () => {
    const kept = { ...conf, record: { keep: 10 } }
    host.cni('ADD', kept, { netns, args })
    for (let at = 0; at < 25; at++) host.cni('STATUS', kept)
    expect(ringFiles(host, 'records', 'STATUS')).toHaveLength(10)
    expect(ringFiles(host, 'records', 'ADD')).toHaveLength(1)
  })
})

describe('the key record', () => {
  it('records the calls of its configuration', () => {
    host.cni('ADD', { ...conf, record: true }, { netns, args })
    host.cni('DEL', { ...conf, record: { keep: 1 } }, { netns, args })
    host.cni('DEL', { ...conf, record: { keep: 1 } }, { netns, args })
    host.cni('STATUS', conf)
    host.cni('STATUS', { ...conf, record: false })
    expect(ringFiles(host, 'records').map(verbOfRecord)).toEqual(['ADD', 'DEL'])
  })

  it('wrap: runs another plugin with its input, and answers byte for byte', () => {
    const plugin =
      '#!/bin/sh\ncat >"$0.stdin"; env | sort >"$0.env"; printf \'{"cniVersion":"1.0.0",  "code": 7, "msg": "no\\303\\244"}\'; echo grumble >&2; exit 3\n'
    writeFileSync(`${path}/other`, plugin)
    chmodSync(`${path}/other`, 0o755)
    const sent =
      '{"cniVersion":"1.0.0","name":"pods","type":"trestle","rate":18446744073709551615,"ipam":{"type":"x"},"record":{"wrap":"other"}}'
    const call = { netns, args, path, env: { MARK: 'x' } }
    const add = host.cni('ADD', sent, call)
    expect(add.code).toBe(3)
    expect(add.stdout).toBe('{"cniVersion":"1.0.0",  "code": 7, "msg": "no\u00e4"}')
    expect(add.stderr).toBe('grumble\n')
    expect(host.run('cat', [`${path}/other.stdin`]).stdout).toBe(
      '{"cniVersion":"1.0.0","name":"pods","type":"other","rate":18446744073709551615,"ipam":{"type":"x"}}',
    )
    expect(host.run('cat', [`${path}/other.env`]).stdout).toMatch(/^CNI_IFNAME=eth0$[\s\S]*^MARK=x$/m)
    const lines = linesOf(host, ringFiles(host, 'records', 'ADD')[0] ?? '')
    expect(lineOf(lines, 'call')).toMatchObject({ stdin: sent })
    expect(lineOf(lines, 'exec')).toMatchObject({
      argv: [`${path}/other`],
      exit: 3,
      stdout: add.stdout,
      stderr: 'grumble\n',
    })
    expect(lineOf(lines, 'result')).toMatchObject({ exit: 3, code: 7, stdout: add.stdout, stderr: 'grumble\n' })
  })

  it.each([
    ['a plugin that is not there', 'nothing', 'cannot find the plugin'],
    ['a path', '../../bin/sh', 'is no other plugin'],
    ['trestle itself', 'trestle', 'is no other plugin'],
    ['a plugin that cannot be run', 'endless', 'ELOOP [plugin-failed]'],
    ['a plugin that a signal ends', 'killed', 'was ended by SIGKILL [plugin-failed]'],
  ])('wrap of %s is an error with its document', (_, wrap, msg) => {
    writeFileSync(`${path}/endless`, `#!${path}/endless\n`, { mode: 0o755 })
    writeFileSync(`${path}/killed`, '#!/bin/sh\necho "{"; kill -9 $$\n', { mode: 0o755 })
    for (const verb of ['ADD', 'DEL'] as const) {
      const call = host.cni(verb, { ...conf, record: { wrap } }, { netns, args, path })
      expect(call, verb).toMatchObject({
        code: 1,
        json: { msg: expect.stringMatching(/^record\.wrap: /), details: expect.any(String) },
      })
      expect(call.json?.msg).toContain(msg)
      expect(call.json?.details).not.toContain('    at ')
    }
  })

  it('answer: gives the answers of the configuration and makes nothing', () => {
    const before = host.run('ip', ['link']).stdout
    const answer = { ADD: { ips: [{ address: '10.1.1.1/24' }] }, STATUS: { code: 50, msg: 'not yet' }, CHECK: '' }
    const dummy = { ...conf, record: { answer } }
    expect(host.cni('ADD', dummy, { netns, args })).toMatchObject({
      code: 0,
      stdout: '{"cniVersion":"1.1.0","ips":[{"address":"10.1.1.1/24"}]}\n',
    })
    expect(host.cni('STATUS', dummy)).toMatchObject({ code: 1, json: { code: 50, msg: 'not yet' } })
    expect(host.cni('DEL', dummy, { netns, args })).toMatchObject({ code: 0, stdout: '' })
    expect(host.run('ip', ['link']).stdout).toBe(before)
    expect(ringFiles(host, 'records').map(verbOfRecord)).toEqual(['ADD', 'STATUS', 'DEL'])
  })
})
