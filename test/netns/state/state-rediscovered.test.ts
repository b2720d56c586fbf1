// SPDX-License-Identifier: Apache-2.0
// A state directory that was removed under live pods: what their links' aliases and the comments of our elements tell is enough to keep their addresses and host ports, and for a DEL that leaves nothing.

import { readdirSync, rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type HostWithState, openHostWithState } from '../../support/damage/host-with-state.ts'
import { trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { forgetLast, reservedPorts, stateWord } from '../../support/state-layout.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const conf = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })
const mapping = (hostPort: number, more = {}) => ({ hostPort, containerPort: 80, protocol: 'tcp', ...more })
const bareAddresses = ({ result }: Pod) => (result.ips ?? []).map(({ address }) => address.replace(/\/.*/, ''))
const mapped = { ...conf, runtimeConfig: { portMappings: [mapping(8080), mapping(8081, { hostIP: '127.0.0.1' })] } }

describe('state that was removed under live pods', () => {
  let host: HostWithState
  beforeEach(() => {
    host = openHostWithState()
  })
  afterEach(() => host.close())

  const removeState = (names: readonly string[] = ['networks', 'ports']): void => {
    for (const name of names) rmSync(`${host.stateDir}/${name}`, { recursive: true, force: true })
  }

  it.each([
    ['records and reservations', () => ['networks', 'ports']],
    ['everything', () => readdirSync(host.stateDir)],
  ])('gives none of their addresses and host ports away: %s', (_, names) => {
    const pods = [attach(host, mapped, { id: 'c1' }), attach(host, conf, { id: 'c2' })]
    removeState(names())
    const third = attach(host, conf, { id: 'c3' })
    const addresses = [...pods, third].flatMap(({ result }) => result.ips.map(({ address }) => address))
    expect(new Set(addresses).size).toBe(6)
    expect(host.state.names('addresses')).toHaveLength(6)
    const refused = host.cni('ADD', mapped, { id: 'c4', netns: host.pod('c4') })
    expectError(refused, 104, 'container c1')

    for (const pod of [...pods, third]) expectSilent(host.cni('DEL', conf, pod.call))
    expectNothingLeft(host, host.before)
  })

  it('keeps what a pod of another network has from the first ADD of a network', () => {
    const pod = attach(host, mapped)
    removeState()
    const other = { ...mapped, name: 'other', bridge: 'br-other', podcidr: '10.241.0.0/24' }
    expectError(host.cni('ADD', other, { id: 'c2', netns: host.pod('c2') }), 104)
    expectSilent(host.cni('DEL', conf, pod.call))
    expectNothingLeft(host, host.before)
  })

  it('keeps the host port of a pod from one whose address is of no pool', () => {
    const pod = attach(host, mapped)
    removeState()
    const ipam = { type: 'static', addresses: [{ address: '10.242.0.2/24' }] }
    const other = { ...mapped, name: 'other', bridge: 'br-other', podcidr: undefined, ipam }
    expectError(host.cni('ADD', other, { id: 'c2', netns: host.pod('c2') }), 104, 'container c1')
    expectSilent(host.cni('DEL', conf, pod.call))
    expectNothingLeft(host, host.before)
  })

  const inPod = (pod: Pod, words: string): void => {
    for (const line of words.split(', ')) expect(host.inPod(pod.netns, 'ip', line.split(' ')).stderr).toBe('')
  }

  it.each([
    ['dual stack', {}],
    ['IPv6 before IPv4', { podcidr: ['fd00:240::/64', '10.240.0.0/24'] }],
    ['ptp', { mode: 'ptp' }],
  ])('keeps what a pod has whose interface has no address of its own, as with gVisor: %s', (_, more) => {
    const [plain, withPorts] = [conf, mapped].map((each) => ({ ...each, ...more })) as [typeof conf, typeof mapped]
    const pod = attach(host, withPorts)
    const elements = (): string => {
      const { stdout } = host.run('nft', ['list', 'table', 'inet', 'trestle'])
      return stdout.slice(0, stdout.indexOf('chain ')).replace(/\s+/g, ' ')
    }
    const ports = () => elements().match(/tcp \. 808\d : \S+/g)
    const [whole, wholePorts] = [elements(), ports()]
    inPod(pod, 'addr flush dev eth0')
    removeState()
    expect(host.run('env', [stateWord(host), trestle, 'restore'])).toMatchObject({ code: 0 })
    expect(elements()).toBe(whole)
    attach(host, plain, { id: 'c2' })
    expectError(host.cni('ADD', withPorts, { id: 'c3', netns: host.pod('c3') }), 104, 'container c1')
    expect(host.state.names('addresses')).toEqual(expect.arrayContaining(bareAddresses(pod)))
    expect(host.state.names('addresses')).toHaveLength(2 * pod.result.ips.length)
    expect(ports()).toEqual(wholePorts)

    for (const id of ['c1', 'c2']) expectSilent(host.cni('DEL', plain, { id }))
    expectNothingLeft(host, host.before)
  })

  it('DEL leaves nothing of a pod whose interface has no address of its own', () => {
    const pod = attach(host, mapped)
    host.run('ip', ['-n', pod.netns.slice('/run/netns/'.length), 'addr', 'flush', 'dev', 'eth0'])
    removeState()
    expectSilent(later(host, 'DEL', { conf: mapped, pod }))
    expectNothingLeft(host, host.before)
  })

  it.each([
    ['its namespace is there, and not named by the call', false],
    ['its namespace is gone, and the runtime sends prevResult and host ports', true],
  ])('DEL leaves nothing where %s', (_, isGone) => {
    const pod = attach(host, mapped)
    removeState()
    if (isGone) host.removePod(pod.netns)
    expectSilent(later(host, 'DEL', { conf: isGone ? mapped : conf, pod, call: { netns: '' } }))
    expect(reservedPorts(host)).toEqual([])
    expectNothingLeft(host, host.before)
  })

  it('DEL touches nothing of a pod that has the address and the port by now', () => {
    const pod = attach(host, mapped)
    expectSilent(host.cni('DEL', conf, pod.call))
    forgetLast(host, 'net')
    const next = attach(host, mapped, { id: 'c2' })
    expect(next.address).toBe(pod.address)
    expectSilent(later(host, 'DEL', { conf: mapped, pod }))
    expectSilent(later(host, 'CHECK', { conf: mapped, pod: next }))
  })
})
