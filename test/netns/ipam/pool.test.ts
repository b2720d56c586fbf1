// SPDX-License-Identifier: Apache-2.0
// The pool of addresses: order, exhaustion, requests, and whose addresses may be taken back.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { stateFiles, stateOf } from '../../support/state-layout.ts'
import { addressesOf, attach, ipamConf, later, netConf, type Pod } from '../../support/traffic/pods.ts'

let host: Host
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
})
afterEach(() => host.close())

/** Room for five pods: .2 to .6. */
const small = netConf({ podcidr: '10.240.0.0/29' })
const fill = (conf: object = small): readonly Pod[] => [2, 3, 4, 5, 6].map((at) => attach(host, conf, { id: `c${at}` }))
/** ADD of another pod. `args`: its CNI_ARGS. */
const addAnother = (conf: unknown, args = '') =>
  host.cni('ADD', conf, { id: 'x', netns: host.pod(`x${Math.floor(performance.now())}`), args })

describe('a pool', () => {
  it('gives addresses in order, and a freed one only after all others', () => {
    const pods = [attach(host, small, { id: 'a' }), attach(host, small, { id: 'b' })]
    expect(pods.map((pod) => pod.address)).toEqual(['10.240.0.2', '10.240.0.3'])
    for (const pod of pods) expectSilent(later(host, 'DEL', { conf: small, pod }))
    const next = ['c', 'd', 'e', 'f', 'g'].map((id) => attach(host, small, { id }).address)
    expect(next).toEqual(['10.240.0.4', '10.240.0.5', '10.240.0.6', '10.240.0.2', '10.240.0.3'])
  })

  it('gives a freed one only after all others, also where ranges have changed places, gone and come back', () => {
    const [four, six, other] = ['10.240.0.0/24', 'fd00:240::/64', '10.241.0.0/24'] as const
    const given: string[] = []
    for (const podcidr of [[four, six], [six, four], [six], [four], [six, four], [other, six], [four, six], [four]]) {
      const conf = netConf({ podcidr })
      const pod = attach(host, conf, { id: `p${given.length}` })
      given.push(...pod.result.ips.map(({ address }) => address))
      expectSilent(later(host, 'DEL', { conf, pod }))
    }
    expect(new Set(given).size, given.join()).toBe(given.length)
  })

  it('that is full of live pods refuses ADD with 101 and STATUS with 50, and harms nobody', () => {
    const pods = fill()
    expect(pods.map((pod) => pod.address)).toEqual([2, 3, 4, 5, 6].map((at) => `10.240.0.${at}`))
    const made = snapshot(host)
    expectError(addAnother(small), 101, /no IP addresses available.*5 of 5/)
    expectError(host.cni('STATUS', small), 50, 'no IP addresses available')
    expectNothingLeft(host, made)
    for (const pod of pods) expectSilent(later(host, 'CHECK', { conf: small, pod }))
    expectSilent(later(host, 'DEL', { conf: small, pod: pods[3] as Pod }))
    expectSilent(host.cni('STATUS', small))
    expect(attach(host, small, { id: 'next' }).address).toBe('10.240.0.5')
  })

  it('that is full takes back what pods hold whose namespace is gone, with everything of theirs, and no live one (plugins#697: addresses leak after a missed DEL)', () => {
    const pods = fill()
    for (const at of [1, 3]) host.removePod(pods[at]?.netns ?? '')
    expectSilent(host.cni('STATUS', small))
    const next = [attach(host, small, { id: 'n1' }), attach(host, small, { id: 'n2' })]
    expect(next.map((pod) => pod.address)).toEqual(['10.240.0.3', '10.240.0.5'])
    expectError(addAnother(small), 101, 'no IP addresses available')
    for (const at of [0, 2, 4]) expectSilent(later(host, 'CHECK', { conf: small, pod: pods[at] as Pod }))
    for (const at of [1, 3]) expectSilent(later(host, 'DEL', { conf: small, pod: pods[at] as Pod }))
    for (const pod of next) expectSilent(later(host, 'CHECK', { conf: small, pod }))
  })

  it('does not take back what a pod holds whose namespace path is no namespace here', () => {
    const pods = fill()
    const [first] = pods
    host.run('umount', [first?.netns ?? ''])
    expectError(host.cni('STATUS', small), 50)
    expectError(addAnother(small), 101, 'no IP addresses available')
  })

  it('takes nothing from a pod whose namespace has lost its path and has a process, until that ends', async () => {
    const web = netConf({
      podcidr: '10.240.0.0/30',
      runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80 }] },
    })
    const pod = attach(host, web, { id: 'a' })
    const process = spawn('nsenter', [`--net=${pod.netns}`, 'sleep', '300'])
    await once(process, 'spawn')
    try {
      // The process has entered when its own namespace is the pod's.
      while (readlinkSync(`/proc/${process.pid}/ns/net`) === readlinkSync('/proc/self/ns/net')) await sleep(10)
      while (!readFileSync(`/proc/${process.pid}/comm`, 'utf8').startsWith('sleep')) await sleep(10)
      host.removePod(pod.netns)
      expectError(addAnother(web), 101, 'no IP addresses available')
      expectError(addAnother({ ...web, podcidr: '10.241.0.0/24', name: 'other', bridge: 'br-other' }), 104, '8080')
      expect(host.run('ping', ['-c1', '-W2', pod.address]).code).toBe(0)
    } finally {
      process.kill('SIGKILL')
      await once(process, 'exit')
    }
    expect(attach(host, web, { id: 'b' }).address).toBe(pod.address)
  })

  it('does take back what a restart of the machine ended', () => {
    const pods = fill()
    // What a restart leaves: records of another boot.
    const script = `sed -i 's/"bootId":"[^"]*"/"bootId":"00000000-0000-0000-0000-000000000000"/' ${stateOf(host, 'net').directory}/*/*`
    expect(host.run('sh', ['-c', script]).code).toBe(0)
    expectSilent(host.cni('STATUS', small))
    expect(attach(host, small, { id: 'n1' }).address).toBe('10.240.0.2')
    expect(pods).toHaveLength(5)
  })

  it('is of its network: another has its own, of its own directory', () => {
    expect(attach(host, small, { id: 'a' }).address).toBe('10.240.0.2')
    const other = { ...small, name: 'other', bridge: 'br-other' }
    expect(attach(host, { ...other, podcidr: '10.250.0.0/29' }, { id: 'b' }).address).toBe('10.250.0.2')
    expect(readdirSync(stateFiles(host).networks)).toEqual(['net', 'other'])
  })
})

describe('a requested address', () => {
  const ranges = [[{ subnet: '10.240.0.0/24' }], [{ subnet: 'fd00:240::/64' }]]
  const conf = ipamConf({ type: 'host-local', ranges })

  it.each<[string, object, string]>([
    ['CNI_ARGS', {}, 'IP=10.240.0.50'],
    ['CNI_ARGS with a prefix', {}, 'IP=10.240.0.50/24'],
    ['args.cni.ips', { tuning: {}, args: { cni: { ips: ['10.240.0.50'] } } }, ''],
    ['runtimeConfig.ips', { runtimeConfig: { ips: ['10.240.0.50/24'] } }, ''],
  ])('comes from %s', (_, more, args) => {
    const pod = attach(host, { ...conf, ...more }, { args })
    expect(addressesOf(host, pod.netns)).toEqual(['10.240.0.50/24', 'fd00:240::2/64'])
    expectSilent(later(host, 'DEL', { conf, pod }))
    expectNothingLeft(host, before)
  })

  it('of both families is given', () => {
    const pod = attach(host, { ...conf, runtimeConfig: { ips: ['10.240.0.50', 'fd00:240::50'] } })
    expect(addressesOf(host, pod.netns)).toEqual(['10.240.0.50/24', 'fd00:240::50/64'])
  })

  it.each<[string, number, string]>([
    ['10.240.0.1', 102, 'gateway'],
    ['10.9.9.9', 102, '10.9.9.9'],
    ['10.240.0.50,10.240.0.51', 102, '10.240.0.51'],
    ['fd00:240::1', 102, 'gateway'],
  ])('%s is refused, and nothing is reserved', (ip, code, text) => {
    expectError(addAnother(conf, `IP=${ip}`), code, text)
    expectNothingLeft(host, before)
  })

  it('that a live pod holds is refused, naming the pod', () => {
    attach(host, conf, { args: 'IP=10.240.0.50;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web' })
    expectError(addAnother(conf, 'IP=10.240.0.50'), 102, 'ns/web')
  })

  it('may be an excluded one', () => {
    const kept = ipamConf({ type: 'trestle', subnet: '10.240.0.0/29', exclude: ['10.240.0.2/31', '10.240.0.5'] })
    expect(attach(host, kept, { id: 'a' }).address).toBe('10.240.0.4')
    expect(attach(host, kept, { id: 'b' }).address).toBe('10.240.0.6')
    expectError(addAnother(kept), 101, '2 of 2')
    expect(attach(host, kept, { id: 'c', args: 'IP=10.240.0.5' }).address).toBe('10.240.0.5')
  })
})

describe('ranges', () => {
  it('of one set are used one after the other, all gateways are on the bridge and all are masqueraded', () => {
    const set = [
      { subnet: '10.1.0.0/24', rangeStart: '10.1.0.10', rangeEnd: '10.1.0.11' },
      { subnet: '10.2.0.0/24', rangeStart: '10.2.0.10', rangeEnd: '10.2.0.10', gateway: '10.2.0.254' },
    ]
    const conf = ipamConf({ type: 'trestle', ranges: [set] }, { ipMasq: true })
    const pods = ['a', 'b', 'c'].map((id) => attach(host, conf, { id }))
    expect(pods.map((pod) => pod.address)).toEqual(['10.1.0.10', '10.1.0.11', '10.2.0.10'])
    expect(pods[2]?.result.ips).toEqual([{ address: '10.2.0.10/24', gateway: '10.2.0.254', interface: 2 }])
    expect(addressesOf(host, host.path, 'cni0')).toEqual(['10.1.0.1/24', '10.2.0.254/24'])
    for (const pod of pods) {
      const gateway = pod.result.ips[0]?.gateway ?? ''
      expect(host.inPod(pod.netns, 'ping', ['-c1', '-w10', gateway]).code, gateway).toBe(0)
      expectSilent(later(host, 'CHECK', { conf, pod }))
    }
    expect(host.run('nft', ['list', 'set', 'inet', 'trestle', 'masq4']).stdout).toMatch(
      /10\.1\.0\.0\/24.*10\.2\.0\.0\/24/s,
    )
  })

  it('of two sets give a pod two addresses', () => {
    const conf = ipamConf({ type: 'trestle', ranges: [[{ subnet: '10.1.0.0/24' }], [{ subnet: '10.2.0.0/24' }]] })
    const pod = attach(host, conf)
    expect(addressesOf(host, pod.netns)).toEqual(['10.1.0.2/24', '10.2.0.2/24'])
    expect(pod.result.ips).toHaveLength(2)
  })

  it('of the capability ipRanges come first, and DEL, CHECK and GC do without them', () => {
    const conf = ipamConf({ type: 'host-local', ranges: [[{ subnet: 'fd00:240::/64' }]] })
    const runtimeConfig = { ipRanges: [[{ subnet: '10.77.0.0/24', rangeStart: '10.77.0.20', rangeEnd: '10.77.0.29' }]] }
    const pod = attach(host, { ...conf, runtimeConfig })
    expect(addressesOf(host, pod.netns)).toEqual(['10.77.0.20/24', 'fd00:240::2/64'])
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expectSilent(host.cni('GC', { ...conf, 'cni.dev/valid-attachments': [{ containerID: 'c1', ifname: 'eth0' }] }))
    expectSilent(later(host, 'DEL', { conf, pod }))
    expectNothingLeft(host, before)
  })

  it('with no address left in the second set give back that of the first', () => {
    const conf = ipamConf({ type: 'trestle', ranges: [[{ subnet: '10.1.0.0/24' }], [{ subnet: 'fd00::/126' }]] })
    for (const id of ['a', 'b']) attach(host, conf, { id })
    expectError(addAnother(conf), 101, /range 1: .*\(2 of 2 used\)/)
    expect(readdirSync(stateOf(host, 'net').directoryOf('addresses')).sort()).toEqual([
      '10.1.0.2',
      '10.1.0.3',
      'fd00::2',
      'fd00::3',
    ])
  })
})
