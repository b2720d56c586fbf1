// SPDX-License-Identifier: Apache-2.0
// What killed calls and dead pods left, settled by one call while another one comes by: no live pod is taken for one
// of them, and what is free soon is waited for.

import { existsSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { holdLock, makePending, until } from '../../support/faults/process-identities.ts'
import { endsOrWaits, isHeld } from '../../support/faults/started.ts'
import { haveStrace, noStrace, startTracedCni } from '../../support/faults/strace.ts'
import { type Host, openHost } from '../../support/host.ts'
import { startCni } from '../../support/locks/parallel.ts'
import { expectSilent } from '../../support/outcome.ts'
import { recordName, stateOf } from '../../support/state-layout.ts'
import { gateAt } from '../../support/tool.ts'
import { attach, interfacesOf, netConf } from '../../support/traffic/pods.ts'

const plain = netConf()
const withPort = (hostPort: number, more: object = {}) =>
  netConf({ runtimeConfig: { portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] }, ...more })

describe('settling beside other calls', () => {
  let host: Host
  let state: ReturnType<typeof stateOf>
  beforeEach(() => {
    host = openHost()
    state = stateOf(host, 'net')
  })
  afterEach(() => host.close())

  it('an ADD that ends between the look at its record and the look at its process is no killed one', async (test) => {
    if (!haveStrace()) return test.skip(noStrace)
    attach(host, plain, { id: 'killed' })
    const netns = host.pod('c1')
    const gate = gateAt('nft')
    try {
      const adding = startCni(host, 'ADD', { conf: plain, id: 'c1', netns, env: gate.env })
      await until('the ADD is held', gate.isReached)
      const { writer } = JSON.parse(readFileSync(state.pending('c1'), 'utf8')) as { writer: { pid: number } }
      makePending(state, 'killed')
      // The first look is for what killed calls have at work, the second for calls that were killed.
      const at = { calls: 'openat', what: 'delay_enter=4000000', when: 2, paths: [`/proc/${writer.pid}/stat`] }
      const settling = startTracedCni(host, { verb: 'ADD', conf: plain, id: 'c2', netns: host.pod('c2') }, at)
      await isHeld(settling)
      gate.open()
      const added = await adding
      expect(added.code, added.stdout).toBe(0)
      expect((await settling).code).toBe(0)
      expect(interfacesOf(host, netns)).toEqual(['eth0'])
      expectSilent(host.cni('CHECK', { ...plain, prevResult: added.json }, { id: 'c1', netns }))
      expect(existsSync(state.pending('killed')), 'the killed one is gone').toBe(false)
    } finally {
      gate.close()
    }
  })

  /** Room for two pods. */
  const full = (more: object = {}) => netConf({ podcidr: '10.240.0.0/29', ipam: two, ...more })
  const two = {
    type: 'trestle',
    ranges: [[{ subnet: '10.240.0.0/29', rangeStart: '10.240.0.2', rangeEnd: '10.240.0.3' }]],
  }
  const fullWithPort = (hostPort: number) => ({ ...withPort(hostPort, { ipam: two }), podcidr: undefined })

  it('of two ADDs that need what dead pods have the second one finds what the first one freed', async () => {
    const conf = { ...full(), podcidr: undefined }
    for (const id of ['d1', 'd2']) host.removePod(attach(host, conf, { id }).netns)
    const releases = ['d1', 'd2'].map((id) => holdLock(state.lockOf(id)))
    const both = ['n1', 'n2'].map((id) => startCni(host, 'ADD', { conf, id, netns: host.pod(id) }))
    await until('both have written their intent', () =>
      ['n1', 'n2'].every((id) => state.names('pending').includes(recordName(id))),
    )
    await Promise.all(both.map(endsOrWaits))
    for (const release of releases) release()
    for (const added of await Promise.all(both)) expect(added.code, added.stdout).toBe(0)
  })

  it('an ADD waits for the dead pods that another one is taking down', async () => {
    const pods = [8081, 8082].map((port, at) => attach(host, fullWithPort(port), { id: `d${at}` }))
    for (const { netns } of pods) host.removePod(netns)
    const gate = gateAt('nft', 'delete element')
    try {
      const conf = fullWithPort(8083)
      const first = startCni(host, 'ADD', { conf, id: 'n1', netns: host.pod('n1'), env: gate.env })
      await until('the first one takes them down', gate.isReached)
      const second = startCni(host, 'ADD', { conf: fullWithPort(8084), id: 'n2', netns: host.pod('n2') })
      await endsOrWaits(second)
      gate.open()
      for (const added of [await first, await second]) expect(added.code, added.stdout).toBe(0)
    } finally {
      gate.close()
    }
  })

  it('a second DEL waits for the first one', async () => {
    const { call } = attach(host, withPort(8080), { id: 'c1' })
    const gate = gateAt('nft', 'delete element')
    try {
      const first = startCni(host, 'DEL', { conf: withPort(8080), ...call, env: gate.env })
      await until('the first one takes it down', gate.isReached)
      const second = startCni(host, 'DEL', { conf: withPort(8080), ...call, netns: '' })
      await endsOrWaits(second)
      gate.open()
      for (const deleted of [await first, await second]) expectSilent(deleted)
    } finally {
      gate.close()
    }
    expect(state.names('addresses')).toEqual([])
  })

  it('an ADD waits for the host port of a dead pod that another one is taking down', async () => {
    attach(host, plain, { id: 'seed' })
    host.removePod(attach(host, withPort(8080), { id: 'dead' }).netns)
    makePending(state, 'dead')
    const gate = gateAt('nft', 'delete element')
    try {
      const first = startCni(host, 'ADD', { conf: plain, id: 'n1', netns: host.pod('n1'), env: gate.env })
      await until('the first one takes it down', gate.isReached)
      const second = startCni(host, 'ADD', { conf: withPort(8080), id: 'n2', netns: host.pod('n2') })
      await endsOrWaits(second)
      gate.open()
      for (const added of [await first, await second]) expect(added.code, added.stdout).toBe(0)
    } finally {
      gate.close()
    }
  })
})
