// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept with mode ptp: routed pods have no bridge, so their network's ranges are accepted in the chains
// of others that drop, a pair for each range, and taken out again to the last rule.

import { existsSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answer, ask, targetsAt } from '../support/ask.ts'
import { restore } from '../support/breakage.ts'
import { type Firewall, firewalls, foreignTable } from '../support/foreign-firewalls.ts'
import { type Host, openHost, trestle } from '../support/host.ts'
import { expectError, expectSilent } from '../support/outcome.ts'
import { attach, ipamConf, later } from '../support/pods.ts'
import { addUplink, outside, pings, pingsOnce } from '../support/traffic.ts'

const subnets = ['10.240.0.0/24', 'fd00:240::/64']
const ranges = subnets.map((subnet) => [{ subnet }])
const routed = { mode: 'ptp', ipMasq: true, removeWhenEmpty: true }
const conf = ipamConf({ type: 'host-local', ranges }, { ...routed, firewall: {} })
const off = { ...conf, firewall: { hostAccept: 'off' } }
const served = { ...conf, runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80 }] } }

let host: Host
let internet: string
let stops: (() => void)[]
beforeEach(() => {
  host = openHost()
  internet = addUplink(host)
  stops = []
})
afterEach(() => {
  for (const stop of stops) stop()
  host.close()
})

function run(line: string): string {
  const [file = '', ...args] = line.split(' ')
  const done = host.run(file, args)
  expect(done.code, `${line}: ${done.stderr}`).toBe(0)
  return done.stdout
}

const listed = ({ list }: Firewall) => list.map(run).join('')
const ours = (firewall: Firewall) => (listed(firewall).match(/trestle \S+ (in|out)/g) ?? []).sort()
const acceptFile = () => `${host.stateDir}/networks/net/network-accept.json`
const uninstall = (...words: readonly string[]) =>
  host.run('env', [`TRESTLE_STATE_DIR=${host.stateDir}`, trestle, 'uninstall', ...words])

/** What does not work of: pod to outside, outside to pod and to its host port, pod to pod; ping, TCP and UDP. */
async function broken(): Promise<readonly string[]> {
  const [a, b] = [attach(host, served, { id: 'a' }), attach(host, conf, { id: 'b' })]
  stops.push(
    await answer(a.netns, 80),
    await answer(internet, 90, outside.far4),
    await answer(internet, 90, outside.far6),
  )
  const ofA = a.result.ips.map((ip) => ip.address.replace(/\/.*/, ''))
  for (const [at, family] of ['-4', '-6'].entries()) {
    const via = at === 0 ? outside.node4 : outside.node6
    expect(host.inPod(internet, 'ip', [family, 'route', 'add', subnets[at] ?? '', 'via', via]).code).toBe(0)
  }
  const asked = [
    ...ask(host, b.netns, [...targetsAt(ofA, 80), ...targetsAt([outside.far4, outside.far6], 90)]),
    ...ask(host, internet, targetsAt(ofA, 80)),
    ...ask(
      host,
      internet,
      [outside.node4, outside.node6].map((address) => ({ protocol: 'tcp', address, port: 8080 })),
    ),
  ]
  const silent = asked.flatMap((said, at) => (said === '' ? [`socket ${at}`] : []))
  const pinged = [...ofA, outside.far4, outside.far6].filter((address) => !pings(host, b.netns, address))
  for (const pod of [a, b]) expectSilent(later(host, 'DEL', { conf, pod }))
  return [...pinged, ...silent]
}

describe.each(firewalls.map((firewall) => [firewall.what, firewall] as const))(
  'behind %s, routed pods',
  (_, firewall) => {
    beforeEach(() => {
      for (const line of firewall.make) run(line)
    })

    it('are reached and reach others, and the firewall is as it was when the network is gone', async () => {
      const before = listed(firewall)
      expect(await broken()).toEqual([])
      expect(listed(firewall)).toBe(before)
      expect(existsSync(acceptFile())).toBe(false)
    })

    it('have one pair per range and chain, whatever their number, until hostAccept is off', () => {
      const before = listed(firewall)
      const without = attach(host, off, { id: 'without' })
      expect(listed(firewall)).toBe(before)
      expect(pingsOnce(host, without.netns, outside.far4)).toBe(false)
      attach(host, conf, { id: 'a' })
      const first = ours(firewall)
      const accepts = JSON.parse(readFileSync(acceptFile(), 'utf8')) as { subnet: string; places: [] }[]
      expect(accepts.map(({ subnet }) => subnet).filter((subnet) => !subnets.includes(subnet))).toEqual([])
      expect(first).toHaveLength(2 * accepts.flatMap(({ places }) => places).length)
      attach(host, conf, { id: 'b' })
      expect(ours(firewall)).toEqual(first)
      attach(host, off, { id: 'c' })
      expect(listed(firewall)).toBe(before)
    })
  },
)

describe('the pairs of routed pods', () => {
  beforeEach(() => {
    for (const line of foreignTable) run(line)
  })
  const table = () => run('nft list table inet fw')
  const pairs = () => table().match(/trestle \S+ (in|out)/g) ?? []
  const both = subnets.flatMap((subnet) => [`trestle ${subnet} in`, `trestle ${subnet} out`])

  it('that somebody removed are named by CHECK, and put again by restore', () => {
    const pod = attach(host, conf)
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expect(pairs().sort()).toEqual([...both].sort())
    run('nft flush chain inet fw forwarded')
    const answer = later(host, 'CHECK', { conf, pod })
    for (const subnet of subnets)
      expectError(answer, 107, `the accept of ${subnet} is missing in nft chain inet fw forwarded`)
    restore(host)
    expect(pairs().sort()).toEqual([...both].sort())
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('go with trestle uninstall', () => {
    const before = table()
    const pod = attach(host, { ...conf, removeWhenEmpty: false })
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(pairs()).toHaveLength(4)
    expect(uninstall().stdout).toContain(`remove    accept of ${subnets[0]} in nft chain inet fw forwarded`)
    expect(uninstall('--apply').code).toBe(0)
    expect(table()).toBe(before)
  })

  it('are of the subnets that pods turn out to have, where IPAM names none', () => {
    const fixed = (net: string) => {
      const ipam = { type: 'static', addresses: [{ address: `${net}.2/24`, gateway: `${net}.1` }] }
      return ipamConf(ipam, { ...routed, firewall: {} })
    }
    const first = attach(host, fixed('10.241.0'), { id: 'a' })
    const second = attach(host, fixed('10.242.0'), { id: 'b' })
    expect(pairs().sort()).toEqual(
      ['10.241.0.0/24', '10.242.0.0/24'].flatMap((subnet) => [`trestle ${subnet} in`, `trestle ${subnet} out`]),
    )
    for (const pod of [first, second]) expectSilent(later(host, 'DEL', { conf: fixed('10.241.0'), pod }))
    expect(pairs()).toEqual([])
  })

  it('stand beside the bridge while a pod is on it, when the network becomes a routed one', () => {
    const before = table()
    const bridged = attach(host, { ...conf, mode: 'bridge' }, { id: 'a' })
    expect(pairs()).toEqual(expect.arrayContaining(['trestle cni0 in', 'trestle cni0 out']))
    const pod = attach(host, conf, { id: 'b' })
    expect(pairs().sort()).toEqual([...both, 'trestle cni0 in', 'trestle cni0 out'].sort())
    expectSilent(later(host, 'DEL', { conf, pod: bridged }))
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(table()).toBe(before)
  })
})
