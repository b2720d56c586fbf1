// SPDX-License-Identifier: Apache-2.0
// State that was lost in part under live pods: the next ADD sees that something is missing, by the names of files and
// links alone, and writes it again before it gives anything out.

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

  it('a lost address reservation is made again', () => {
    lose(address())
    expectKept()
    expectSilent(later(host, 'CHECK', { conf: mapped, pod }))
    expectDelLeavesNothing()
  })

  it('a lost reservation of a host port is made again, with rules', () => {
    lose(port)
    expectKept()
    expectSilent(later(host, 'CHECK', { conf: mapped, pod }))
    expectDelLeavesNothing()
  })

  it('a lost reservation of a host port is made again, without rules', () => {
    lose(port)
    host.run('nft', ['flush', 'ruleset'])
    expectKept()
    expectDelLeavesNothing()
  })

  it('record and reservations are made again', () => {
    lose(record, address(), port)
    expectKept()
    expectDelLeavesNothing()
  })

  it('address and host port are not given out where the link has lost its alias, too', () => {
    rmSync(stateFiles(host).networks, { recursive: true })
    rmSync(stateFiles(host).ports, { recursive: true })
    host.run('ip', ['link', 'set', 'dev', pod.hostLink, 'alias', ''])
    expectError(host.cni('ADD', conf, { id: 'x', netns: host.pod('x'), args: `IP=${pod.address}` }), 102)
    expectError(host.cni('ADD', mapped, { id: 'y', netns: host.pod('y') }), 104)
    expect(host.state.names('addresses')).toEqual([pod.address])
    expectSilent(host.cni('DEL', mapped, pod.call))
    expect(host.run('ip', ['link', 'show', 'dev', pod.hostLink]).code).toBe(1)
  })

  it('trestle restore makes record and reservations again, once', () => {
    lose(record, address(), port)
    const restore = () => host.run('env', [stateWord(host), trestle, 'restore'])
    expect(restore()).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('restored  the record of eth0 of container c1 (network net) is missing'),
    })
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

  it('a host port of a record that was written again is not given out when its reservation is lost, too', () => {
    lose(record)
    attach(host, conf, { id: 'c2' })
    lose(port)
    host.run('nft', ['flush', 'ruleset'])
    expectError(host.cni('ADD', mapped, { id: 'y', netns: host.pod('y') }), 104, 'container c1')
    expect(reservedPorts(host)).toEqual([portName('tcp', 8080)])
    attach(host, conf, { id: 'c3' })
    expectSilent(later(host, 'CHECK', { conf: mapped, pod }))
  })

  it('a record that is cut short is written again by the ADD of another pod', () => {
    truncateSync(`${host.stateDir}/${record}`, 40)
    const other = attach(host, conf, { id: 'c2' })
    expectSilent(later(host, 'CHECK', { conf: mapped, pod }))
    expectSilent(host.cni('DEL', conf, other.call))
    expectDelLeavesNothing()
  })

  it('a host port of a chained attachment whose record is lost is told by the rules', () => {
    const chained = { cniVersion: '1.1.0', name: 'net', type: 'trestle', prevResult: pod.result }
    const ports = { portMappings: [{ hostPort: 8081, containerPort: 81, protocol: 'tcp' }] }
    const other = { ...chained, firewall: {}, runtimeConfig: ports }
    expect(host.cni('ADD', other, pod.call)).toMatchObject({ code: 0 })
    lose(finished('c1', 'eth0', 'chained'), relative.port(portName('tcp', 8081)))
    expectError(host.cni('ADD', { ...conf, runtimeConfig: ports }, { id: 'y', netns: host.pod('y') }), 104)
    expect(reservedPorts(host)).toEqual([portName('tcp', 8080), portName('tcp', 8081)])
    expectSilent(host.cni('DEL', other, pod.call))
    expectDelLeavesNothing()
  })
})
