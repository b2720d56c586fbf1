// SPDX-License-Identifier: Apache-2.0
// `trestle gc`, `trestle restore`: what a person does when a runtime does not.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startedLongAgo } from '../../support/faults/process-identities.ts'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { stateEnv, stateOf } from '../../support/state-layout.ts'

const conf = { cniVersion: '1.1.0', name: 'gcnet', type: 'trestle', podcidr: '10.66.0.0/24' }

describe('the commands that look after state', () => {
  let host: Host
  beforeEach(() => {
    host = openHost()
  })
  afterEach(() => host.close())

  const command = (...words: readonly string[]) => {
    const env = stateEnv(host)
    return execaSync('nsenter', [`--net=${host.path}`, '--', trestle, ...words], { env, reject: false })
  }
  const addPods = (...labels: readonly string[]) =>
    labels.map((label) => {
      const netns = host.pod(label)
      expect(host.cni('ADD', conf, { id: label, netns }).code).toBe(0)
      return netns
    })
  /** Records carry their time, and when their writer began: an attachment becomes old by writing others. */
  const makeOld = (label: string) => {
    const file = stateOf(host, 'gcnet').finished(label)
    const record = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>
    const writer = { ...(record['writer'] as object), startTime: startedLongAgo }
    writeFileSync(file, JSON.stringify({ ...record, writer, createdAt: '2020-01-01T00:00:00.000Z' }))
  }

  it('gc collects an old attachment whose namespace is gone, and only with --apply (plugins#1047: nobody collects garbage)', () => {
    const [dead = '', young = ''] = addPods('dead', 'young', 'live')
    makeOld('dead')
    makeOld('live')
    host.removePod(dead)
    host.removePod(young)
    const told = command('gc', '--no-runtime')
    expect(told.exitCode).toBe(1)
    expect(told.stdout).toContain('1 to collect (--apply does it), 0 to look at, 2 kept')
    const applied = command('gc', '--no-runtime', '--apply')
    expect(applied.exitCode, applied.stdout).toBe(0)
    expect(applied.stdout).toContain('1 collected')
    expect(command('gc', '--no-runtime').stdout).toContain(
      '0 to collect, 0 to look at, 2 kept (1: its network namespace exists; 1: younger than five minutes)',
    )
    const reserved = execaSync('ls', [stateOf(host, 'gcnet').directoryOf('addresses')]).stdout.split('\n')
    expect(reserved).toEqual(['10.66.0.3', '10.66.0.4'])
  })

  it.each(['/run/k0s', '/run/crio', '/run/k3s/containerd'])(
    'gc asks the runtime whose socket is in %s',
    (directory) => {
      const socket = `${directory}/${directory === '/run/crio' ? 'crio' : 'containerd'}.sock`
      mkdirSync(directory, { recursive: true })
      try {
        // The socket of a runtime that was killed: it is there, and nobody answers.
        const listen = `require('net').createServer().listen('${socket}', () => process.kill(process.pid, 'SIGKILL'))`
        execaSync(process.execPath, ['-e', listen], { reject: false })
        expect(command('gc').stdout).toContain(`runtime: ${socket} did not answer`)
      } finally {
        rmSync(directory, { recursive: true })
      }
    },
  )

  it.each(['/var/lib/k0s/run', '/var/snap/microk8s/common/run'])('and in %s', (directory) => {
    const socket = `${directory}/containerd.sock`
    const listen = `require('net').createServer().listen('${socket}', () => process.kill(process.pid, 'SIGKILL'))`
    // On a /var of its own: the machine's is not touched.
    const script = `mount -t tmpfs tmpfs /var; mkdir -p ${directory}; "$1" -e "$2"; exec "$3" gc`
    const words = [`--net=${host.path}`, '--', 'unshare', '--mount', 'sh', '-c', script, 'sh']
    const env = stateEnv(host)
    const { stdout } = execaSync('nsenter', [...words, process.execPath, listen, trestle], { env, reject: false })
    expect(stdout).toContain(`runtime: ${socket} did not answer`)
  })

  it('gc refuses where namespace files look like plain files', () => {
    const [netns = ''] = addPods('pod')
    makeOld('pod')
    const script = `mount -t tmpfs tmpfs /run/netns && touch ${netns} && exec ${trestle} gc --no-runtime --apply`
    const env = stateEnv(host)
    const words = [`--net=${host.path}`, '--', 'unshare', '--mount', '--propagation', 'private', 'sh', '-c', script]
    const seen = execaSync('nsenter', words, { env, reject: false })
    expect(seen.exitCode).toBe(3)
    expect(seen.stderr).toContain('cannot see network namespaces from here')
    expect(host.cni('DEL', conf, { id: 'pod', netns }).code).toBe(0)
  })

  it.each([
    ['', 'in its directory'],
    ['/var', 'whose runtime writes its directory in another way'],
  ])(
    'gc goes on beside a plain file that somebody left of a namespace, and reports it (%s/run: a live one %s)',
    (prefix) => {
      const [dead = '', left = ''] = addPods('dead', 'left')
      expect(host.cni('ADD', conf, { id: 'live', netns: `${prefix}${host.pod('live')}` }).code).toBe(0)
      for (const label of ['dead', 'left', 'live']) makeOld(label)
      host.removePod(dead)
      execaSync('umount', ['-l', left])
      const { exitCode, stdout } = command('gc', '--no-runtime', '--apply')
      expect(exitCode).toBe(1)
      expect(stdout).toContain('report   gcnet  left  eth0: its network namespace cannot be seen from here')
      expect(stdout).toContain('1 collected, 1 to look at, 1 kept')
    },
  )

  it('restore rebuilds bridge, ports and rules after a flush, and then finds nothing to do (podman#348: a flush kills the rules)', () => {
    const pods = addPods('a', 'b', 'c')
    host.run('nft', ['flush', 'ruleset'])
    host.run('ip', ['link', 'del', 'cni0'])
    const dry = command('restore', '--dry-run')
    expect(dry.exitCode).toBe(1)
    expect(dry.stdout).toContain('missing   cni0 is missing')
    const restored = command('restore')
    expect(restored.exitCode, restored.stderr).toBe(0)
    expect(command('restore', '-o', 'json').stdout).toContain('"missing": []')
    for (const [at, netns] of pods.entries()) {
      const other = `10.66.0.${((at + 1) % pods.length) + 2}`
      expect(host.inPod(netns, 'ping', ['-c1', '-w10', other]).code, `${netns} to ${other}`).toBe(0)
    }
    expect(host.run('nft', ['list', 'set', 'inet', 'trestle', 'masq4']).stdout).toContain('10.66.0.0/24')
  })
})
