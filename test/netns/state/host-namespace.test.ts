// SPDX-License-Identifier: Apache-2.0
// One state directory, two host network namespaces: a runtime that was started in the wrong one, a debug container with
// the host's /run. What an ADD in one has made is nobody's to forget in the other, where none of it can be removed.

import { rmSync } from 'node:fs'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type HostWithState, openHostWithState } from '../../support/damage/host-with-state.ts'
import { makePending, rewrite, until } from '../../support/faults/process-identities.ts'
import { type Call, type Host, openHost, snapshot, trestle, type Verb } from '../../support/host.ts'
import { answer, installIpam } from '../../support/ipam-plugin.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { recordName, stateEnv, stateWord } from '../../support/state-layout.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const otherHost = 111
const conf = netConf({
  podcidr: '10.240.0.0/29',
  runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80 }] },
})

let host: HostWithState
let other: Host
let pod: Pod
let sleeping: ReturnType<typeof startOn>
let made: ReturnType<typeof snapshot>
beforeEach(async () => {
  host = openHostWithState()
  other = openHost()
  // A host has processes; a network namespace without one is over.
  sleeping = startOn(host)
  await until('a process on the host', () =>
    host.run('ip', ['netns', 'pids', host.name]).stdout.includes(`${sleeping.pid}`),
  )
  pod = attach(host, conf)
  made = snapshot(host)
})
afterEach(async () => {
  await end()
  other.close()
  host.close()
})

const startOn = ({ path }: Host) => execa('nsenter', [`--net=${path}`, '--', 'sleep', '600'], { reject: false })
const end = async () => {
  sleeping.kill('SIGKILL')
  await sleeping
}
const env = () => stateEnv(host)
const fromOther = (verb: Verb, sent: object, call: Call = {}) => other.cni(verb, sent, { ...call, env: env() })
const command = (...words: readonly string[]) => other.run('env', [stateWord(host), trestle, ...words])

describe('a call from another host network namespace than the ADD', () => {
  it.each([
    ['DEL', {}],
    ['CHECK', {}],
    ['ADD', { prevResult: undefined }],
    ['GC', { 'cni.dev/valid-attachments': [] }],
  ] as const)('%s changes nothing of the attachment and says so', (verb, more) => {
    const refused = fromOther(verb, { ...conf, prevResult: pod.result, ...more }, pod.call)
    expectError(refused, otherHost, /eth0 of container c1 is of another host network namespace/)
    expect(refused.stdout).toContain('nsenter --net=/proc/')
    expect(snapshot(host)).toEqual(made)
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('DEL without a namespace, DEL of a reservation without its record, and ADD with the host port', () => {
    expectError(fromOther('DEL', conf, { ...pod.call, netns: '' }), otherHost)
    expectError(fromOther('ADD', conf, { id: 'c2', netns: other.pod('c2') }), 104, 'container c1')
    rmSync(host.state.finished('c1'))
    const lost = snapshot(host)
    expectError(fromOther('DEL', conf, { ...pod.call, netns: '' }), otherHost)
    expect({ ...snapshot(host), state: '' }).toEqual({ ...lost, state: '' })
    expect(host.state.names('addresses')).toEqual([pod.address])
  })

  it('ADD settles no killed call of the other, and takes no address from its dead pods', () => {
    const full = netConf({ podcidr: '10.240.0.0/29' })
    for (const id of ['c2', 'c3', 'c4', 'c5']) host.removePod(attach(host, full, { id }).netns)
    makePending(host.state, 'c1')
    expectError(fromOther('ADD', full, { id: 'c9', netns: other.pod('c9') }), 101, '5 of 5')
    expect(host.state.names('pending')).toEqual([recordName('c1')])
    expect(host.state.names('attachments')).toHaveLength(4)
    expect(host.state.names('addresses')).toHaveLength(5)
    // From its own namespace the next ADD does it.
    attach(host, full, { id: 'c9' })
    expect(host.state.names('pending')).toEqual([])
    expect(host.run('ip', ['link', 'show', pod.hostLink]).code).not.toBe(0)
  })

  it('GC gives none of its leases back', () => {
    const plugin = installIpam({ ADD: answer() })
    try {
      const leasing = netConf({ name: 'leasing', podcidr: undefined, ipam: { type: 'scripted' }, bridge: 'br-leasing' })
      attach(host, leasing, { id: 'c2', path: plugin.path })
      const collecting = { ...leasing, 'cni.dev/valid-attachments': [] }
      expectError(fromOther('GC', collecting, { path: plugin.path }), otherHost)
      expect(plugin.calls()).toEqual(['ADD'])
    } finally {
      plugin.remove()
    }
  })

  it('gc and restore say it and change nothing', async () => {
    host.removePod(pod.netns)
    // The kernel takes a namespace's links away some time after its name.
    await until('the pod’s host link to go', () => !host.run('ip', ['link']).stdout.includes('@'))
    const gone = snapshot(host)
    const swept = command('gc', '--no-runtime', '--apply')
    expect([swept.code, swept.stdout]).toEqual([
      1,
      expect.stringMatching(/report .*c1 .*of another host network namespace/),
    ])
    const restored = command('restore', '-o', 'json')
    expect([restored.code, JSON.parse(restored.stdout)]).toEqual([
      3,
      expect.objectContaining({ error: expect.objectContaining({ code: otherHost }) }),
    ])
    expect(other.run('nft', ['list', 'ruleset']).stdout).toBe('')
    expect(snapshot(host)).toEqual(gone)
  })

  it('from a pid namespace where the other host cannot be seen it is refused, too', () => {
    const call = { ...conf, prevResult: pod.result }
    const words = ['--pid', '--fork', '--mount-proc', 'env', stateWord(host), 'CNI_COMMAND=DEL']
    const ids = ['CNI_CONTAINERID=c1', 'CNI_IFNAME=eth0', `CNI_NETNS=${pod.netns}`, 'CNI_PATH=/opt/cni/bin']
    expectError(
      other.run('unshare', [...words, ...ids, trestle], JSON.stringify(call)),
      otherHost,
      'run it on the host',
    )
    expect(snapshot(host)).toEqual(made)
  })
})

it('a host network namespace that no process is in any more is over, as after a restart', async () => {
  await end()
  host.removePod(pod.netns)
  expectSilent(fromOther('DEL', conf, { ...pod.call, netns: '' }))
  expect(host.state.names('attachments')).toEqual([])
  expect(host.state.names('addresses')).toEqual([])
})

it('a record that says no network namespace is ours', () => {
  const without = ({ writer, ...record }: Record<string, unknown>) => {
    const { netNamespace: _, ...rest } = writer as Record<string, unknown>
    return { ...record, writer: rest }
  }
  rewrite(host.state.finished('c1'), without)
  rewrite(host.state.address(pod.address), without)
  expectSilent(later(host, 'CHECK', { conf, pod }))
  expectSilent(fromOther('DEL', conf, pod.call))
  expect(host.state.names('attachments')).toEqual([])
  expectNothingLeft(other, snapshot(other))
})
