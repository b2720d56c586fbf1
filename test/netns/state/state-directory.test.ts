// SPDX-License-Identifier: Apache-2.0
// The state directory as a way in: links and directories of others in the place of ours, whatever the umask.
// Nothing outside is read, written or removed.

import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { environment, type Host, openHost, trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { damagedName, isOfFailure, relative, stateEnv, stateFiles } from '../../support/state-layout.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const conf = netConf({ runtimeConfig: { portMappings: [{ hostPort: 18081, containerPort: 80, protocol: 'tcp' }] } })
const net = relative.network('net')
const directories = [
  '',
  relative.networks,
  net.directory,
  relative.ports,
  ...(['pending', 'attachments', 'addresses'] as const).map(net.directoryOf),
]

let host: Host
let pod: Pod
beforeEach(() => {
  host = openHost()
  pod = attach(host, conf, { id: 'c1' })
})
afterEach(() => {
  for (const name of ['.real', '.outside']) host.run('rm', ['-rf', `${host.stateDir}${name}`])
  host.close()
})

const pathOf = (name: string) => (name === '' ? host.stateDir : `${host.stateDir}/${name}`)

/** Every verb must say 5, DEL too: where the state cannot be believed, nothing is torn down by it. */
function expectRefused(what: string): void {
  const fresh = { id: 'c2', netns: host.pod(`c2-${what}`) }
  expectError(host.cni('ADD', conf, fresh), 5, 'state directory')
  expectError(later(host, 'CHECK', { conf, pod }), 5, 'state directory')
  expectError(later(host, 'DEL', { conf, pod }), 5, 'state directory')
  expectError(host.cni('GC', { ...conf, 'cni.dev/valid-attachments': [] }), 5, 'state directory')
  expectError(host.cni('STATUS', conf), 50, 'state directory')
}

describe('a directory of the state', () => {
  it.each(directories)('that is a link is refused, and nothing where it leads is touched: /%s', (name) => {
    const [path, real] = [pathOf(name), `${host.stateDir}.real`]
    renameSync(path, real)
    symlinkSync(real, path)
    const before = listing(real)
    expectRefused('link')
    expectError(later(host, 'DEL', { conf, pod }), 5, 'and is a symbolic link')
    expect(listing(real)).toEqual(before)
    host.run('rm', [path])
    renameSync(real, path)
    expectSilent(later(host, 'DEL', { conf, pod }))
  })

  it.each(directories)('that others may write to, or own, is refused: /%s', (name) => {
    const path = pathOf(name)
    for (const mode of [0o777, 0o770, 0o702]) {
      chmodSync(path, mode)
      expectError(later(host, 'DEL', { conf, pod }), 5, `${path} cannot be used: it has to be a directory of root`)
      expectError(later(host, 'DEL', { conf, pod }), 5, `owned by uid 0 with mode ${mode.toString(8)}`)
    }
    chmodSync(path, 0o700)
    chownSync(path, 65534, 65534)
    expectRefused('owner')
    expectError(host.cni('STATUS', conf), 50, 'owned by uid 65534 with mode 700')
    chownSync(path, 0, 0)
    expectSilent(later(host, 'DEL', { conf, pod }))
  })

  it.each([net.directory, net.directoryOf('addresses'), net.directoryOf('pending')])(
    'in whose place a file is makes no call fail, and what live pods have stays theirs: /%s',
    (name) => {
      const withoutPorts = { ...conf, runtimeConfig: undefined }
      host.run('rm', ['-rf', pathOf(name)])
      writeFileSync(pathOf(name), 'x')
      expectSilent(host.cni('STATUS', withoutPorts))
      const second = attach(host, withoutPorts, { id: 'c2' })
      expect(second.address).toBe('10.240.0.3')
      expect(readdirSync(stateFiles(host).damaged).join()).toContain(damagedName(name))
      expectSilent(later(host, 'DEL', { conf: withoutPorts, pod: second }))
      expectSilent(later(host, 'DEL', { conf, pod }))
    },
  )

  it('in the place of a file of ours is set aside', () => {
    const withoutPorts = { ...conf, runtimeConfig: undefined }
    const last = `${pathOf(net.directory)}/last.10.240.0.0`
    host.run('rm', ['-f', last])
    mkdirSync(last)
    expect(attach(host, withoutPorts, { id: 'c2' }).address).toMatch(/^10\.240\.0\./)
    expect(readdirSync(stateFiles(host).damaged).join()).toContain('last.10.240.0.0')
    expectSilent(host.cni('DEL', withoutPorts, { id: 'c2' }))
  })

  it.each([
    ['a file', 'no directory', (path: string) => writeFileSync(path, '')],
    ['a pipe', 'no directory', (path: string) => void host.run('mkfifo', [path])],
    ['a link that leads nowhere', 'a symbolic link', (path: string) => symlinkSync('/nowhere', path)],
  ])('that is %s is refused, and says so', (_, told, make) => {
    renameSync(host.stateDir, `${host.stateDir}.real`)
    make(host.stateDir)
    expectRefused('other')
    expectError(later(host, 'DEL', { conf, pod }), 5, `and is ${told}`)
  })
})

describe.each(['000', '022', '077'])('with umask %s', (umask) => {
  it('directories are 0700 and files 0600', () => {
    const state = `${host.stateDir}.outside`
    mkdirSync(state)
    const env = stateEnv({ stateDir: `${state}/trestle` })
    const call = (verb: 'ADD' | 'DEL') => {
      const all = environment(verb, { id: 'u', netns: pod.netns, ifName: 'eth1', env })
      const words = Object.entries(all).map(([key, value]) => `${key}=${value}`)
      const other = { ...netConf({ name: 'masked', bridge: 'br-u', podcidr: '10.241.0.0/24' }), ipam: undefined }
      return host.run('env', ['-i', ...words, 'sh', '-c', `umask ${umask}; exec "$0"`, trestle], JSON.stringify(other))
    }
    expect(call('ADD').code).toBe(0)
    const entries = readdirSync(state, { recursive: true }).map((name) => `${state}/${name}`)
    expect(entries.length).toBeGreaterThan(6)
    for (const entry of entries) {
      const stat = lstatSync(entry)
      expect(`${entry} ${(stat.mode & 0o777).toString(8)}`).toBe(`${entry} ${stat.isDirectory() ? '700' : '600'}`)
    }
    expectSilent(call('DEL'))
  })
})

describe('CNI_NETNS', () => {
  /** A socket stays when the process that made it is gone. */
  const socketAt = 'socat "UNIX-LISTEN:$1,unlink-close=0" - & until [ -S "$1" ]; do sleep 0.02; done; kill $!; wait $!'

  /** What each is that a path may name, made below the state directory of the test. */
  const places: Readonly<Record<string, (path: string) => void>> = {
    'a file': (path) => writeFileSync(path, ''),
    'a directory': (path) => mkdirSync(path),
    'a pipe nobody writes to': (path) => void host.run('mkfifo', [path]),
    'a socket': (path) => void host.run('timeout', ['30', 'sh', '-c', socketAt, 'sh', path]),
    '/dev/zero': (path) => symlinkSync('/dev/zero', path),
    '/dev/null': (path) => symlinkSync('/dev/null', path),
    'the controlling terminal': (path) => symlinkSync('/dev/tty', path),
    'a link to itself': (path) => symlinkSync(path, path),
    "a link to the node's namespace": (path) => symlinkSync('/proc/self/ns/net', path),
    'a mount namespace': (path) => symlinkSync('/proc/self/ns/mnt', path),
    'a process': (path) => symlinkSync('/proc/self', path),
  }
  it.each(Object.keys(places))('that is %s is refused before anything is touched, and nothing waits', (name) => {
    const path = `${host.stateDir}.outside`
    places[name]?.(path)
    expect(lstatSync(path)).toBeDefined()
    const before = listing(host.stateDir)
    expectError(host.cni('ADD', conf, { id: 'c3', netns: path }), 4, 'CNI_NETNS')
    expectError(host.cni('CHECK', { ...conf, prevResult: pod.result }, { id: 'c1', netns: path }), 4, 'CNI_NETNS')
    expectSilent(host.cni('DEL', conf, { id: 'c3', netns: path }))
    expect(listing(host.stateDir)).toEqual(before)
  })

  it('that is a device is not opened', () => {
    const log = `${host.stateDir}.outside`
    const env = environment('ADD', { id: 'c3', netns: '/dev/zero', env: stateEnv(host) })
    const words = Object.entries(env).map(([key, value]) => `${key}=${value}`)
    const strace = ['strace', '-f', '-qq', '-e', 'trace=openat', '-o', log, trestle]
    expectError(host.run('env', ['-i', ...words, ...strace], JSON.stringify(conf)), 4, 'CNI_NETNS')
    const opened = host.run('grep', ['/dev/zero', log]).stdout
    expect(opened).toContain('O_PATH')
    expect(opened.split('\n').filter((line) => line !== '' && !line.includes('O_PATH'))).toEqual([])
  })
})

/** All but the calls that failed, which are kept. */
function listing(directory: string): readonly string[] {
  const all = readdirSync(directory, { recursive: true }).map(String).sort()
  const names = all.filter((name) => !isOfFailure(name))
  return names.map((name) => `${name} ${lstatSync(`${directory}/${name}`).mode} ${statSync(directory).ino}`)
}
