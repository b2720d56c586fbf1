// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept with mode ptp: routed pods have no bridge, so their network's ranges tell what is to pass. Others'
// chains have the same constant accept, and it is taken out again to the last rule.

import { existsSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answer, ask, targetsAt } from '../../support/ask.ts'
import { restore } from '../../support/damage/breakage.ts'
import { foreignTable, together } from '../../support/foreign-firewalls.ts'
import { trestle } from '../../support/host.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { stateFiles, stateWord } from '../../support/state-layout.ts'
import { attach, ipamConf, later } from '../../support/traffic/pods.ts'
import { outside, pings, pingsOnce } from '../../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../../support/traffic/uplinked-host.ts'

const subnets = ['10.240.0.0/24', 'fd00:240::/64']
const ranges = subnets.map((subnet) => [{ subnet }])
const routed = { mode: 'ptp', ipMasq: true, removeWhenEmpty: true }
/** Where the outside's new connections to pods come from: without it only answers and host ports pass. */
const nonMasqueradeCIDRs = ['192.0.2.0/24', '2001:db8:1::/64']
const conf = ipamConf({ type: 'host-local', ranges }, { ...routed, nonMasqueradeCIDRs, firewall: {} })
const off = { ...conf, firewall: { hostAccept: 'off' } }
const served = { ...conf, runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80 }] } }

let host: UplinkedHost
beforeEach(() => {
  host = openUplinkedHost()
})
afterEach(() => host.close())

const run = (line: string): string => runLine(host, line).stdout
const listed = () => together.list.map(run).join('')
const ours = () => listed().match(/trestle [^"]*/g) ?? []
const acceptFile = () => stateFiles(host).accept

/** What does not work of: pod to outside, outside to pod and to its host port, pod to pod; ping, TCP and UDP. */
async function broken(): Promise<readonly string[]> {
  const [a, b] = [attach(host, served, { id: 'a' }), attach(host, conf, { id: 'b' })]
  host.atClose(
    await answer(a.netns, 80),
    await answer(host.internet, 90, outside.far4),
    await answer(host.internet, 90, outside.far6),
  )
  const ofA = a.result.ips.map((ip) => ip.address.replace(/\/.*/, ''))
  for (const [at, family] of ['-4', '-6'].entries()) {
    const via = at === 0 ? outside.node4 : outside.node6
    expect(host.inPod(host.internet, 'ip', [family, 'route', 'add', subnets[at] ?? '', 'via', via]).code).toBe(0)
  }
  const asked = [
    ...ask(host, b.netns, [...targetsAt(ofA, 80), ...targetsAt([outside.far4, outside.far6], 90)]),
    ...ask(host, host.internet, targetsAt(ofA, 80)),
    ...ask(
      host,
      host.internet,
      [outside.node4, outside.node6].map((address) => ({ protocol: 'tcp', address, port: 8080 })),
    ),
  ]
  const silent = asked.flatMap((said, at) => (said === '' ? [`socket ${at}`] : []))
  const pinged = [...ofA, outside.far4, outside.far6].filter((address) => !pings(host, b.netns, address))
  for (const pod of [a, b]) expectSilent(later(host, 'DEL', { conf, pod }))
  return [...pinged, ...silent]
}

describe('behind several firewalls, routed pods', () => {
  beforeEach(() => {
    for (const line of together.make) run(line)
  })

  it('are reached and reach others, and the firewall is as it was when the network is gone', async () => {
    const before = listed()
    expect(await broken()).toEqual([])
    expect(listed()).toBe(before)
    expect(existsSync(acceptFile())).toBe(false)
  })

  it('have one accept per chain, whatever their number, until hostAccept is off', () => {
    const before = listed()
    const without = attach(host, off, { id: 'without' })
    expect(listed()).toBe(before)
    expect(pingsOnce(host, without.netns, outside.far4)).toBe(false)
    attach(host, conf, { id: 'a' })
    const first = ours()
    const { places } = JSON.parse(readFileSync(acceptFile(), 'utf8')) as {
      places: []
    }
    expect(first).toEqual(places.map(() => 'trestle accept 0x1000'))
    attach(host, conf, { id: 'b' })
    expect(ours()).toEqual(first)
    attach(host, off, { id: 'c' })
    expect(listed()).toBe(before)
  })
})

describe('the accept of routed pods', () => {
  beforeEach(() => {
    for (const line of foreignTable) run(line)
  })
  const table = () => run('nft list table inet fw')
  const accepts = () => table().match(/trestle [^"]*/g) ?? []
  /** The elements of a set of our table, as nft lists them. */
  const elements = (set: string) =>
    /elements = \{([^}]*)\}/
      .exec(run(`nft list set inet trestle ${set}`))?.[1]
      ?.replace(/ comment "[^"]*"/g, '')
      .trim()
      .split(/,\s+/) ?? []

  it('that somebody removed is named by CHECK, and put again by restore', () => {
    const pod = attach(host, conf)
    expectSilent(later(host, 'CHECK', { conf, pod }))
    expect(accepts()).toEqual(['trestle accept 0x1000'])
    run('nft flush chain inet fw forwarded')
    const answer = later(host, 'CHECK', { conf, pod })
    expectError(answer, 107, 'the accept of mark 0x1000 is missing in nft chain inet fw forwarded')
    restore(host)
    expect(accepts()).toEqual(['trestle accept 0x1000'])
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('goes with trestle uninstall', () => {
    const before = table()
    const pod = attach(host, { ...conf, removeWhenEmpty: false })
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(accepts()).toHaveLength(1)
    expect(host.run('env', [stateWord(host), trestle, 'uninstall', '--apply']).code).toBe(0)
    expect(table()).toBe(before)
    expect(existsSync(acceptFile())).toBe(false)
  })

  it('is for the subnets that pods turn out to have, where IPAM names none', () => {
    const fixed = (net: string) => {
      const ipam = { type: 'static', addresses: [{ address: `${net}.2/24`, gateway: `${net}.1` }] }
      return ipamConf(ipam, { ...routed, firewall: {} })
    }
    const first = attach(host, fixed('10.241.0'), { id: 'a' })
    const second = attach(host, fixed('10.242.0'), { id: 'b' })
    expect(elements('acceptnet4')).toEqual(['10.241.0.0/24', '10.242.0.0/24'])
    for (const pod of [first, second]) expectSilent(later(host, 'DEL', { conf: fixed('10.241.0'), pod }))
    expect([accepts(), elements('acceptnet4')]).toEqual([[], []])
  })
})
