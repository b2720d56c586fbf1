// SPDX-License-Identifier: Apache-2.0
// SIGTERM for a call that waits for a lock of others: it ends soon, with its document, and nothing is lost: what it
// leaves is written down, and a later call does it. Without a signal it ends by its deadline.

import type { ChildProcess } from 'node:child_process'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { holdLock, makePending } from '../../support/faults/process-identities.ts'
import { endsOrWaits, startCall } from '../../support/faults/started.ts'
import { type Finished, type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { recordName, stateFiles, stateOf } from '../../support/state-layout.ts'
import { attach, interfacesOf, netConf } from '../../support/traffic/pods.ts'

/** The wait for a lock is 10 s at most; what is told to end is to be gone long before. */
const soonMs = 8000

let host: Host
let before: ReturnType<typeof snapshot>
let children: ChildProcess[]
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
  children = []
})
afterEach(() => {
  for (const child of children) child.kill('SIGKILL')
  host.close()
})

describe('a call that waits for a lock of others', () => {
  const conf = netConf()
  let state: ReturnType<typeof stateOf>
  let free: () => void
  beforeEach(() => {
    state = stateOf(host, 'net')
    free = () => undefined
  })
  afterEach(() => free())

  const hold = (file: string): void => {
    free = holdLock(file)
  }

  /** Starts a call, and ends it when it waits for the lock. */
  async function told(verb: 'ADD' | 'DEL', call: { conf: unknown; id: string; netns: string }): Promise<Finished> {
    const env = { CNI_COMMAND: verb, CNI_CONTAINERID: call.id, CNI_NETNS: call.netns }
    const { child, ended } = startCall(host, call.conf, env)
    children.push(child)
    await endsOrWaits(Object.assign(ended, { pid: child.pid ?? 0 }))
    expect(child.exitCode, 'it waits').toBe(null)
    const since = performance.now()
    child.kill('SIGTERM')
    const finished = await ended
    expect(performance.now() - since).toBeLessThan(soonMs)
    return finished
  }

  it('ends an ADD that would settle what a killed call left: it reserves nothing, and a later ADD settles', async () => {
    const killed = attach(host, conf, { id: 'killed' })
    makePending(state, 'killed')
    hold(state.lockOf('killed'))
    const finished = await told('ADD', { conf, id: 'c1', netns: host.pod('a') })
    expectError(finished, 106, 'interrupted by a signal')
    expect([state.names('pending'), state.names('attachments')]).toEqual([[recordName('killed')], []])
    free()
    const later = attach(host, conf, { id: 'later' })
    expect(interfacesOf(host, killed.netns)).toEqual([])
    expectSilent(host.cni('DEL', conf, later.call))
    expectNothingLeft(host, before)
  })

  it("ends an ADD that would take down its name's dead attachment, whose record stays", async () => {
    const dead = attach(host, conf, { id: 'c1' })
    host.removePod(dead.netns)
    hold(state.lockOf('c1'))
    const netns = host.pod('again')
    expectError(await told('ADD', { conf, id: 'c1', netns }), 106, recordName('c1'))
    expect([state.names('pending'), state.names('attachments')]).toEqual([[], [recordName('c1')]])
    free()
    expectSilent(host.cni('DEL', conf, attach(host, conf, { id: 'c1', netns }).call))
    expectNothingLeft(host, before)
  })

  it('ends an ADD that cannot take its host port back at once: a later call does', async () => {
    const served = netConf({ runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80 }] } })
    hold(stateFiles(host).lock)
    const finished = await told('ADD', { conf: served, id: 'c1', netns: host.pod('a') })
    expectError(finished, 106, 'while waiting for')
    free()
    const next = attach(host, served, { id: 'next' })
    expect(state.names('pending')).toEqual([])
    expectSilent(host.cni('DEL', served, next.call))
    expectNothingLeft(host, before)
  })

  it('lets a DEL finish its own work without what a killed call left', async () => {
    const [mine] = [attach(host, conf, { id: 'c1' }), attach(host, conf, { id: 'killed' })]
    makePending(state, 'killed')
    hold(state.lockOf('killed'))
    const finished = await told('DEL', { conf, id: 'c1', netns: mine.netns })
    expectSilent(finished)
    expect(finished.stderr).toContain('pending cleanup: interrupted by a signal')
    expect(interfacesOf(host, mine.netns)).toEqual([])
    expect([state.names('pending'), state.names('attachments')]).toEqual([[recordName('killed')], []])
    free()
    expectSilent(host.cni('DEL', conf, mine.call))
    expectNothingLeft(host, before)
  })

  it('ends a DEL of what another call is taking down, and the next DEL does it', async () => {
    const pod = attach(host, conf, { id: 'c1' })
    hold(state.lockOf('c1'))
    expectError(await told('DEL', { conf, id: 'c1', netns: pod.netns }), 106, recordName('c1'))
    expect(state.names('attachments')).toEqual([recordName('c1')])
    free()
    expectSilent(host.cni('DEL', conf, pod.call))
    expectNothingLeft(host, before)
  })

  it('ends an ADD that finds several locks held by its deadline, naming the last holder', async () => {
    attach(host, conf, { id: 'killed' })
    makePending(state, 'killed')
    const locks = [holdLock(state.lockOf('killed')), holdLock(stateFiles(host).lock)]
    free = () => {
      for (const each of locks) each()
    }
    const from = performance.now()
    const added = host.cni('ADD', conf, { id: 'next', netns: host.pod('next') })
    // The deadline of a whole call, and what a loaded machine takes beside.
    expect(performance.now() - from).toBeLessThan(20_000 + 5_000)
    expectError(added, 11, `is held by process ${process.pid} (hold it for a test)`)
    free()
    attach(host, conf, { id: 'later' })
    expect(state.names('pending')).toEqual([])
  })
})
