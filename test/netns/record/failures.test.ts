// SPDX-License-Identifier: Apache-2.0
// A call that fails is kept without being asked, and changes no verdict by that.

import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'
import { command, lineOf, linesOf } from '../../support/records.ts'
import { ringFiles, stateFiles } from '../../support/state-layout.ts'

const conf = { cniVersion: '1.1.0', name: 'pods', type: 'trestle', bridge: 'br-kept', podcidr: '10.91.0.0/24' }
const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web'

let host: Host
let netns: string
beforeEach(() => {
  host = openHost()
  netns = host.pod('a')
})
afterEach(() => host.close())

/** An ADD that a link in the pod's place refuses, after tools have run. */
function failedAdd(id = 'a') {
  host.inPod(netns, 'ip', ['link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'other'])
  const add = host.cni('ADD', conf, { id, netns, args })
  expect(add.json).toMatchObject({ code: expect.any(Number), msg: expect.stringContaining('eth0') })
  return add
}

it('keeps nothing of calls that succeed', () => {
  expect(host.cni('ADD', conf, { netns }).code).toBe(0)
  expect(host.cni('DEL', conf, { netns }).code).toBe(0)
  expect(existsSync(stateFiles(host).ring('failures'))).toBe(false)
  const last = command(host, 'last')
  expect([last.code, last.stdout]).toEqual([0, 'no failed call is kept\n'])
})

it('keeps a failed ADD, with what was asked and run, for `trestle last` and `trestle explain`', () => {
  const add = failedAdd()
  const [file = ''] = ringFiles(host, 'failures')
  expect(statSync(`${host.stateDir}/${file}`).mode & 0o777).toBe(0o600)
  const lines = linesOf(host, file)
  expect(lineOf(lines, 'call')).toMatchObject({
    verb: 'ADD',
    pod: { namespace: 'shop', name: 'web' },
    stdin: JSON.stringify(conf),
  })
  const run = lines.filter((line) => line.type === 'exec')
  expect(run.map((line) => line.exit)).toContain(1)
  expect(run.find((line) => line.exit === 1)).toMatchObject({
    argv: expect.any(Array),
    stdin: expect.any(String),
    stderr: expect.any(String),
  })
  expect(lineOf(lines, 'result')).toMatchObject({ exit: 1, stdout: add.stdout, code: add.json?.code })
  expect(lines.find((line) => line.type === 'world' && line.of === 'pod')).toMatchObject({
    links: expect.arrayContaining([expect.objectContaining({ ifname: 'eth0' })]),
  })
  const last = command(host, 'last')
  expect(last.code).toBe(1)
  for (const words of [
    'ADD failed',
    'network pods, pod shop/web, container a, interface eth0',
    'exit 1',
    add.json?.msg ?? '',
    'cause',
    'what to do',
  ])
    expect(last.stdout).toContain(words)
  expect(command(host, 'explain').stdout.replace(/\d+s ago/, '')).toBe(last.stdout.replace(/\d+s ago/, ''))
  expect(JSON.parse(command(host, 'last', '-o', 'json').stdout)).toMatchObject({
    exitCode: 1,
    findings: [{ cure: expect.any(String) }],
  })
})

it('masks secrets, wherever the call has them', () => {
  const annotations = { 'io.kubernetes.cri.pod-annotations': { token: 'CANARY', url: 'https://u:CANARY@x/y' } }
  const env = { AWS_SECRET_ACCESS_KEY: 'CANARY', OTEL_EXPORTER_OTLP_HEADERS: 'x=CANARY', BAGGAGE: 'token=CANARY' }
  const call = { netns: '/run/netns/none', args: `${args};PASSWORD=CANARY`, env }
  expect(host.cni('ADD', { ...conf, runtimeConfig: annotations, api_key: 'CANARY' }, call).code).toBe(1)
  const found = host.run('grep', ['-r', 'CANARY', host.stateDir])
  expect(found.stdout).toBe('')
  expect(ringFiles(host, 'failures')).toHaveLength(1)
})

it('keeps the last 50 of all verbs, of which no STATUS that fails again and again is any', () => {
  failedAdd()
  for (let at = 0; at < 49; at++) expect(host.cni('DEL', '{').code).toBe(1)
  for (let at = 0; at < 5; at++) expect(host.cni('STATUS', { ...conf, mtu: 'x' }).code).toBe(1)
  const kept = () => ['ADD', 'DEL', 'STATUS'].map((verb) => ringFiles(host, 'failures', verb).length)
  expect(kept()).toEqual([1, 49, 2])
  expect(host.cni('DEL', '{').code).toBe(1)
  expect(kept()).toEqual([0, 50, 2])
}, 120_000)

it('`trestle last` shows the ADD, not the failed DEL that cleans up behind it; a list has the ids of errors', () => {
  const { msg = '' } = failedAdd().json ?? {}
  expect(host.cni('DEL', '{', { id: 'a', netns, args }).code).toBe(1)
  expect(command(host, 'last').stdout).toMatch(/^ADD failed/)
  const id = /\[[a-z-]+\]$/.exec(msg)?.[0]
  expect(id).toBeDefined()
  expect(command(host, 'record', 'list').stdout).toMatch(/ADD .*failed: \[[a-z-]+\] /)
  expect(command(host, 'record', 'list').stdout).toContain(`failed: ${id} `)
  expect(host.cni('DEL', '{', { id: 'other', netns, args }).code).toBe(1)
  expect(command(host, 'last').stdout).toMatch(/^DEL failed/)
})

it('keeps none when failures are switched off', () => {
  writeFileSync(stateFiles(host).failuresOff, '')
  failedAdd()
  expect(existsSync(stateFiles(host).ring('failures'))).toBe(false)
  expect(command(host, 'last').stdout).toContain('record on --failures')
})

it.each<[string, (path: string) => void]>([
  ['a file', (path) => writeFileSync(path, 'x')],
  ['a link', (path) => symlinkSync('/run/lock', path)],
  ['a directory that others can write to', (path) => void execFileSync('mkdir', ['-m', '777', path])],
  ['a pipe', (path) => void execFileSync('mkfifo', [path])],
])('%s in the place of the failures changes no verdict and is not written to', (_, put) => {
  put(stateFiles(host).ring('failures'))
  failedAdd()
  expect(readdirSync('/run/lock')).toEqual([])
  expect(ringFiles(host, 'failures')).toEqual([])
})

it('a full or a read-only state directory changes no verdict', () => {
  const usual = failedAdd('b')
  rmSync(stateFiles(host).ring('failures'), { recursive: true })
  const directory = stateFiles(host).ring('failures')
  mkdirSync(directory, { mode: 0o700 })
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4k,mode=700', 'tmpfs', directory])
  try {
    execFileSync('sh', ['-c', `head -c 4096 /dev/zero > ${directory}/filler || true`])
    expect(host.cni('ADD', conf, { id: 'b', netns, args }).json).toMatchObject({
      code: usual.json?.code,
      msg: usual.json?.msg,
    })
    execFileSync('mount', ['-o', 'remount,ro', directory])
    expect(host.cni('ADD', conf, { id: 'b', netns, args }).json).toMatchObject({
      code: usual.json?.code,
      msg: usual.json?.msg,
    })
  } finally {
    execFileSync('umount', [directory])
  }
  expect(host.cni('STATUS', conf).code).toBe(0)
})

it('a newest failure that cannot be read is passed over with a line, by last, explain and replay', () => {
  failedAdd()
  const [whole = ''] = ringFiles(host, 'failures')
  host.cni('DEL', '{', { id: 'a', netns, args })
  const newest = ringFiles(host, 'failures').at(-1) ?? ''
  truncateSync(`${host.stateDir}/${newest}`, 200)
  for (const word of ['last', 'explain', 'replay']) {
    const { stdout, stderr } = command(host, word)
    expect(stderr, word).toContain(newest)
    expect(stdout, word).toMatch(/^ADD (?:failed|of record)/)
  }
  truncateSync(`${host.stateDir}/${whole}`, 200)
  expect(command(host, 'last')).toMatchObject({ code: 3, stdout: '' })
})

it.each([
  ['others can write to', (path: string) => chmodSync(path, 0o777)],
  ['is a file', (path: string) => rmSync(path, { recursive: true }) ?? writeFileSync(path, '')],
])('a state directory that %s is not looked at by last, explain and uninstall', (_, put) => {
  failedAdd()
  put(host.stateDir)
  for (const word of ['last', 'explain', 'uninstall']) {
    const { code, stdout, stderr } = command(host, word)
    expect([code, stdout, stderr], word).toEqual([3, '', expect.stringContaining('[state-unusable]')])
  }
})
