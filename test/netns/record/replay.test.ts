// SPDX-License-Identifier: Apache-2.0
// A recorded call again on a private node without other pods: the same answer, and what differs; the host unchanged,
// whatever the record.

import { chmodSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectUntouched } from '../../support/allowance.ts'
import { type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { command } from '../../support/records.ts'
import { ringFiles, stateWord, usualStateDir } from '../../support/state-layout.ts'

const conf = { cniVersion: '1.1.0', name: 'pods', type: 'trestle', bridge: 'br-again', podcidr: '10.94.0.0/24' }

/** A call that fails wherever it is made. */
const refused = { ...conf, mtu: 'x' }

let host: Host
let netns: string
let path: string
beforeEach(() => {
  host = openHost()
  netns = host.pod('a')
  path = mkdtempSync(`${tmpdir()}/trestle-replay-`)
  host.run('ip', ['link', 'add', 'up0', 'mtu', '1400', 'type', 'veth', 'peer', 'name', 'up1'])
  for (const link of ['up0', 'up1']) host.run('ip', ['link', 'set', link, 'up'])
  host.run('ip', ['address', 'add', '192.0.2.2/24', 'dev', 'up0'])
  host.run('ip', ['route', 'add', 'default', 'via', '192.0.2.1'])
})
afterEach(() => {
  host.close()
  rmSync(path, { recursive: true })
})

/** The newest record of a verb. */
const newest = (verb: string) => `${host.stateDir}/${ringFiles(host, 'records', verb).at(-1)}`
const replay = (...words: string[]) => command(host, 'replay', ...words)
const plugin = (name: string, code: number) => {
  writeFileSync(
    `${path}/${name}`,
    `#!/bin/sh\ncat >/dev/null; echo '{"cniVersion":"1.0.0","code":${code},"msg":"no"}'; exit 1\n`,
  )
  chmodSync(`${path}/${name}`, 0o755)
}

it('an ADD has the same answer and the same commands, with the recorded MTU, and the host is unchanged', () => {
  command(host, 'record', 'on')
  expect(host.cni('ADD', conf, { netns }).json?.interfaces.map(({ mtu }) => mtu)).toEqual([1400, 1400, 1400])
  const before = snapshot(host)
  const again = replay(newest('ADD'))
  expect(again.stdout).toContain('both runs are the same')
  expect(again.code).toBe(0)
  const against = replay(newest('ADD'), '--against', trestle, '-o', 'json')
  expect(JSON.parse(against.stdout)).toMatchObject({
    differs: false,
    parts: expect.arrayContaining([{ title: 'commands', lines: [] }]),
  })
  expectUntouched(host, before)
})

it('a failed ADD that was kept fails with the same code and message; a changed executable shows the difference', () => {
  const add = host.cni('ADD', refused, { netns })
  expect(add.code).toBe(1)
  const again = replay(`${host.stateDir}/${ringFiles(host, 'failures', 'ADD')[0]}`, '-o', 'json')
  const { parts } = JSON.parse(again.stdout) as { parts: { title: string; lines: string[] }[] }
  const linesOf = (title: string) => parts.find((part) => part.title === title)?.lines
  expect([linesOf('exit status'), linesOf('error code'), linesOf('error id')]).toEqual([[], [], []])
  plugin('mended', 77)
  const against = replay(`${host.stateDir}/${ringFiles(host, 'failures', 'ADD')[0]}`, '--against', `${path}/mended`)
  expect(against.code).toBe(1)
  expect(against.stdout).toContain(`- ${add.json?.code}\n          + 77`)
})

it('a call of another plugin, that trestle wrapped', () => {
  plugin('other', 77)
  const call = { netns, path }
  expect(host.cni('ADD', { ...conf, record: { wrap: 'other' } }, call).json).toMatchObject({ code: 77 })
  const words = [stateWord(host), `CNI_PATH=${path}`, trestle, 'replay', newest('ADD')]
  expect(host.run('env', words).stdout).toContain('both runs are the same')
  expect(replay(newest('ADD')).stderr).toContain('the plugin "other" is not in /opt/cni/bin')
})

it('a failure that the node or the pod had caused is not reproduced, which is told', () => {
  host.inPod(netns, 'ip', ['link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'other'])
  expect(host.cni('ADD', conf, { netns }).code).toBe(1)
  expect(replay()).toMatchObject({ code: 1, stdout: expect.stringContaining('the failure was not reproduced') })
})

it('what a wrapped plugin makes up anew in each run is the same, and a failure that is gone is told', () => {
  const script = `#!/bin/sh
cat >/dev/null; [ -e ${path}/broken ] && echo '{"code":77,"msg":"no"}' && exit 1
x=$(od -An -N4 -tx1 /dev/urandom | tr -d ' ')
echo '{"cniVersion":"1.0.0","interfaces":[{"name":"veth'$x'","mac":"02:00:'$(echo $x | sed 's/../&:/g;s/:$//')'"}]}'
`
  writeFileSync(`${path}/random`, script, { mode: 0o755 })
  const words = [stateWord(host), `CNI_PATH=${path}`, trestle, 'replay']
  const call = () => host.cni('ADD', { ...conf, record: { wrap: 'random' } }, { netns, path })
  expect(call().code).toBe(0)
  expect(host.run('env', words).stdout).toContain('both runs are the same')
  writeFileSync(`${path}/broken`, '')
  expect(call().code).toBe(1)
  rmSync(`${path}/broken`)
  expect(host.run('env', words).stdout).toContain('the runs differ: the failure was not reproduced')
})

it('nothing of the machine is writable, also below /dev and /sys', () => {
  const script = `#!/bin/sh
cat >/dev/null; for file in /dev /dev/shm /sys/class/net/lo/mtu; do [ ! -w $file ] || found="$found $file"; done
echo "{\\"code\\":77,\\"msg\\":\\"writable:$found\\"}"; exit 1
`
  writeFileSync(`${path}/looks`, script, { mode: 0o755 })
  expect(host.cni('ADD', { ...conf, record: { wrap: 'looks' } }, { netns, path }).code).toBe(1)
  const words = [stateWord(host), `CNI_PATH=${path}`, trestle, 'replay']
  expect(host.run('env', words).stdout).toMatch(/^ *\+ +"msg": "writable:"$/m)
})

it('runs where a mount of the machine is hidden below a later one', () => {
  expect(host.cni('ADD', refused, { netns }).code).toBe(1)
  const top = join(path, 'top')
  host.run('mkdir', ['-p', `${top}/below`])
  host.run('mount', ['-t', 'tmpfs', 'below', `${top}/below`])
  host.run('mount', ['-t', 'tmpfs', 'top', top])
  // The name is there again, and is no mount point.
  host.run('mkdir', [`${top}/below`])
  try {
    const again = replay()
    expect([again.code, again.stderr]).toEqual([0, ''])
  } finally {
    host.run('umount', [top])
    host.run('umount', [`${top}/below`])
  }
})

it('a program below a directory that the replay hides is found', () => {
  expect(host.cni('ADD', refused, { netns }).code).toBe(1)
  for (const directory of [`${usualStateDir}-hidden`, '/var/lib/cni/hidden']) {
    host.run('install', ['-D', trestle, `${directory}/trestle`])
    const again = replay('--against', `${directory}/trestle`)
    expect([again.code, again.stdout], again.stderr).toEqual([0, expect.stringContaining('both runs are the same')])
    rmSync(directory, { recursive: true })
  }
})

it('--conf: another configuration, with what the runtime had added and it declares', () => {
  const runtimeConfig = { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] }
  expect(host.cni('ADD', { ...conf, mtu: 'x', runtimeConfig }, { netns: host.pod('b') }).code).toBe(1)
  const file = `${path}/mended.conflist`
  const mended = (capabilities: Readonly<Record<string, boolean>>) => {
    const plugins = [{ ...conf, mtu: 1300, capabilities }]
    writeFileSync(file, JSON.stringify({ cniVersion: '1.1.0', name: 'pods', plugins }))
    const replayed = replay('--conf', file, '-o', 'json')
    expect(replayed.code).toBe(1)
    expect(replayed.stdout).toMatch(/"exit status"[^\]]*"- 1",\s+"\+ 0"[\s\S]*mtu 1300/)
    return replayed.stdout
  }
  expect(mended({ portMappings: true })).toContain('tcp . 8080')
  expect(mended({ bandwidth: true })).not.toContain('8080')
})

describe('a hostile record runs nothing on the host:', () => {
  const text = () => readFileSync(newest('ADD'), 'utf8')
  it.each<[string, (file: string) => void, string]>([
    ['cut off in a line', (file) => writeFileSync(file, text().slice(0, -20)), 'cut off in line'],
    [
      'cut off after a line',
      (file) =>
        writeFileSync(
          file,
          text()
            .split('\n')
            .slice(0, 3)
            .map((line) => `${line}\n`)
            .join(''),
        ),
      'it has no result',
    ],
    [
      'of a newer format',
      (file) => writeFileSync(file, text().replace('"formatVersion":1', '"formatVersion":2')),
      'update trestle',
    ],
    [
      'of 100 MB',
      (file) => {
        writeFileSync(file, '')
        truncateSync(file, 100_000_000)
      },
      '100000000 bytes',
    ],
    ['empty', (file) => writeFileSync(file, ''), 'no header'],
    ['a directory', (file) => chmodSync(file.replace(/\/[^/]*$/, ''), 0o700), 'cannot read'],
  ])('%s', (_, write, words) => {
    command(host, 'record', 'on')
    host.cni('ADD', conf, { netns })
    host.cni('ADD', conf, { netns })
    const before = snapshot(host)
    const file = `${path}/hostile.jsonl`
    write(file)
    const told = replay(words === 'cannot read' ? path : file)
    expect(told.code).toBe(3)
    expect(told.stderr).toContain(words)
    expectUntouched(host, before)
  })
})
