// SPDX-License-Identifier: Apache-2.0
// Every file of the state directory truncated, as a full disk or a power loss leaves them: no address and no host port is
// lost for good. DEL frees what prevResult, libcni, the pod's interface or the table tells; what nobody tells of is
// collected by the ADD that needs it, as `trestle gc` would.

import { readdirSync, truncateSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { filesBelow } from '../../support/damage/damage.ts'
import { type HostWithState, openHostWithState } from '../../support/damage/host-with-state.ts'
import { makeStateOld } from '../../support/damage/worn-state.ts'
import { trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import {
  isDamagedRecord,
  portName,
  recordName,
  reservedPorts,
  stateFiles,
  stateWord,
} from '../../support/state-layout.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'

/** Five addresses. */
const conf = netConf({ podcidr: '10.240.0.0/29' })
const ports = (hostPort: number) => ({ runtimeConfig: { portMappings: [{ hostPort, containerPort: 80 }] } })
const ids = ['c1', 'c2', 'c3', 'c4', 'c5']

let host: HostWithState
beforeEach(() => {
  host = openHostWithState()
})
afterEach(() => host.close())

const truncate = (): void => {
  for (const file of filesBelow(host.stateDir)) truncateSync(`${host.stateDir}/${file}`)
}
const fill = (sent: (at: number) => object = () => conf): readonly Pod[] =>
  ids.map((id, at) => attach(host, sent(at), { id }))
/** Reservations and shared files that could not be read are kept for a look; records went with their DEL. */
const withoutDamaged = () => {
  host.run('rm', ['-rf', stateFiles(host).damaged])
}

describe('truncated state: DEL frees the address', () => {
  it.each([
    ['that prevResult tells, whose namespace is gone', conf, true, true],
    ['that the interface tells', conf, false, false],
    ['that prevResult tells, of an attachment that is addresses alone', ipamRole(), true, false],
  ])('%s', (_, sent, hasResult, isGone) => {
    const pods = fill(() => sent)
    truncate()
    expectError(host.cni('ADD', sent, { id: 'c6', netns: host.pod('c6') }), 101, '5 of 5 used')
    for (const pod of pods) {
      if (isGone) host.removePod(pod.netns)
      const call = isGone ? { netns: '' } : {}
      expectSilent(hasResult ? later(host, 'DEL', { conf: sent, pod, call }) : host.cni('DEL', sent, pod.call))
    }
    expect(host.state.names('addresses')).toEqual([])
    expect(readdirSync(stateFiles(host).damaged).filter(isDamagedRecord)).toEqual([])
    withoutDamaged()
    expectNothingLeft(host, host.before)
    expect(attach(host, sent, { id: 'c7' }).address).not.toBe('')
  })

  it('and the host ports', () => {
    const pods = fill((at) => ({ ...conf, ...ports(8080 + at) }))
    host.run('nft', ['flush', 'ruleset'])
    truncate()
    for (const [at, pod] of pods.entries())
      expectSilent(later(host, 'DEL', { conf: { ...conf, ...ports(8080 + at) }, pod }))
    expect([...reservedPorts(host), ...host.state.names('addresses')]).toEqual([])
    attach(host, { ...conf, ...ports(8080) }, { id: 'c6' })
  })

  it('once: a DEL that comes again frees nothing of the pod that has it by now', () => {
    const pod = attach(host, conf)
    truncate()
    expectSilent(later(host, 'DEL', { conf, pod }))
    host.run('rm', ['-f', host.state.last(0)])
    const next = attach(host, conf, { id: 'c2' })
    expect(next.address).toBe(pod.address)
    truncate()
    expectSilent(later(host, 'DEL', { conf, pod, call: { netns: '' } }))
    expect(host.state.names('addresses')).toEqual([pod.address])
    expectSilent(later(host, 'DEL', { conf, pod: next }))
    expect(host.state.names('addresses')).toEqual([])
  })
})

describe('truncated state of pods whose DEL never comes', () => {
  it('is collected by an ADD that finds the pool full, and no live pod loses its address', () => {
    const pods = fill()
    const [living, ...dead] = pods as [Pod, ...Pod[]]
    truncate()
    makeStateOld(host.stateDir)
    for (const pod of dead) host.removePod(pod.netns)
    expectSilent(host.cni('STATUS', conf))
    const next = [6, 7, 8, 9].map((at) => attach(host, conf, { id: `c${at}` }).address)
    expect(next).not.toContain(living.address)
    expectError(host.cni('ADD', conf, { id: 'c10', netns: host.pod('c10') }), 101, '5 of 5 used')
    expectError(host.cni('STATUS', conf), 50)
    expectSilent(later(host, 'DEL', { conf, pod: living }))
    expect(attach(host, conf, { id: 'c11' }).address).toBe(living.address)
  })

  it('is collected by trestle gc, which writes the record of a live pod again', () => {
    const [living, ...dead] = fill((at) => ({ ...conf, ...ports(8080 + at) })) as [Pod, ...Pod[]]
    truncate()
    makeStateOld(host.stateDir)
    for (const pod of dead) host.removePod(pod.netns)
    const gc = (...words: readonly string[]) =>
      host.run('env', [stateWord(host), trestle, 'gc', '--no-runtime', ...words])
    expect(gc()).toMatchObject({ code: 1, stdout: expect.stringContaining(`report   address ${living.address}`) })
    const swept = gc('--apply')
    expect([swept.code, swept.stdout]).toEqual([0, expect.stringContaining('8 collected, 0 to look at, 1 kept')])
    expect(host.state.names('attachments')).toEqual([recordName('c1')])
    expect(host.state.names('addresses')).toEqual([living.address])
    expect(reservedPorts(host)).toEqual([portName('tcp', 8080)])
    expectSilent(later(host, 'DEL', { conf: { ...conf, ...ports(8080) }, pod: living }))
    expect([...host.state.names('addresses'), ...reservedPorts(host)]).toEqual([])
  })

  it('is left alone while it is younger than five minutes, as by trestle gc', () => {
    for (const pod of fill()) host.removePod(pod.netns)
    truncate()
    expectError(host.cni('STATUS', conf), 50)
    expectError(host.cni('ADD', conf, { id: 'c6', netns: host.pod('c6') }), 101)
    expect(host.state.names('addresses')).toHaveLength(5)
  })

  it('is collected by an ADD that asks for the host port, unless a live pod has it', () => {
    const [dead, living] = [8080, 8081].map((port) => attach(host, { ...conf, ...ports(port) }, { id: `c${port}` }))
    truncate()
    makeStateOld(host.stateDir)
    host.removePod(dead?.netns ?? '')
    expectError(host.cni('ADD', { ...conf, ...ports(8081) }, { id: 'x', netns: host.pod('x') }), 104)
    attach(host, { ...conf, ...ports(8080) }, { id: 'y' })
    expectSilent(later(host, 'DEL', { conf, pod: living as Pod }))
    attach(host, { ...conf, ...ports(8081) }, { id: 'z' })
  })
})

function ipamRole() {
  return netConf({ type: 'macvlan', podcidr: undefined, ipam: { type: 'trestle', subnet: '10.240.0.0/29' } })
}
