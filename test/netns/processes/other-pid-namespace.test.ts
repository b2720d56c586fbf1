// SPDX-License-Identifier: Apache-2.0
// Calls from several pid namespaces on one state directory, as from a containerised runtime or agent:
// a call that was killed there holds up nothing for ever, and no live pod is taken for a dead one.

import { spawn } from 'node:child_process'
import { readlinkSync, statSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type HostWithState, openHostWithState } from '../../support/damage/host-with-state.ts'
import { holdLock, makeOld, makePending, rewrite, unseenStamp, until } from '../../support/faults/process-identities.ts'
import { type Call, environment, type Finished, trestle, type Verb } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { recordName, stateEnv, stateFiles } from '../../support/state-layout.ts'
import { addressesOf, attach, interfacesOf, ipamConf, netConf } from '../../support/traffic/pods.ts'

const plain = netConf()
const withPort = netConf({ runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] } })
/** One address for pods. */
const single = ipamConf({ type: 'host-local', subnet: '10.9.0.0/30' })
const anHourAgo = () => new Date(Date.now() - 3_600_000).toISOString()

describe('a call from another pid namespace', () => {
  let host: HostWithState
  beforeEach(() => {
    host = openHostWithState()
  })
  afterEach(() => host.close())

  it('that was killed an hour ago leaves locks that hold up no call, and go', () => {
    for (const each of [stateFiles(host).lock, host.state.lockOf('c1')]) {
      holdLock(each, unseenStamp())
      makeOld(each)
    }
    const begun = performance.now()
    const pod = attach(host, withPort)
    expectSilent(host.cni('DEL', withPort, pod.call))
    expect(performance.now() - begun, 'one wait for a lock would be 10 s').toBeLessThan(9000)
    expectNothingLeft(host, host.before)
  })

  it('that was killed an hour ago leaves an attachment that DEL takes down', () => {
    const pod = attach(host, withPort)
    makePending(host.state, 'c1', unseenStamp())
    rewrite(host.state.pending('c1'), (record) => ({ ...record, createdAt: anHourAgo() }))
    makeOld(host.state.pending('c1'))
    expectSilent(host.cni('DEL', withPort, pod.call))
    expectNothingLeft(host, host.before)
  })

  it('that was killed an hour ago leaves an attachment that the next ADD of another pod settles', () => {
    attach(host, withPort)
    makePending(host.state, 'c1', unseenStamp())
    rewrite(host.state.pending('c1'), (record) => ({ ...record, createdAt: anHourAgo() }))
    makeOld(host.state.pending('c1'))
    const other = attach(host, withPort, { id: 'c2' })
    expectSilent(host.cni('DEL', withPort, other.call))
    expectNothingLeft(host, host.before)
  })

  it('that began just now is left to finish', () => {
    const pod = attach(host, plain)
    makePending(host.state, 'c1', unseenStamp())
    expectError(host.cni('DEL', plain, pod.call), 11)
    attach(host, plain, { id: 'c2' })
    expect(interfacesOf(host, pod.netns)).toEqual(['eth0'])
    expect(host.state.names('pending')).toEqual([recordName('c1')])
  })

  it('takes nothing from a live pod whose namespace is the path of a process it cannot see', async () => {
    const sandbox = host.pod('c1')
    const sleeper = spawn('nsenter', [`--net=${sandbox}`, 'sleep', '60'], { stdio: 'ignore' })
    try {
      const isIn = () => readlinkSync(`/proc/${sleeper.pid}/ns/net`) === `net:[${statSync(sandbox).ino}]`
      await until('a process in the sandbox', isIn)
      const pod = attach(host, single, { netns: `/proc/${sleeper.pid}/ns/net` })
      const had = addressesOf(host, sandbox)
      const second = elsewhere(host, 'ADD', single, { id: 'c2', netns: host.pod('c2') })
      expectError(second, 101)
      expect(interfacesOf(host, sandbox)).toEqual(['eth0'])
      expect(addressesOf(host, sandbox)).toEqual(had)
      expectSilent(host.cni('CHECK', { ...single, prevResult: pod.result }, pod.call))
    } finally {
      sleeper.kill('SIGKILL')
    }
  })

  it('takes nothing from a live pod whose path is another process there', () => {
    const pod = attach(host, single)
    rewrite(host.state.finished('c1'), (record) => ({
      ...record,
      writer: unseenStamp(),
      netns: {
        ...(record['netns'] as object),
        path: `/proc/${process.pid}/ns/net`,
        pidNamespace: unseenStamp().pidNamespace,
      },
    }))
    expectError(host.cni('ADD', single, { id: 'c2', netns: host.pod('c2') }), 101)
    expect(interfacesOf(host, pod.netns)).toEqual(['eth0'])
  })
})

/** A call as `host.cni` makes it, in a pid namespace of its own with its own /proc. */
function elsewhere(...[host, verb, conf, call]: readonly [HostWithState, Verb, object, Call]): Finished {
  const env = environment(verb, { ...call, env: stateEnv(host) })
  const words = Object.entries(env).map(([key, value]) => `${key}=${value}`)
  const isolated = ['--pid', '--fork', '--kill-child', '--mount-proc', 'env', '-i', ...words, trestle]
  return host.run('unshare', isolated, JSON.stringify(conf))
}
