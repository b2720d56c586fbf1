// SPDX-License-Identifier: Apache-2.0
// A recorded call again on a private node: the same answer, and what differs; the host unchanged, whatever the record.

import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectUntouched } from '../../support/allowance.ts'
import { type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { command } from '../../support/records.ts'
import { relative, ringFiles, stateWord, usualStateDir } from '../../support/state-layout.ts'

const conf = { cniVersion: '1.1.0', name: 'pods', type: 'trestle', bridge: 'br-again', podcidr: '10.94.0.0/24' }

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
    parts: expect.arrayContaining([{ title: 'rules of the node', lines: [] }]),
  })
  expectUntouched(host, before)
})

it('a failed ADD that was kept fails with the same code and message; a changed executable shows the difference', () => {
  host.inPod(netns, 'ip', ['link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'other'])
  const add = host.cni('ADD', conf, { netns })
  expect(add.code).toBe(1)
  const again = replay(`${host.stateDir}/${ringFiles(host, 'failures', 'ADD')[0]}`, '-o', 'json')
  const { parts } = JSON.parse(again.stdout) as { parts: { title: string; lines: string[] }[] }
  const linesOf = (title: string) => parts.find((part) => part.title === title)?.lines
  expect([linesOf('exit status'), linesOf('error code'), linesOf('error id')]).toEqual([[], [], []])
  plugin('mended', 7)
  const against = replay(`${host.stateDir}/${ringFiles(host, 'failures', 'ADD')[0]}`, '--against', `${path}/mended`)
  expect(against.code).toBe(1)
  expect(against.stdout).toContain(`- ${add.json?.code}\n          + 7`)
})

it('a call of another plugin, that trestle wrapped', () => {
  plugin('other', 77)
  const call = { netns, path }
  expect(host.cni('ADD', { ...conf, record: { wrap: 'other' } }, call).json).toMatchObject({ code: 77 })
  const words = [stateWord(host), `CNI_PATH=${path}`, trestle, 'replay', newest('ADD')]
  expect(host.run('env', words).stdout).toContain('both runs are the same')
  expect(replay(newest('ADD')).stderr).toContain('the plugin "other" is not in /opt/cni/bin')
})

it('what a wrapped plugin left in the pod when it failed was not there before', () => {
  const script =
    '#!/bin/sh\ncat >/dev/null; nsenter --net=$CNI_NETNS ip link add $CNI_IFNAME type veth peer name x && echo "{}"; exit 1\n'
  writeFileSync(`${path}/leaves`, script, { mode: 0o755 })
  expect(host.cni('ADD', { ...conf, record: { wrap: 'leaves' } }, { netns, path })).toMatchObject({
    code: 1,
    stdout: '{}\n',
  })
  const words = [stateWord(host), `CNI_PATH=${path}`, trestle, 'replay']
  expect(host.run('env', words).stdout).toContain('both runs are the same')
})

it('a failed ADD fails again: a bridge that is down, a namespace that is not there, a host port of another network', () => {
  const again = () => expect(replay().stdout, replay().stderr).toMatch(/ok +exit status[\s\S]*both runs are the same/)
  host.run('ip', ['link', 'add', 'br-again', 'type', 'bridge'])
  host.run('ip', ['address', 'add', '10.99.0.1/24', 'dev', 'br-again'])
  expect(host.cni('ADD', conf, { netns }).code).toBe(1)
  const [file = ''] = ringFiles(host, 'failures', 'ADD')
  expect(readFileSync(`${host.stateDir}/${file}`, 'utf8')).toContain('"isDown":true,"addresses":["10.99.0.1/24"]')
  again()
  host.run('ip', ['link', 'delete', 'br-again'])
  expect(host.cni('ADD', conf, { netns: '/run/netns/none' }).code).toBe(1)
  again()
  const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }]
  const other = {
    ...conf,
    name: 'others',
    bridge: 'br-other',
    podcidr: '10.95.0.0/24',
    runtimeConfig: { portMappings },
  }
  expect(host.cni('ADD', other, { id: 'other', netns: host.pod('b') }).code).toBe(0)
  expect(host.cni('ADD', { ...conf, runtimeConfig: { portMappings } }, { netns }).json).toMatchObject({ code: 104 })
  // The other network's rules are not there, and details name the state directory.
  expect(replay().stdout).toMatch(/ok +exit status\s+ok +error code\s+ok +error id/)
}, 120_000)

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

it('--plan runs nothing, and compares with what this build would run, on the uplink and with the address recorded', () => {
  command(host, 'record', 'on')
  host.cni('ADD', conf, { netns })
  host.cni('ADD', conf, { id: 'second', netns: host.pod('b') })
  for (const file of ringFiles(host, 'records', 'ADD'))
    expect(replay(`${host.stateDir}/${file}`, '--plan').stdout).toContain('both runs are the same')
  host.cni('ADD', conf, { netns })
  const refused = replay(newest('ADD'), '--plan')
  expect([refused.code, refused.stderr]).toEqual([3, expect.stringContaining('only an ADD of trestle itself')])
})

it('the live pods of the node are live again: a full range, a DEL beside another pod, and a CHECK', () => {
  const small = { ...conf, podcidr: '10.94.0.0/29', removeWhenEmpty: true }
  const ports = (hostPort: number) => ({
    ...small,
    runtimeConfig: { portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] },
  })
  command(host, 'record', 'on')
  const pods = ['a', 'b', 'c', 'd', 'e', 'f'].map((id) => ({ id, netns: id === 'a' ? netns : host.pod(id) }))
  const added = pods.map((pod, at) => host.cni('ADD', ports(8081 + at), pod))
  expect(added.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0, 1])
  const [first = {}, second = {}] = pods
  host.cni('CHECK', { ...ports(8082), prevResult: added[1]?.json }, second)
  host.cni('DEL', small, first)
  const before = snapshot(host)
  for (const file of ['ADD', 'CHECK', 'DEL'].map(newest)) {
    const { stdout, stderr } = replay(file)
    // Details of the error name the state directory.
    expect(stdout + stderr, file).toMatch(/ok +exit status[\s\S]*ok +error id[\s\S]*ok +commands/)
  }
  expectUntouched(host, before)
  // A pod that was gone when the call was made stays gone: its address was free.
  for (const pod of pods.slice(1)) host.removePod(pod.netns)
  expect(host.cni('ADD', small, { id: 'late', netns }).code).toBe(0)
  expect(host.cni('ADD', small, { id: 'later', netns: host.pod('later') }).code).toBe(0)
  expect(replay(newest('ADD')).stdout).toContain('ok    exit status')
})

it('nothing of the machine is writable, also below /dev and /sys', () => {
  host.run('mount', ['-t', 'tmpfs', 'tmpfs', '/dev/shm'])
  try {
    host.inPod(netns, 'ip', ['link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'other'])
    expect(host.cni('ADD', { ...conf, log: '/dev/shm/own.jsonl' }, { netns }).code).toBe(1)
    expect(readdirSync('/dev/shm')).toEqual(['own.jsonl'])
    rmSync('/dev/shm/own.jsonl')
    expect(replay().stdout).toContain('ok    exit status')
    expect(readdirSync('/dev/shm')).toEqual([])
  } finally {
    host.run('umount', ['/dev/shm'])
  }
  const script = `#!/bin/sh
cat >/dev/null; for file in /dev /dev/shm /sys/class/net/lo/mtu; do [ ! -w $file ] || found="$found $file"; done
echo "{\\"code\\":77,\\"msg\\":\\"writable:$found\\"}"; exit 1
`
  writeFileSync(`${path}/looks`, script, { mode: 0o755 })
  expect(host.cni('ADD', { ...conf, record: { wrap: 'looks' } }, { netns, path }).code).toBe(1)
  const words = [stateWord(host), `CNI_PATH=${path}`, trestle, 'replay']
  expect(host.run('env', words).stdout).toMatch(/^ *\+ +"msg": "writable:"$/m)
})

it('a program below a directory that the replay hides is found', () => {
  host.inPod(netns, 'ip', ['link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'other'])
  expect(host.cni('ADD', conf, { netns }).code).toBe(1)
  for (const directory of [`${usualStateDir}-hidden`, '/var/lib/cni/hidden']) {
    host.run('install', ['-D', trestle, `${directory}/trestle`])
    const again = replay('--against', `${directory}/trestle`)
    expect([again.code, again.stdout], again.stderr).toEqual([0, expect.stringContaining('both runs are the same')])
    rmSync(directory, { recursive: true })
  }
})

it('--conf: another configuration, with what the runtime had added and it declares', () => {
  host.inPod(netns, 'ip', ['link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'other'])
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
  const pods = relative.network('pods')
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
      (file) => writeFileSync(file, text().replace('"version":1', '"version":2')),
      'update trestle',
    ],
    [
      'with a path that leaves its folder',
      (file) => writeFileSync(file, text().replace(pods.shared, `${pods.directory}/../../../../etc/x`)),
      'is no state of a network',
    ],
    [
      'with an absolute path',
      (file) => writeFileSync(file, text().replace(pods.shared, '/etc/x')),
      'is no state of a network',
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
    [
      'with a link that is an option',
      (file) => writeFileSync(file, text().replace('"name":"up0"', '"name":"--help"')),
      'no name of a link',
    ],
  ])('%s', (_, write, words) => {
    command(host, 'record', 'on')
    host.cni('ADD', conf, { netns })
    host.cni('ADD', conf, { netns })
    const before = snapshot(host)
    const file = `${path}/hostile.jsonl`
    write(file)
    const refused = replay(words === 'cannot read' ? path : file)
    expect(refused.code).toBe(3)
    expect(refused.stderr).toContain(words)
    expectUntouched(host, before)
  })
})
