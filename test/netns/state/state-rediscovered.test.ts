// SPDX-License-Identifier: Apache-2.0
// A state directory that was removed under live pods, where no libcni remembers them either: what their links and our
// tables tell is enough to keep their addresses and host ports, and for a DEL that leaves nothing.

import { rmSync, symlinkSync } from 'node:fs'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type HostWithState, openHostWithState } from '../../support/damage/host-with-state.ts'
import { trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { reservedPorts, stateFiles, stateOf, stateWord } from '../../support/state-layout.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const conf = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })
const mapping = (hostPort: number, more = {}) => ({ hostPort, containerPort: 80, protocol: 'tcp', ...more })
const bareAddresses = ({ result }: Pod) => (result.ips ?? []).map(({ address }) => address.replace(/\/.*/, ''))
const mapped = { ...conf, runtimeConfig: { portMappings: [mapping(8080), mapping(8081, { hostIP: '127.0.0.1' })] } }

describe('state that was removed under live pods that nobody else remembers', () => {
  let host: HostWithState
  beforeEach(() => {
    host = openHostWithState()
  })
  afterEach(() => host.close())

  const removeState = (): void => {
    const { networks, ports } = stateFiles(host)
    for (const directory of [networks, ports]) rmSync(directory, { recursive: true, force: true })
  }

  it('gives none of their addresses and host ports away', () => {
    const pods = [attach(host, mapped, { id: 'c1' }), attach(host, conf, { id: 'c2' })]
    removeState()
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
    ['bridge', { podcidr: '10.240.0.0/24' }],
    ['IPv6', { podcidr: 'fd00:240::/64' }],
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

  it.each([
    [
      'another link of the pod has them (KubeVirt)',
      'link add k6t type bridge, addr add 10.240.0.2/32 dev k6t, addr add fd00:240::2/128 dev k6t',
      {},
    ],
    ['neighbours know them by a MAC that was asked for', 'addr show', { runtimeConfig: { mac: '02:00:00:00:00:01' } }],
    [
      'neighbours know them by the MAC that a guest has taken (KubeVirt)',
      'link set eth0 address 02:00:00:00:00:77',
      {},
    ],
  ])('gives no address away where %s', (_, words, more) => {
    const pod = attach(host, { ...conf, ...more })
    for (const gateway of ['10.240.0.1', 'fd00:240::1'])
      expect(host.inPod(pod.netns, 'ping', ['-c', '1', '-W', '2', gateway]).code).toBe(0)
    inPod(pod, `addr flush dev eth0, ${words}`)
    removeState()
    const next = attach(host, conf, { id: 'c2' })
    expect(bareAddresses(next)).toEqual(['10.240.0.3', 'fd00:240::3'])
    expect(host.state.names('addresses')).toEqual(expect.arrayContaining(bareAddresses(pod)))
    for (const id of ['c1', 'c2']) expectSilent(host.cni('DEL', conf, { id }))
    expectNothingLeft(host, host.before)
  })

  it('gives away nothing that elements lead to while nothing tells whose it is', () => {
    const pod = attach(host, mapped)
    inPod(pod, 'addr flush dev eth0, link set eth0 down, link set eth0 address 02:00:00:00:00:77, link set eth0 up')
    removeState()
    expect(bareAddresses(attach(host, conf, { id: 'c2' }))).toEqual(['10.240.0.3', 'fd00:240::3'])
    const refused = host.cni('ADD', mapped, { id: 'c3', netns: host.pod('c3') })
    expectError(refused, 104, 'an attachment that cannot be read')
    const gc = host.run('env', [stateWord(host), trestle, 'gc', '--no-runtime', '--apply'])
    expect(gc.stdout).toContain('0 collected')
    expect(host.run('nft', ['list', 'map', 'inet', 'trestle', 'anyports6']).stdout).toContain('fd00:240::2')
    expectSilent(host.cni('DEL', conf, { id: 'c2' }))
    expectSilent(later(host, 'DEL', { conf: mapped, pod }))
    expectNothingLeft(host, host.before)
  })

  it('DEL leaves nothing of a pod whose interface has no address of its own', () => {
    const pod = attach(host, mapped)
    host.run('ip', ['-n', pod.netns.slice('/run/netns/'.length), 'addr', 'flush', 'dev', 'eth0'])
    removeState()
    expectSilent(later(host, 'DEL', { conf: mapped, pod }))
    expectNothingLeft(host, host.before)
  })

  it('keeps the address of a pod whose namespace has no name', async () => {
    const sleeping = execa('nsenter', [`--net=${host.path}`, '--', 'unshare', '--net', 'sleep', '60'], {
      reject: false,
    })
    const listed = () => host.run('lsns', ['-t', 'net', '-n', '-o', 'PID']).stdout
    await expect.poll(listed, { timeout: 20_000 }).toContain(String(sleeping.pid))
    try {
      const pod = attach(host, conf, { netns: `/proc/${sleeping.pid}/ns/net` })
      removeState()
      expect(attach(host, conf, { id: 'c2' }).address).not.toBe(pod.address)
      expect(host.state.names('addresses')).toContain(pod.address)

      removeState()
      // A link to itself cannot be run, and ends the search in PATH.
      symlinkSync('lsns', `${host.stateDir}/lsns`)
      const env = { PATH: `${host.stateDir}:${process.env['PATH']}` }
      const withoutLsns = host.cni('ADD', conf, { id: 'c3', netns: host.pod('c3'), env })
      expect(withoutLsns.code, withoutLsns.stdout).toBe(0)
      expect(withoutLsns.stderr).toContain('cannot tell what pods without a named namespace have')
    } finally {
      sleeping.kill()
      await sleeping
    }
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
    rmSync(stateOf(host, 'net').last(0))
    const next = attach(host, mapped, { id: 'c2' })
    expect(next.address).toBe(pod.address)
    expectSilent(later(host, 'DEL', { conf: mapped, pod }))
    expectSilent(later(host, 'CHECK', { conf: mapped, pod: next }))
  })
})
