// SPDX-License-Identifier: Apache-2.0
// Every file of the state directory truncated, as a full disk leaves them: no address and no host port of a live pod is
// given to another pod. DEL frees what the host link's alias and the elements tell; what they do not tell is collected by
// `trestle gc`.

import { rmSync, truncateSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { filesBelow } from '../../support/damage/damage.ts'
import { type HostWithState, openHostWithState } from '../../support/damage/host-with-state.ts'
import { makeStateOld } from '../../support/damage/worn-state.ts'
import { trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { forgetLast, portName, recordName, reservedPorts, stateFiles, stateWord } from '../../support/state-layout.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'

/** Five addresses. */
const conf = netConf({ podcidr: '10.240.0.0/29' })
const ports = (hostPort: number) => ({
  runtimeConfig: { portMappings: [{ hostPort, containerPort: 80 }] },
})
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
/** What could not be read is kept for a look. */
const withoutDamaged = () => rmSync(stateFiles(host).damaged, { recursive: true, force: true })

describe('truncated state', () => {
  it('a live pod keeps its address and host port, and DEL frees what alias and elements tell', () => {
    const pods = fill((at) => ({ ...conf, ...ports(8080 + at) }))
    truncate()
    expectError(host.cni('ADD', conf, { id: 'c6', netns: host.pod('c6') }), 101, '5 of 5 used')
    const other = {
      ...conf,
      ...ports(8080),
      name: 'other',
      bridge: 'br-other',
      podcidr: '10.241.0.0/24',
    }
    expectError(host.cni('ADD', other, { id: 'c7', netns: host.pod('c7') }), 104)
    for (const [at, pod] of pods.entries())
      expectSilent(later(host, 'DEL', { conf: { ...conf, ...ports(8080 + at) }, pod }))
    expect([...reservedPorts(host), ...host.state.names('addresses')]).toEqual([])
    withoutDamaged()
    expectNothingLeft(host, host.before)
    attach(host, { ...conf, ...ports(8080) }, { id: 'c8' })
  })

  it('once: a DEL that comes again frees nothing of the pod that has it by now', () => {
    const pod = attach(host, conf)
    truncate()
    expectSilent(later(host, 'DEL', { conf, pod }))
    forgetLast(host, 'net')
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
  it('is reported by trestle gc, which collects their rules and writes the record of a live pod again', () => {
    const [living, ...dead] = fill((at) => ({
      ...conf,
      ...ports(8080 + at),
    })) as [Pod, ...Pod[]]
    truncate()
    makeStateOld(host.stateDir)
    for (const pod of dead) host.removePod(pod.netns)
    const swept = host.run('env', [stateWord(host), trestle, 'gc', '--no-runtime', '--apply'])
    expect(swept.code).toBe(1)
    for (const pod of dead) expect(swept.stdout).toContain(`report   address ${pod.address}`)
    expect(swept.stdout).not.toContain(`address ${living.address}`)
    expect(host.state.names('attachments')).toEqual([recordName('c1')])
    const ruleset = host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout
    expect([8080, 8081].map((port) => ruleset.includes(`tcp . ${port} `))).toEqual([true, false])
    expectSilent(later(host, 'DEL', { conf: { ...conf, ...ports(8080) }, pod: living }))
    expect(host.state.names('addresses')).not.toContain(living.address)
    expect(reservedPorts(host)).not.toContain(portName('tcp', 8080))
  })
})
