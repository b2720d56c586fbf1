// SPDX-License-Identifier: Apache-2.0
// The commands that show what is kept of calls: last, explain, record list, show and clear.

import { chmodSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'
import { command, linesOf } from '../../support/records.ts'
import { ringFiles } from '../../support/state-layout.ts'

const conf = { cniVersion: '1.1.0', name: 'pods', type: 'trestle', bridge: 'br-shown', podcidr: '10.94.0.0/24' }
const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web'

let host: Host
let netns: string
beforeEach(() => {
  host = openHost()
  netns = host.pod('a')
})
afterEach(() => host.close())

const record = (...words: string[]) => command(host, 'record', ...words)

/** An ADD that a link in the pod's place refuses, after tools have run. */
function failedAdd() {
  host.inPod(netns, 'ip', ['link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'other'])
  return host.cni('ADD', conf, { id: 'a', netns, args })
}

it('say so when nothing is kept', () => {
  const last = command(host, 'last')
  expect([last.code, last.stdout]).toEqual([0, 'no failed call is kept\n'])
})

it('last and explain show a failed ADD with cause and cure', () => {
  const add = failedAdd()
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
    diagnoses: [{ cure: expect.any(String) }],
  })
})

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

it('record list, show and clear know each call', () => {
  record('on')
  const add = host.cni('ADD', conf, { netns, args })
  host.cni('DEL', conf, { netns, args })
  const list = record('list').stdout
  expect(list).toMatch(/ADD +shop\/web +pods +succeeded: [\d.]+ ms/)
  expect(list).toContain('recording is on; failed calls are kept')
  const [id = ''] = /^\S+(?= .* ADD )/m.exec(list) ?? []
  host.cni('ADD', { ...conf, mtu: 'x' }, { netns, args })
  const of = { pod: 'shop/web', network: 'pods', time: expect.stringMatching(/^\d{4}-.*Z$/), ms: expect.any(Number) }
  expect(JSON.parse(record('list', '-o', 'json').stdout).records).toMatchObject([
    { verb: 'ADD', ...of, outcome: 'failed', errorId: 'wrong-type' },
    { verb: 'DEL', ...of, outcome: 'succeeded' },
    { verb: 'ADD', ...of, outcome: 'succeeded' },
  ])
  const shown = record('show', id).stdout
  for (const words of ['CNI_COMMAND=ADD', JSON.stringify(conf), add.stdout.trim(), 'nft', `file: ${host.stateDir}`])
    expect(shown).toContain(words)
  expect(JSON.parse(record('show', id, '-o', 'json').stdout).record).toHaveLength(
    linesOf(host, ringFiles(host, 'records', 'ADD')[0] ?? '').length,
  )
  expect(record('show', '19990101').stderr).toContain('[record-missing]')
  expect(record('clear').stdout).toMatch(/^\d records removed\n$/)
  expect(ringFiles(host, 'records')).toEqual([])
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
