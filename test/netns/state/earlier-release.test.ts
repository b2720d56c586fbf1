// SPDX-License-Identifier: Apache-2.0
// A node whose executable is replaced while pods live, by the next release and back: each release reads and tears down
// what the other has made, in every mode, and gives nothing of it to others. Release 0.1 is built from the history.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { buildEarlier, lackOfHistory } from '../../support/damage/earlier-release.ts'
import { type HostWithState, openHostWithState } from '../../support/damage/host-with-state.ts'
import { reservedPorts } from '../../support/faults/process-identities.ts'
import { type Finished, trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, ipamConf, netConf } from '../../support/traffic/pods.ts'

/** An error of release 0.1, whose messages have no id. */
function expectErrorWithoutId({ code, json }: Finished, of: number, text = ''): void {
  expect({ code, json }).toMatchObject({ code: 1, json: { code: of } })
  expect(`${json?.msg}\n${json?.details ?? ''}`).toContain(text)
}

const portOf = (hostPort: number) => ({
  runtimeConfig: { portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] },
})
const bandwidth = { ingressRate: 8e6, ingressBurst: 8e5, egressRate: 8e6, egressBurst: 8e5 }
const sysctl = { 'net.ipv4.ip_unprivileged_port_start': '0' }
const routes = [{ dst: '0.0.0.0/0' }]

const bridge = netConf({
  podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
  macspoofchk: true,
  bandwidth,
  tuning: { sysctl },
  firewall: { ingressPolicy: 'same-bridge' },
  portmap: { conditionsV4: ['ip saddr 10.0.0.0/8'] },
})
const ptp = ipamConf(
  { type: 'trestle', ranges: [[{ subnet: '10.241.0.0/24' }]], routes },
  { mode: 'ptp', ipMasq: true, sbr: {}, firewall: { ingressPolicy: 'isolated' } },
)
const fixed = (host: number) => {
  const addresses = [{ address: `10.242.0.${host}/24`, gateway: '10.242.0.1' }]
  return ipamConf({ type: 'static', addresses, routes }, { ipMasq: true })
}

/** Of each mode the configuration of a pod, and that of another one beside it. */
const modes = [
  ['bridge', bridge, bridge],
  ['ptp', ptp, ptp],
  ['static addresses', fixed(5), fixed(6)],
] as const
const chained = { cniVersion: '1.1.0', name: 'net', type: 'trestle', mode: 'chained' }

const lack = lackOfHistory()

describe.skipIf(lack !== undefined)(`pods of one release under another${lack ? ` (${lack})` : ''}`, () => {
  let earlier: ReturnType<typeof buildEarlier>
  let host: HostWithState
  beforeAll(() => {
    earlier = buildEarlier()
  })
  afterAll(() => earlier?.remove())
  beforeEach(() => {
    host = openHostWithState()
  })
  afterEach(() => host.close())

  const ways = [
    ['that release 0.1 has made', () => [earlier.file, trestle] as const],
    ['that are made now, under release 0.1', () => [trestle, earlier.file] as const],
  ] as const

  /** The rules are those of the release that built them last: today's are what the tests know. */
  const expectGone = () => {
    const confs = [
      { ...ptp, ...portOf(9000), name: 'last' },
      { ...bridge, ...portOf(9001), name: 'next' },
    ]
    const pods = confs.map((conf) => attach(host, conf, { id: conf.name }))
    for (const [at, conf] of confs.entries()) expectSilent(host.cni('DEL', conf, pods[at]?.call))
    expect(reservedPorts(host)).toEqual([])
    expectNothingLeft(host, host.before)
  }

  describe.each(ways)('%s', (_, executables) => {
    it.each(modes)('%s: are known, keep what they have, and go with DEL', (_mode, conf, beside) => {
      const [before, after] = executables()
      const own = { ...conf, ...portOf(8080) }
      const pod = attach(host, own, { file: before })
      const expectRefused = after === trestle ? expectError : expectErrorWithoutId
      expectRefused(host.cni('ADD', own, { ...pod.call, file: after }), 103)
      const refused = host.cni('ADD', { ...beside, ...portOf(8080) }, { id: 'c2', netns: host.pod('c2'), file: after })
      expectRefused(refused, 104, 'c1')
      const other = attach(host, { ...beside, ...portOf(8081) }, { id: 'c3', file: after })
      expect(other.address).not.toBe(pod.address)
      expectSilent(host.cni('CHECK', { ...own, prevResult: pod.result }, { ...pod.call, file: after }))
      expectSilent(host.cni('DEL', conf, { ...other.call, file: before }))
      expectSilent(host.cni('DEL', conf, { ...pod.call, file: after }))
      expectGone()
    })

    it('chained: are known and go with DEL', () => {
      const [before, after] = executables()
      const pod = attach(host, netConf(), { file: before })
      const settings = { tuning: { mtu: 1400 }, firewall: { ingressPolicy: 'same-bridge' } }
      const conf = { ...chained, ...settings, ...portOf(8080), prevResult: pod.result }
      const added = host.cni('ADD', conf, { ...pod.call, file: before })
      expect(added.code, added.stdout).toBe(0)
      const other = attach(host, { ...ptp, ...portOf(8081), name: 'other' }, { id: 'c3', file: after })
      const sent = { ...conf, prevResult: added.json }
      expectSilent(host.cni('CHECK', sent, { ...pod.call, file: after }))
      expectSilent(host.cni('DEL', sent, { ...pod.call, file: after }))
      expectSilent(host.cni('DEL', netConf(), { ...pod.call, file: after }))
      expectSilent(host.cni('DEL', { ...ptp, name: 'other' }, { ...other.call, file: before }))
      expectGone()
    })

    it('are kept by GC where the runtime lists them, and collected where it does not', () => {
      const [before, after] = executables()
      const [one, two] = ['c1', 'c2'].map((id) => attach(host, bridge, { id, file: before }))
      const valid = [{ containerID: 'c1', ifname: 'eth0' }]
      expectSilent(host.cni('GC', { ...bridge, 'cni.dev/valid-attachments': valid }, { file: after }))
      expect(host.state.names('attachments')).toEqual(['c1:eth0'])
      expectSilent(host.cni('DEL', bridge, { ...two?.call, file: before }))
      expectSilent(host.cni('DEL', bridge, { ...one?.call, file: after }))
      expectGone()
    })
  })

  it('on a master that are made now leave others alone under release 0.1, and go with its DEL and their namespace', () => {
    for (const words of ['link add up0 type veth peer name up1', 'link set up0 up'])
      expect(host.run('ip', words.split(' ')).code).toBe(0)
    const conf = netConf({ name: 'lan', mode: 'macvlan', master: 'up0', podcidr: '10.77.0.0/24' })
    const pod = attach(host, conf, { file: trestle })
    const other = attach(host, bridge, { id: 'c3', file: earlier.file })
    const restored = host.run('env', [`TRESTLE_STATE_DIR=${host.stateDir}`, earlier.file, 'restore'])
    expect(restored).toMatchObject({ code: 0, stdout: expect.stringContaining('0 lost') })
    expectSilent(host.cni('DEL', bridge, { ...other.call, file: trestle }))
    expectSilent(host.cni('DEL', conf, { ...pod.call, file: earlier.file }))
    host.removePod(pod.netns)
    expect(host.run('ip', ['link', 'del', 'up0']).code).toBe(0)
    expectGone()
  })
})
