// SPDX-License-Identifier: Apache-2.0
// The log: a line a call, and traces, written after the answer.

import { execFileSync, spawn } from 'node:child_process'
import {
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { environment, type Host, openHost, trestle } from '../../support/host.ts'
import { command } from '../../support/records.ts'
import { relative, stateEnv, stateFiles } from '../../support/state-layout.ts'

const conf = { cniVersion: '1.1.0', name: 'pods', type: 'trestle', bridge: 'br-log', podcidr: '10.93.0.0/16' }
const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u-1'

let host: Host
let netns: string
let file: string
beforeEach(() => {
  host = openHost()
  netns = host.pod('a')
  file = stateFiles(host).log
})
afterEach(() => host.close())

const lines = (path = file) =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)

it('has one line for each call, in names of OpenTelemetry, until it is switched off', () => {
  expect(command(host, 'log', 'on', '--otlp').stdout).toContain(file)
  const traceparent = `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`
  host.cni('ADD', conf, { netns, args, env: { TRACEPARENT: traceparent } })
  host.cni('DEL', conf, { netns, args })
  host.cni('ADD', { ...conf, mtu: 'x' }, { netns, args })
  command(host, 'log', 'off')
  host.cni('STATUS', conf)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const [add, del, failed] = lines()
  expect(add).toMatchObject({
    severity_text: 'INFO',
    body: 'ADD pods succeeded',
    trace_id: 'ab'.repeat(16),
    'cni.command': 'ADD',
    'cni.network': 'pods',
    'cni.ifname': 'eth0',
    'container.id': 'c1',
    'k8s.namespace.name': 'shop',
    'k8s.pod.name': 'web',
    'k8s.pod.uid': 'u-1',
    'cni.addresses': ['10.93.0.2/16'],
    'process.exit.code': 0,
    duration_ms: expect.any(Number),
    steps: expect.arrayContaining([
      expect.objectContaining({ name: expect.stringContaining('nft'), duration_ms: expect.any(Number) }),
    ]),
  })
  expect(failed).toMatchObject({ severity_text: 'ERROR', 'cni.error.code': 7, 'process.exit.code': 1 })
  expect(failed?.['trace_id']).toBe(del?.['trace_id'])
  expect(lines()).toHaveLength(3)
  const [trace] = lines(stateFiles(host).traces) as unknown as [
    { resourceSpans: { scopeSpans: { spans: Record<string, string>[] }[] }[] },
  ]
  const [root, ...children] = trace.resourceSpans[0]?.scopeSpans[0]?.spans ?? []
  expect(root).toMatchObject({
    name: 'CNI ADD',
    traceId: 'ab'.repeat(16),
    parentSpanId: 'cd'.repeat(8),
    startTimeUnixNano: expect.stringMatching(/^\d{19}$/),
  })
  expect(children.length).toBeGreaterThan(1)
  expect(new Set(children.map(({ parentSpanId }) => parentSpanId))).toEqual(new Set([root?.['spanId']]))
  expect(command(host, 'log').stdout).toMatch(/ADD pods succeeded {2}web[\s\S]*the log is off/)
})

it('the key log writes to its file', () => {
  const own = `${host.stateDir}/own.jsonl`
  host.cni('STATUS', { ...conf, log: own })
  host.cni('STATUS', { ...conf, log: true })
  host.cni('STATUS', { ...conf, log: 'off' })
  expect([lines(own).length, lines().length]).toEqual([1, 1])
})

it.each<[string, (path: string) => void]>([
  ['a directory', (path) => mkdirSync(path)],
  ['a link', (path) => symlinkSync(`${path}.target`, path)],
  ['a pipe', (path) => void execFileSync('mkfifo', [path])],
  ['a file that others can write to', (path) => void execFileSync('install', ['-m', '666', '/dev/null', path])],
  ['a file that others can read', (path) => void execFileSync('install', ['-m', '644', '/dev/null', path])],
  ['a file with a second name', (path) => writeFileSync(path, '', { mode: 0o600 }) ?? linkSync(path, `${path}.second`)],
  ['a full disk', (path) => symlinkSync('/dev/full', path)],
])('%s in the place of the log changes no verdict', (_, put) => {
  const own = `${host.stateDir}/own.jsonl`
  put(own)
  expect(host.cni('ADD', { ...conf, log: own }, { netns, args }).code).toBe(0)
  expect(host.cni('DEL', { ...conf, log: own }, { netns, args }).code).toBe(0)
  expect(host.run('sh', ['-c', `ls ${own}.target 2>/dev/null; find ${own} -type f -size +0`]).stdout).toBe('')
  const on = command(host, 'log', 'on', '--file', own)
  expect([on.code, on.stderr]).toEqual([3, expect.stringContaining(own)])
  expect(command(host, 'log').stdout).toContain('the log is off')
})

it.each([
  ['a path through ..', `${relative.logs}/../own.jsonl`],
  ['a directory that is a link', 'link/own.jsonl'],
  ['a name with a line break', 'own\nx.jsonl'],
  ['a name of 256 bytes', 'x'.repeat(256)],
])('%s is no log', (_, name) => {
  mkdirSync(stateFiles(host).logs)
  symlinkSync(stateFiles(host).logs, `${host.stateDir}/link`)
  const own = `${host.stateDir}/${name}`
  // A line break in any value is an error of the configuration.
  expect(host.cni('STATUS', { ...conf, log: own }).code).toBe(name.includes('\n') ? 1 : 0)
  expect(command(host, 'log', 'on', '--file', own).code).toBe(3)
  expect(readdirSync(stateFiles(host).logs)).toEqual([])
  expect(readdirSync(host.stateDir).filter((each) => each.includes('own'))).toEqual([])
})

it('200 calls at once give 200 whole lines, over a rotation', async () => {
  command(host, 'log', 'on')
  host.cni('STATUS', conf)
  truncateSync(file, 10 * 1024 * 1024 - 20_000)
  const calls = Array.from({ length: 200 }, (_, at) => {
    const env = environment('ADD', {
      id: `c${at}`,
      netns: '/run/netns/none',
      env: stateEnv(host),
    })
    return new Promise<number>((resolve) => {
      const child = spawn('nsenter', [`--net=${host.path}`, '--', trestle], {
        env,
        stdio: ['pipe', 'ignore', 'ignore'],
      })
      child.stdin.end(JSON.stringify(conf))
      child.on('close', (code) => resolve(code ?? -1))
    })
  })
  expect(new Set(await Promise.all(calls))).toEqual(new Set([1]))
  const files = readdirSync(stateFiles(host).logs).map((name) => `${stateFiles(host).logs}/${name}`)
  expect(files.length).toBeGreaterThan(1)
  const whole = files.map((each) => readFileSync(each, 'latin1'))
  const added = whole.flatMap((each) =>
    each
      .slice(each.lastIndexOf('\0') + 1)
      .trimEnd()
      .split('\n'),
  )
  const written = added.map((line) => JSON.parse(line) as Record<string, string>)
  const ids = written.filter((line) => line['cni.command'] === 'ADD').map((line) => line['container.id'])
  const sent = Array.from({ length: 200 }, (_, at) => `c${at}`)
  expect(ids.toSorted()).toEqual(sent.toSorted())
}, 120_000)

it('says of itself only what is so', () => {
  host.cni('STATUS', { ...conf, log: true })
  expect(command(host, 'log').stdout).toMatch(
    /STATUS pods succeeded[\s\S]*the log is off but for configurations with the key "log"$/m,
  )
  const own = `${host.stateDir}/own.jsonl`
  command(host, 'log', 'on', '--file', own)
  expect(JSON.parse(command(host, 'log', 'off', '-o', 'json').stdout)).toMatchObject({ log: false, file: own })
  rmSync(file)
  mkdirSync(file)
  const on = command(host, 'log', 'on')
  expect([on.code, on.stderr]).toEqual([3, expect.stringContaining(`cannot log to ${file}`)])
  expect(JSON.parse(command(host, 'log', '-o', 'json').stdout)).toMatchObject({ log: false })
})

it.each([
  ['log show --file /x', '--file has no meaning with show'],
  ['log off --otlp', '--otlp has no meaning with off'],
  ['record list --keep 5', '--keep has no meaning with list'],
  ['record off --only x', '--only has no meaning with off'],
  ['record on --failures --only x', '--only has no meaning with --failures'],
  ['record on --only=', '--only: name a network or a pod'],
])('%s is refused', (line, why) => {
  const refused = command(host, ...line.split(' '))
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(why)])
})
