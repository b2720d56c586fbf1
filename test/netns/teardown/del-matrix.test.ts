// SPDX-License-Identifier: Apache-2.0
// DEL whatever has become of the pod, the request, the configuration and the bridge: exit 0, no output,
// nothing left, twice.

import { writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, interfacesOf, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const conf = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })

/** Makes the namespace be so, and returns what CNI_NETNS says afterwards. */
const namespaces: Readonly<Record<string, (host: Host, pod: Pod) => string>> = {
  'is there': (_, pod) => pod.netns,
  'is gone': (host, pod) => {
    host.removePod(pod.netns)
    return pod.netns
  },
  'is empty': (host, pod) => {
    host.removePod(pod.netns)
    return ''
  },
  'is a regular file': (host, pod) => {
    host.removePod(pod.netns)
    writeFileSync(pod.netns, '')
    return pod.netns
  },
}

const previous: Readonly<Record<string, (pod: Pod) => object>> = {
  'is there': (pod) => ({ prevResult: pod.result }),
  'is missing': () => ({}),
  'is garbage': () => ({ prevResult: { cniVersion: 7, interfaces: 'none', ips: [{ address: '%d' }] } }),
}

const configurations: Readonly<Record<string, object>> = {
  'is the same': {},
  'has another subnet': { podcidr: '10.99.0.0/24' },
  'has no ipMasq': { ipMasq: false, isDefaultGateway: false },
  'has invalid keys': { podcidr: 'garbage', bridge: 'a b', ipam: [1], mtu: 'x', mode: 'none', vlan: -1, log: {} },
}

const bridges: Readonly<Record<string, (host: Host) => void>> = {
  'is there': () => undefined,
  'is gone': (host) => {
    host.run('ip', ['link', 'del', 'cni0'])
  },
}

/** Each thing alone, and all of them together. */
const usual = { netns: 'is there', prev: 'is there', config: 'is the same', bridge: 'is there' }
const worst = { prev: 'is garbage', config: 'has invalid keys', bridge: 'is gone' }
const cases: readonly (typeof usual)[] = [
  ...Object.keys(namespaces).flatMap((netns) => [
    { ...usual, netns },
    { ...usual, ...worst, netns },
  ]),
  ...Object.keys(previous).map((prev) => ({ ...usual, prev })),
  ...Object.keys(configurations).map((config) => ({ ...usual, config, netns: 'is empty' })),
  { ...usual, bridge: 'is gone' },
]

let host: Host
let before: ReturnType<typeof snapshot>
beforeEach(() => {
  host = openHost()
  before = snapshot(host)
})
afterEach(() => host.close())

describe('DEL leaves nothing, twice (cni#1055: DEL fails for ever)', () => {
  it.each(cases)('namespace $netns, prevResult $prev, configuration $config, bridge $bridge', (of) => {
    const pod = attach(host, conf)
    const call = { ...pod.call, netns: namespaces[of.netns]?.(host, pod) ?? '' }
    bridges[of.bridge]?.(host)
    const sent = { ...conf, ...configurations[of.config], ...previous[of.prev]?.(pod) }
    expectSilent(host.cni('DEL', sent, call))
    expectSilent(host.cni('DEL', sent, call))
    if (of.netns === 'is there') expect(interfacesOf(host, pod.netns)).toEqual([])
    expectNothingLeft(host, before)
    host.run('rm', ['-f', pod.netns])
  })
})

describe('DEL', () => {
  it('before any ADD succeeds and makes nothing', () => {
    const netns = host.pod('a')
    expectSilent(host.cni('DEL', conf, { netns }))
    expectSilent(host.cni('DEL', conf, { netns: '' }))
    expect(snapshot(host)).toEqual(before)
  })

  it('works where the state directory was removed while the pod lives', () => {
    const pod = attach(host, conf)
    host.run('rm', ['-rf', host.stateDir])
    expectSilent(later(host, 'DEL', { conf, pod }))
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expectNothingLeft(host, before)
  })

  it('and a new ADD work where the state directory was removed while other pods live', () => {
    const first = attach(host, conf)
    host.run('rm', ['-rf', host.stateDir])
    const asked = { id: 'c2', args: 'IP=10.240.0.77' }
    const second = attach(host, conf, asked)
    expect(host.inPod(second.netns, 'ping', ['-c1', '-w10', '10.240.0.1']).code).toBe(0)
    expect(host.inPod(first.netns, 'ping', ['-c1', '-w10', '10.240.0.77']).code).toBe(0)
    for (const pod of [first, second]) expectSilent(later(host, 'DEL', { conf, pod }))
    expectNothingLeft(host, before)
  })

  it('and a new ADD of the same ids work where only the record was lost (ovs-cni#220: file exists on the next ADD)', () => {
    const pod = attach(host, conf)
    host.run('rm', ['-rf', host.stateDir])
    expectError(host.cni('ADD', conf, pod.call), 103, 'c1')
    expectSilent(later(host, 'DEL', { conf, pod }))
    const again = attach(host, conf, pod.call)
    expect(interfacesOf(host, pod.netns)).toEqual(['eth0'])
    expectSilent(later(host, 'CHECK', { conf, pod: again }))
    expectSilent(later(host, 'DEL', { conf, pod: again }))
    expectNothingLeft(host, before)
  })

  it.each(['', '{', 'null', '[]', '{"format":1}', '\0\0\0'])('works where every state file holds %j', (text) => {
    const pod = attach(host, conf)
    const files = host.run('find', [host.stateDir, '-type', 'f']).stdout.split('\n').filter(Boolean)
    expect(files.length).toBeGreaterThan(3)
    for (const file of files) writeFileSync(file, text)
    expectSilent(later(host, 'DEL', { conf, pod }))
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(interfacesOf(host, pod.netns)).toEqual([])
    expect(host.run('ip', ['link', 'show', pod.hostLink]).code).not.toBe(0)
    const next = attach(host, conf, { id: 'c2' })
    expectSilent(later(host, 'CHECK', { conf, pod: next }))
  })

  it('is refused only for what is no request', () => {
    expectError(host.cni('DEL', conf, { id: '../x' }), 4, 'CNI_CONTAINERID')
    expectError(host.cni('DEL', '{'), 6)
    expectError(host.cni('DEL', netConf({ name: '' })), 7)
    expectError(host.cni('DEL', netConf({ cniVersion: '7.0.0' })), 1)
  })

  it('of a second pod leaves the first one its bridge, address and rules', () => {
    const first = attach(host, conf)
    const alone = snapshot(host)
    const second = attach(host, conf, { id: 'c2' })
    expectSilent(later(host, 'DEL', { conf, pod: second }))
    const now = snapshot(host)
    expect({ ...now, state: '' }).toEqual({ ...alone, state: '' })
    expectSilent(later(host, 'CHECK', { conf, pod: first }))
  })
})
