// SPDX-License-Identifier: Apache-2.0
// DEL killed while it takes the record away, after which others may have the pod's host port and
// address: they keep them, and every other call works as before, until and after DEL is repeated.

import { existsSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { restore } from '../../support/damage/breakage.ts'
import { haveStrace, nameChanges, tracedCni } from '../../support/faults/strace.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectSilent } from '../../support/outcome.ts'
import { recordName, reservedPorts, stateOf } from '../../support/state-layout.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const mapping = (hostPort: number) => ({ hostPort, containerPort: 80, protocol: 'tcp' })
const mapped = (more: object = {}) => netConf({ runtimeConfig: { portMappings: [mapping(8080)], ...more } })
const fixed = mapped({ ips: ['10.240.0.50/24'] })
const plain = netConf()

/** A host after a DEL of `c1` that was killed. */
interface Scene {
  readonly host: Host
  readonly before: ReturnType<typeof snapshot>
  readonly conf: object
  readonly gone: Pod
}

describe('after a DEL that was killed while it forgot its pod', () => {
  const hosts: Host[] = []
  afterEach(() => {
    for (const host of hosts.splice(0)) host.close()
  })

  /** A host with a pod that is to be deleted. */
  const open = (conf: object) => {
    const host = openHost()
    hosts.push(host)
    const before = snapshot(host)
    const gone = attach(host, conf)
    const state = stateOf(host, 'net')
    const files = [state.finished('c1'), state.pending('c1')]
    const kill = (at: { calls: string; when: number }) =>
      tracedCni(host, { verb: 'DEL', conf, id: 'c1', netns: gone.netns }, { ...at, what: 'signal=KILL' })
    return { host, before, gone, files, kill }
  }

  /** `play` for each point at which DEL changes the pod's record: killed before it is done. */
  const atEveryPoint = (conf: object, play: (scene: Scene) => void): void => {
    const whole = open(conf)
    // No DEL makes so many calls: it runs to its end, and the log has them all.
    const points = callsOn(whole.files, whole.kill({ calls: nameChanges, when: 60_000 }).log)
    // Marked as leaving, the finished one gone, all gone: fewer would mean that they were not seen.
    expect(points.length, 'how often DEL changes the record').toBeGreaterThanOrEqual(3)
    expect(new Set(points.map(({ calls }) => calls)).size, 'kinds of changes').toBeGreaterThan(1)
    whole.host.close()
    for (const point of points) {
      const { host, before, gone, files, kill } = open(conf)
      expect(kill(point).hit, `killed at ${point.calls} ${point.when}`).toBe(true)
      expect(files.some(existsSync), 'the record is still there').toBe(true)
      const scene = { host, before, conf, gone }
      // The mark comes before anything else: without it nothing has been taken away.
      if (existsSync(stateOf(host, 'net').pending('c1'))) play(scene)
      else expectWhole(scene)
      host.close()
    }
  }

  it.skipIf(!haveStrace())('the next pod has its host port, and rules that were flushed come back', () => {
    atEveryPoint(mapped(), ({ host, gone }) => {
      host.removePod(gone.netns)
      const next = attach(host, mapped(), { id: 'c2' })
      expect(host.run('nft', ['flush', 'ruleset']).code).toBe(0)
      attach(host, plain, { id: 'c3' })
      attach(host, netConf({ name: 'other', bridge: 'br-other', podcidr: '10.99.0.0/24' }), { id: 'c4' })
      restore(host)
      expectSilent(later(host, 'CHECK', { conf: mapped(), pod: next }))
    })
  })

  it.skipIf(!haveStrace())('a repeated DEL leaves the next pod its host port when it has the same address', () => {
    atEveryPoint(fixed, (scene) => {
      const next = attach(scene.host, fixed, { id: 'c2' })
      expect(next.address).toBe('10.240.0.50')
      expectNextUnharmed(scene, next)
    })
  })

  it.skipIf(!haveStrace())('a repeated DEL leaves the next pod its host port when it has another address', () => {
    atEveryPoint(mapped(), (scene) => expectNextUnharmed(scene, attach(scene.host, mapped(), { id: 'c2' })))
  })
})

/** The calls on these files in what strace saw, each by its name and its number among those of its name. */
function callsOn(files: readonly string[], log: string): readonly { calls: string; when: number }[] {
  const seen = new Map<string, number>()
  return log.split('\n').flatMap((line) => {
    const calls = /^(\w+)\(/.exec(line)?.[1]
    if (calls === undefined) return []
    const when = (seen.get(calls) ?? 0) + 1
    seen.set(calls, when)
    return files.some((file) => line.includes(`"${file}"`)) && line.endsWith(' = 0') ? [{ calls, when }] : []
  })
}

/** The pod has all it had, and its DEL leaves nothing. */
function expectWhole({ host, before, conf, gone }: Scene): void {
  expectSilent(later(host, 'CHECK', { conf, pod: gone }))
  expectSilent(later(host, 'DEL', { conf, pod: gone }))
  // What was being written when the call was killed: a call a minute later removes it.
  host.run('find', [host.stateDir, '-name', '.*', '-type', 'f', '-delete'])
  expectNothingLeft(host, before)
}

/** DEL of the pod that is gone is silent and owes nothing; CHECK of the next one too; its own DEL leaves nothing. */
function expectNextUnharmed({ host, before, conf, gone }: Scene, next: Pod): void {
  const state = stateOf(host, 'net')
  const repeated = later(host, 'DEL', { conf, pod: gone, call: { netns: '' } })
  expectSilent(repeated)
  expect(repeated.stderr).toBe('')
  expect([state.names('attachments'), state.names('pending')]).toEqual([[recordName('c2')], []])
  expectSilent(later(host, 'CHECK', { conf, pod: next }))
  expect(reservedPorts(host)).toHaveLength(1)
  expectSilent(later(host, 'DEL', { conf, pod: next }))
  expectNothingLeft(host, before)
}
