// SPDX-License-Identifier: Apache-2.0
// A record that was lost under a live pod: the next ADD sees that there are fewer records than links of ours, and writes
// it again before it gives anything out.

import { rmSync, truncateSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type HostWithState, openHostWithState } from '../../support/damage/host-with-state.ts'
import { trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { portName, recordName, relative, reservedPorts, stateFiles, stateWord } from '../../support/state-layout.ts'
import { addressesOf, attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const conf = netConf()
const mapped = netConf({ runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] } })

describe('of a live pod', () => {
  let host: HostWithState
  let pod: Pod
  beforeEach(() => {
    host = openHostWithState()
    pod = attach(host, mapped)
  })
  afterEach(() => host.close())

  const lose = (...paths: readonly string[]): void => {
    for (const path of paths) rmSync(`${host.stateDir}/${path}`)
  }
  const { finished, address: addressFile } = relative.network('net')
  const record = finished('c1')
  const port = relative.port(portName('tcp', 8080))
  const address = () => addressFile(pod.address)
  const expectKept = (): void => {
    expectError(host.cni('ADD', conf, { id: 'x', netns: host.pod('x'), args: `IP=${pod.address}` }), 102)
    expectError(host.cni('ADD', mapped, { id: 'y', netns: host.pod('y') }), 104, 'container c1')
    expect(host.state.names('addresses')).toEqual([pod.address])
    expect(reservedPorts(host)).toEqual([portName('tcp', 8080)])
    expect(host.state.names('attachments')).toEqual([recordName('c1')])
  }
  const expectDelLeavesNothing = (): void => {
    expectSilent(host.cni('DEL', mapped, pod.call))
    // What could not be read is kept for `doctor`.
    rmSync(stateFiles(host).damaged, { recursive: true, force: true })
    expectNothingLeft(host, host.before)
  }

  it('record and reservations are made again', () => {
    lose(record, address(), port)
    expectKept()
    expectDelLeavesNothing()
  })

  it('trestle restore makes record and reservations again, once', () => {
    lose(record, address(), port)
    const restore = () => host.run('env', [stateWord(host), trestle, 'restore'])
    expect(restore()).toMatchObject({ code: 0, stdout: expect.stringMatching(/ 0 lost\n$/) })
    expect(restore()).toMatchObject({ code: 0, stdout: '0 restored, 0 lost\n' })
    expectKept()
    expectDelLeavesNothing()
  })

  it.each(['lost', 'cut short'])('a second ADD is refused where the record is %s, and harms nothing', (how) => {
    if (how === 'lost') lose(record)
    else truncateSync(`${host.stateDir}/${record}`, 40)
    const addresses = addressesOf(host, pod.netns)
    expectError(host.cni('ADD', mapped, pod.call), 103, 'c1')
    expect(addressesOf(host, pod.netns)).toEqual(addresses)
    expect(host.state.names('addresses')).toEqual([pod.address])
    expect(host.state.names('pending')).toEqual([])
    expectSilent(later(host, 'CHECK', { conf: mapped, pod }))
    expectDelLeavesNothing()
  })

  it('a record that is cut short is written again by the next set-up, and its pod keeps its rules', () => {
    truncateSync(`${host.stateDir}/${record}`, 40)
    const other = netConf({ name: 'other', bridge: 'br-other', podcidr: '10.241.0.0/24' })
    const { call } = attach(host, other, { id: 'c2' })
    expect(host.run('nft', ['list', 'map', 'inet', 'trestle', 'anyports4']).stdout).toContain('8080')
    expectSilent(later(host, 'CHECK', { conf: mapped, pod }))
    expectKept()
    expectSilent(host.cni('DEL', other, call))
    expectDelLeavesNothing()
  })
})
