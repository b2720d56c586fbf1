// SPDX-License-Identifier: Apache-2.0
// Attachments whose pod is gone, or that the runtime no longer lists: all that they have goes, whichever
// call meets them, and one that cannot be torn down does not keep the others.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type HostWithState, openHostWithState } from '../../support/damage/host-with-state.ts'
import { holdLock, livingStamp } from '../../support/faults/process-identities.ts'
import { type InstalledIpam, installIpam } from '../../support/ipam-plugin.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { reservedPorts } from '../../support/state-layout.ts'
import { attach, ipamConf, later, netConf } from '../../support/traffic/pods.ts'

const mapping = (hostPort: number) => ({ hostPort, containerPort: 80, protocol: 'tcp' })
const mapped = (...ports: readonly number[]) => ({ runtimeConfig: { portMappings: ports.map(mapping) } })
const shaped = { bandwidth: { egressRate: 1_000_000, egressBurst: 1_000_000 } }
/** An address of its own for each container id. */
const leasing = `echo '{"cniVersion":"1.1.0","ips":[{"address":"10.66.0.'"$CNI_CONTAINERID"'/24"}]}'`

describe('a dead attachment', () => {
  let host: HostWithState
  let ipam: InstalledIpam
  beforeEach(() => {
    host = openHostWithState()
    ipam = installIpam({ ADD: leasing })
  })
  afterEach(() => {
    host.close()
    ipam.remove()
  })

  it('whose host port another pod takes loses its other ports, its shaping and its address too', () => {
    const dead = attach(host, netConf({ ...shaped, ...mapped(8080, 8081) }), { id: 'c1' })
    expect(host.run('ip', ['-o', 'link', 'show', 'type', 'ifb']).stdout).not.toBe('')
    host.removePod(dead.netns)
    const next = attach(host, netConf(mapped(8080)), { id: 'c2' })
    const elements = host.run('nft', ['list', 'map', 'inet', 'trestle', 'anyports4']).stdout
    expect(elements).toMatch(new RegExp(`8080 .*: ${next.address} \\. 80`))
    expect(elements).not.toContain('8081')
    expect(host.run('ip', ['-o', 'link', 'show', 'type', 'ifb']).stdout).toBe('')
    expect(existsSync(host.state.finished('c1'))).toBe(false)
    expect(reservedPorts(host)).toHaveLength(1)
    expect(host.state.names('addresses')).toEqual([next.address])

    expectSilent(host.cni('DEL', netConf(mapped(8080)), next.call))
    expectNothingLeft(host, host.before)
  })

  it('that is only the intent record of a killed second ADD goes, and leaves the live attachment all it has', () => {
    const pod = attach(host, netConf(mapped(8080)), { id: 'c1' })
    const { spec: _, network: __, ...intent } = JSON.parse(readFileSync(host.state.finished('c1'), 'utf8'))
    // As ADD writes it before it looks for a finished record: its writer's pid is somebody else's by now.
    const writer = { ...livingStamp(), startTime: '1' }
    writeFileSync(
      host.state.pending('c1'),
      JSON.stringify({ ...intent, writer, createdAt: '2026-01-01T00:00:00.000Z' }),
    )
    attach(host, netConf(), { id: 'c2' })
    expect(existsSync(host.state.pending('c1'))).toBe(false)
    expectSilent(later(host, 'CHECK', { conf: netConf(mapped(8080)), pod }))
    expect(reservedPorts(host)).toHaveLength(1)
    expect(host.state.names('addresses')).toHaveLength(2)
  })

  it("of another network loses everything there, when this network's pod takes its host port", () => {
    const other = netConf({ ...shaped, ...mapped(8080, 8081), name: 'far', bridge: 'br-far', podcidr: '10.241.0.0/24' })
    host.removePod(attach(host, other, { id: 'c1' }).netns)
    const next = attach(host, netConf(mapped(8080)), { id: 'c2' })
    expectSilent(host.cni('DEL', netConf(mapped(8080)), next.call))
    expectNothingLeft(host, host.before)
  })

  it('leaves the pod of another network that has its address by now all that it has, at its late DEL', () => {
    const conf = netConf(mapped(8080))
    const dead = attach(host, conf, { id: 'c1' })
    host.removePod(dead.netns)
    const other = { ...conf, name: 'other', ...mapped(9090) }
    const next = attach(host, other, { id: 'c2', args: `IP=${dead.address}` })
    expect(next.address).toBe(dead.address)
    expectSilent(host.cni('DEL', conf, { ...dead.call, netns: '' }))
    expectSilent(later(host, 'CHECK', { conf: other, pod: next }))
    expectSilent(host.cni('DEL', other, next.call))
    expectNothingLeft(host, host.before)
  })

  it('that GC cannot take down keeps it neither from the others nor from the IPAM plugin', () => {
    const conf = ipamConf({ type: 'scripted' })
    attach(host, { ...conf, ...mapped(8080) }, { id: '7', path: ipam.path })
    attach(host, conf, { id: '8', path: ipam.path })
    const release = holdLock(host.state.lockOf('7'))
    const listed = { ...conf, 'cni.dev/valid-attachments': [] }
    expectError(host.cni('GC', listed, { path: ipam.path }), 11)
    release()
    expect(existsSync(host.state.finished('8')), 'the one without a host port').toBe(false)
    expect(ipam.calls().filter((verb) => verb === 'GC')).toHaveLength(1)

    expectSilent(host.cni('GC', listed, { path: ipam.path }))
    expectNothingLeft(host, host.before)
  })

  it('gets the DEL of the IPAM plugin it was made with, after the configuration has changed', () => {
    const pod = attach(host, ipamConf({ type: 'scripted' }), { id: '7', path: ipam.path })
    const changed = ipamConf({ type: 'host-local', subnet: '10.66.0.0/24' })
    expectSilent(host.cni('DEL', changed, pod.call))
    expect(ipam.calls()).toEqual(['ADD', 'DEL'])
    expectNothingLeft(host, host.before)
  })
})
