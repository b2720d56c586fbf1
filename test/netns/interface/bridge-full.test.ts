// SPDX-License-Identifier: Apache-2.0
// A bridge with every port that Linux allows, most of them not ours: ADD is refused in words and leaves nothing, STATUS
// says no, and a port that becomes free serves the next pod.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { knownOf, withoutShared } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, netConf } from '../../support/traffic/pods.ts'

/** BR_MAX_PORTS (net/bridge/br_private.h). */
const most = 1023
const conf = netConf()

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

/** Plugs further ports into cni0 that are nobody's, numbered up to `last`. */
function plugIn(from: number, last: number): void {
  const lines = Array.from(
    { length: last - from + 1 },
    (_, at) => `link add y${from + at} master cni0 type veth peer name z${from + at}\n`,
  )
  const done = host.run('ip', ['-batch', '-'], lines.join(''))
  expect(done.code, done.stderr).toBe(0)
}

describe('a bridge', () => {
  it(`with ${most} ports takes no pod, until one is free`, () => {
    const pod = attach(host, conf, { id: 'first' })
    plugIn(1, most - 1)
    const before = withoutShared(snapshot(host), knownOf(host))
    const refused = host.cni('ADD', conf, { id: 'second', netns: host.pod('second') })
    expectError(refused, 108, 'bridge cni0 is full: it has 1023 ports')
    expect(refused.json?.details).toContain('another "bridge"')
    expect(withoutShared(snapshot(host), knownOf(host))).toEqual(before)

    expectSilent(host.cni('DEL', conf, pod.call))
    attach(host, conf, { id: 'third' })
  }, 180_000)

  it('of a network is full for its first pod too', () => {
    host.run('ip', ['link', 'add', 'cni0', 'type', 'bridge'])
    plugIn(1, most)
    const refused = host.cni('ADD', conf, { id: 'first', netns: host.pod('first') })
    expectError(refused, 108, 'is full')
    expect(host.run('ip', ['-o', 'link', 'show', 'type', 'veth']).stdout).not.toMatch(/veth[0-9a-f]{11}/)
  })
})
