// SPDX-License-Identifier: Apache-2.0
// A clock that is set by a year, in either direction, seen from later: everything in state was then written a year ago,
// or will be in a year. What counts is how long ago by the time since boot.

import { lutimesSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { holdLock, livingStamp, rewrite, startedLongAgo, unseenStamp } from '../../support/faults/process-identities.ts'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { recordName, stateOf, stateWord } from '../../support/state-layout.ts'
import { attach, later, netConf } from '../../support/traffic/pods.ts'

const yearS = 365 * 24 * 3600
const clocks = [
  ['forward', -yearS],
  ['back', yearS],
] as const

describe.each(clocks)('a clock that was set %s by a year', (_, shiftS) => {
  let host: Host
  let state: ReturnType<typeof stateOf>
  beforeEach(() => {
    host = openHost()
    state = stateOf(host, 'net')
  })
  afterEach(() => host.close())

  const shifted = () => Date.now() / 1000 + shiftS
  const shiftFile = (file: string): void => lutimesSync(file, shifted(), shifted())
  /** A record whose writer started `startTime` ticks after boot, by the clock as it was. */
  const shiftRecord = (file: string, startTime: string): void => {
    const createdAt = new Date(shifted() * 1000).toISOString()
    rewrite(file, (record) => ({ ...record, createdAt, writer: { ...(record['writer'] as object), startTime } }))
    shiftFile(file)
  }
  const gc = (): string => host.run('env', [stateWord(host), trestle, 'gc', '--no-runtime', '--apply']).stdout

  it('makes no young attachment old, and no old one young', () => {
    const [young, old] = ['c1', 'c2'].map((id) => attach(host, netConf(), { id }))
    shiftRecord(state.finished('c1'), livingStamp().startTime)
    shiftRecord(state.finished('c2'), startedLongAgo)
    for (const pod of [young, old]) if (pod) host.removePod(pod.netns)
    expect(gc()).toContain('1 collected, 0 to look at, 1 kept')
    expect(state.names('attachments')).toEqual([recordName('c1')])
  })

  it('leaves a live pod all it has', () => {
    const pod = attach(host, netConf())
    shiftRecord(state.finished('c1'), startedLongAgo)
    expect(gc()).toContain('0 collected, 0 to look at, 1 kept')
    expect(attach(host, netConf(), { id: 'c2' }).address).not.toBe(pod.address)
    expectSilent(later(host, 'CHECK', { conf: netConf(), pod }))
    expectSilent(later(host, 'DEL', { conf: netConf(), pod }))
    expect(state.names('addresses')).toHaveLength(1)
  })

  it('ends no lock of a live holder in another pid namespace, and every one that was left there', () => {
    const pod = attach(host, netConf())
    const lock = state.lockOf('c1')
    const release = holdLock(lock, { ...unseenStamp(), startTime: livingStamp().startTime })
    shiftFile(lock)
    const waited = later(host, 'DEL', { conf: netConf(), pod })
    expectError(waited, 11)
    release()
    writeFileSync(lock, JSON.stringify({ ...unseenStamp(), purpose: 'nothing' }), { mode: 0o600 })
    shiftFile(lock)
    expectSilent(later(host, 'DEL', { conf: netConf(), pod }))
  })
})
