// SPDX-License-Identifier: Apache-2.0
// A call that fails is kept without being asked, and changes no verdict by that.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'
import { lineOf, linesOf } from '../../support/records.ts'
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
})

it('keeps a failed ADD, with what was asked and run', () => {
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

it('keeps the last 50 of a verb, and of a STATUS that fails again and again two', () => {
  failedAdd()
  for (let at = 0; at < 51; at++) expect(host.cni('DEL', '{').code).toBe(1)
  for (let at = 0; at < 5; at++) expect(host.cni('STATUS', { ...conf, mtu: 'x' }).code).toBe(1)
  expect(['ADD', 'DEL', 'STATUS'].map((verb) => ringFiles(host, 'failures', verb).length)).toEqual([1, 50, 2])
}, 120_000)

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
