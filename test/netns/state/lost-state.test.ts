// SPDX-License-Identifier: Apache-2.0
// Records that are lost, cut short or lack a part: addresses, host ports and links still go with their
// pod, and other pods and networks do not notice.

import { mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type HostWithState, openHostWithState } from '../../support/damage/host-with-state.ts'
import { rewrite } from '../../support/faults/process-identities.ts'
import { expectSilent } from '../../support/outcome.ts'
import { reservedPorts, stateFiles, stateOf } from '../../support/state-layout.ts'
import { failing, tcOfIproute7 } from '../../support/tool.ts'
import { addressesOf, attach, ipamConf, netConf, onHostJson } from '../../support/traffic/pods.ts'

const plain = netConf()
const mapped = { runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] } }
/** One address for pods. */
const single = ipamConf({ type: 'host-local', subnet: '10.9.0.0/30' })

describe('a record that is lost', () => {
  let host: HostWithState
  beforeEach(() => {
    host = openHostWithState()
  })
  afterEach(() => host.close())

  const cut = (id: string): void => truncateSync(host.state.finished(id), 40)

  it('keeps no host port of a pod with an address that nobody reserves', () => {
    const conf = ipamConf({ type: 'static', addresses: [{ address: '10.1.0.2/24' }] }, mapped)
    const pod = attach(host, conf)
    cut('c1')
    expectSilent(host.cni('DEL', conf, pod.call))
    expect(reservedPorts(host)).toEqual([])
    expect(host.run('nft', ['list', 'map', 'inet', 'trestle', 'anyports4']).stdout).not.toContain('8080')
    withoutDamaged()
    expectNothingLeft(host, host.before)
  })

  it('leaves nothing in our tables of a pod whose MAC was guarded', () => {
    const conf = netConf({ podcidr: undefined, macspoofchk: true })
    const pod = attach(host, conf)
    expect(host.run('nft', ['list', 'table', 'bridge', 'trestle']).stdout).toContain(pod.hostLink)
    cut('c1')
    expectSilent(host.cni('DEL', conf, pod.call))
    expect(host.run('nft', ['list', 'table', 'bridge', 'trestle']).stdout).not.toContain('veth')
    withoutDamaged()
    expectNothingLeft(host, host.before)
  })

  it.each([
    ['', undefined],
    [' with the tc of iproute2 7', tcOfIproute7],
  ])('of a limited pod that is gone does not keep its ids from a new ADD%s, whose DELs leave nothing', (_, openTc) => {
    const conf = netConf({ bandwidth: { egressRate: 8_000_000, egressBurst: 800_000 } })
    const pod = attach(host, conf)
    cut('c1')
    host.removePod(pod.netns)
    const tc = openTc?.()
    const call = { ...pod.call, netns: host.pod('again'), ...(tc ? { env: tc.env } : {}) }
    try {
      const again = attach(host, conf, call)
      expect(addressesOf(host, call.netns)).toEqual([`${again.address}/24`])
    } finally {
      tc?.close()
    }
    // The second one, as containerd sends it, gives back what the lost record had.
    for (const netns of [call.netns, '']) expectSilent(host.cni('DEL', conf, { id: 'c1', netns }))
    withoutDamaged()
    expectNothingLeft(host, host.before)
  })

  it('of a whole network is no reason to take the masquerade from its pods when another network comes', () => {
    attach(host, plain)
    rmSync(host.state.shared)
    for (const id of ['c2', 'c3']) {
      attach(host, netConf({ name: id, bridge: `br-${id}`, podcidr: `10.24${id.slice(1)}.0.0/24` }), { id })
    }
    expect(host.run('nft', ['list', 'set', 'inet', 'trestle', 'masq4']).stdout).toContain('10.240.0.0/24')
  })

  it('keeps no address from the next pod when its own is gone, as STATUS promises', () => {
    host.removePod(attach(host, single).netns)
    cut('c1')
    expectSilent(host.cni('STATUS', single))
    const next = attach(host, single, { id: 'c2' })
    expect(next.address).toBe('10.9.0.2')
    expectSilent(host.cni('DEL', single, next.call))
    withoutDamaged()
    expectNothingLeft(host, host.before)
  })

  it('keeps no host port from the next pod when its own is gone', () => {
    const static4 = (address: string) => ipamConf({ type: 'static', addresses: [{ address }] }, mapped)
    host.removePod(attach(host, static4('10.1.0.2/24')).netns)
    cut('c1')
    const next = attach(host, static4('10.1.0.3/24'), { id: 'c2' })
    expectSilent(host.cni('CHECK', { ...static4('10.1.0.3/24'), prevResult: next.result }, next.call))
    expectSilent(host.cni('DEL', static4('10.1.0.3/24'), next.call))
    withoutDamaged()
    expectNothingLeft(host, host.before)
  })

  it('leaves the host port of a pod that lives to that pod', () => {
    const pod = attach(host, netConf(mapped))
    cut('c1')
    const refused = host.cni('ADD', netConf(mapped), { id: 'c2', netns: host.pod('c2') })
    expect(refused.json, refused.stdout).toMatchObject({ code: 104 })
    expect(host.run('nft', ['list', 'map', 'inet', 'trestle', 'anyports4']).stdout).toMatch(
      new RegExp(`8080 .*: ${pod.address} `),
    )
  })

  it('leaves the address of a pod that lives to that pod', () => {
    const pod = attach(host, single)
    cut('c1')
    expect(host.cni('ADD', single, { id: 'c2', netns: host.pod('c2') }).json).toMatchObject({ code: 101 })
    expect(addressesOf(host, pod.netns)).toEqual(['10.9.0.2/30'])
  })

  it('with its link still there does not keep the container from a new ADD (ovs-cni#220: stale veths)', () => {
    attach(host, plain, { id: 'seed' })
    const lost = attach(host, plain)
    rmSync(host.state.finished('c1'))
    rmSync(host.state.address(lost.address))
    // Its end in the pod is gone: a pod that lives keeps its ids.
    const stale = ['alias', onHostJson(host, ['link', 'show', lost.hostLink])[0]?.ifalias ?? '']
    host.removePod(lost.netns)
    host.run('ip', ['link', 'add', lost.hostLink, 'type', 'veth', 'peer', 'name', 'nobodys'])
    host.run('ip', ['link', 'set', 'dev', lost.hostLink, ...stale])
    const netns = host.pod('again')
    const again = attach(host, plain, { netns })
    expect(addressesOf(host, netns)).toEqual([`${again.address}/24`])
    expect(onHostJson(host, ['link', 'show', again.hostLink])).toHaveLength(1)
  })

  it('is no reason to free the address while the link cannot be removed', () => {
    const pod = attach(host, plain)
    rmSync(host.state.finished('c1'))
    const broken = failing('ip')
    try {
      const deleted = host.cni('DEL', plain, { ...pod.call, env: broken.env })
      expectSilent(deleted)
      expect(deleted.stderr).toContain('pending cleanup')
    } finally {
      broken.close()
    }
    expect(host.state.names('addresses')).toEqual([pod.address])
    expectSilent(host.cni('DEL', plain, pod.call))
    expectNothingLeft(host, host.before)
  })

  it('in part, as of another version, does not keep DEL from taking everything away', () => {
    const conf = netConf(mapped)
    const pod = attach(host, conf)
    rewrite(host.state.finished('c1'), (record) => ({ ...record, spec: { id: record['id'] } }))
    attach(host, plain, { id: 'c2' })
    expectSilent(host.cni('STATUS', plain))
    expectSilent(host.cni('DEL', conf, pod.call))
    expectSilent(host.cni('DEL', plain, { id: 'c2' }))
    withoutDamaged()
    expectNothingLeft(host, host.before)
  })

  it.each([
    { name: 'zz', forwarding: [], masquerade: {} },
    { name: 'zz', forwarding: [] },
    { name: 'zz', forwarding: ['ipv4'], bridge: {}, masquerade: { subnets: ['10.0.0.0/8'], keep: 'all' }, hairpin: 3 },
  ])('of one network, such as %j, does not keep a pod of another from its own', (text) => {
    const { directory, shared } = stateOf(host, 'zz')
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    writeFileSync(shared, JSON.stringify(text))
    const pod = attach(host, plain)
    expectSilent(host.cni('CHECK', { ...plain, prevResult: pod.result }, pod.call))
    expectSilent(host.cni('DEL', plain, pod.call))
    rmSync(directory, { recursive: true })
    withoutDamaged()
    expectNothingLeft(host, host.before)
  })

  /** What could not be read is kept for `doctor`. */
  const withoutDamaged = (): void => rmSync(stateFiles(host).damaged, { recursive: true, force: true })
})
