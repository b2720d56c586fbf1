// SPDX-License-Identifier: Apache-2.0
// Locks that stay held: a call waits for one after the other, but all of it ends with the call's own deadline, with
// the holder's name, and what it had reserved is given back.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { holdLock, makePending } from '../../support/faults/process-identities.ts'
import { type Host, openHost } from '../../support/host.ts'
import { startCni } from '../../support/locks/parallel.ts'
import { expectError } from '../../support/outcome.ts'
import { recordName, stateFiles, stateOf } from '../../support/state-layout.ts'
import { attach, netConf } from '../../support/traffic/pods.ts'

/** The deadline of a whole call (commands/call/context.ts), and what a loaded machine takes beside. */
const limitMs = 20_000 + 5_000
const conf = netConf()

let host: Host
let state: ReturnType<typeof stateOf>
beforeEach(() => {
  host = openHost()
  state = stateOf(host, 'net')
})
afterEach(() => host.close())

describe('a call that finds several locks held', () => {
  it('ends before its deadline, naming the last holder', async () => {
    attach(host, conf, { id: 'killed' })
    makePending(state, 'killed')
    host.run('ip', ['link', 'del', 'cni0'])
    const free = [holdLock(state.settleLock), holdLock(stateFiles(host).lock)]
    const from = performance.now()
    const added = await startCni(host, 'ADD', { conf, id: 'next', netns: host.pod('next') })
    expect(performance.now() - from).toBeLessThan(limitMs)
    expectError(added, 11, `is held by process ${process.pid} (hold it for a test)`)
    expect(added.stderr).toContain('what killed calls left stays for a later call')
    for (const each of free) each()
    expect(state.names('pending')).toEqual([recordName('killed')])
    attach(host, conf, { id: 'later' })
    expect(state.names('pending')).toEqual([])
  })
})
