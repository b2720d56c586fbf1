// SPDX-License-Identifier: Apache-2.0
// ipMasq after plugins whose pods have addresses without a subnet (Calico, Cilium, the AWS plugin): what masquerades a
// pod is the pod's own, and goes with it.

import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { restore } from '../../support/damage/breakage.ts'
import { type Host, openHost, type Verb } from '../../support/host.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { stateFiles, stateOf } from '../../support/state-layout.ts'
import { type RoutedPod, routedPod } from '../../support/traffic/routed-pods.ts'
import { addUplink, outside, seenBy, serve } from '../../support/traffic/traffic.ts'

const conf = { cniVersion: '1.0.0', name: 'net', type: 'trestle', ipMasq: true }

let host: Host
let internet: string
beforeEach(() => {
  host = openHost()
  internet = addUplink(host)
  runLine(host, 'sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1')
})
afterEach(() => host.close())

const at = (number: number) => ({ four: `10.1.2.${number}`, six: `fd00:1::${number}` })
const chained = (pod: number) => routedPod(host, `c${pod}`, `cali${pod}`, at(pod).four, at(pod).six)

function call(verb: Verb, { call: of, prevResult }: RoutedPod, more: object = {}) {
  return host.cni(verb, { ...conf, ...more, prevResult }, of)
}

function add(pod: number, more: object = {}): RoutedPod {
  const made = chained(pod)
  const added = call('ADD', made, more)
  expect([added.code, added.stderr], added.stdout).toEqual([0, ''])
  return made
}

/** Elements of all sets of our table: `SET KEY`. */
function elements(): readonly string[] {
  const { nftables } = JSON.parse(host.run('nft', ['-j', 'list', 'table', 'inet', 'trestle']).stdout) as {
    nftables: { set?: { name: string; elem?: object[] } }[]
  }
  return nftables.flatMap(({ set }) => (set?.elem ?? []).map((key) => `${set?.name} ${JSON.stringify(key)}`))
}

const sharedFile = () => stateOf(host, 'net').chainedShared
const shared = () => readFileSync(sharedFile(), 'utf8')

/** The address that a server on the outside, and one in another pod, sees: of each family. */
async function seen(from: RoutedPod, to: RoutedPod | 'outside', [four, six]: readonly [string, string]) {
  const stop = await serve(to === 'outside' ? internet : to.call.netns)
  try {
    return [seenBy(host, from.call.netns, four), seenBy(host, from.call.netns, six)]
  } finally {
    stop()
  }
}

const far = [outside.far4, outside.far6] as const
const node = [outside.node4, outside.node6]
const both = (pod: number) => [at(pod).four, at(pod).six] as const

describe('pods whose addresses have no subnet', () => {
  it('are masqueraded to the outside, keep their address among each other, and leave nothing', async () => {
    const [one, two] = [add(1), add(2)]
    expect(await seen(one, 'outside', far)).toEqual(node)
    expect(await seen(two, 'outside', far)).toEqual(node)
    expect(await seen(one, two, both(2))).toEqual(both(1))
    expect(await seen(two, one, both(1))).toEqual(both(2))
    for (const pod of [one, two]) expectSilent(call('CHECK', pod))
    expectSilent(call('DEL', one))
    expect(elements().filter((each) => /10\.1\.2\.1\b|fd00:1::1\b/.test(each))).toEqual([])
    expect(shared()).not.toMatch(/10\.1\.2\.|fd00:1::/)
    expect(await seen(two, 'outside', far)).toEqual(node)
    expectSilent(call('DEL', two))
    expect(elements()).toEqual([])
    expect(shared()).not.toMatch(/10\.1\.2\.|fd00:1::/)
    expect(readdirSync(stateOf(host, 'net').directoryOf('attachments'))).toEqual([])
  })

  it('keep their address to nonMasqueradeCIDRs, also where one is inside another', async () => {
    runLine(host, 'ip route add 10.1.2.0/24 via 192.0.2.2')
    for (const [word, to] of [
      ['route', '10.1.2.1 via 192.0.2.1'],
      ['-6 route', 'fd00:1::1 via 2001:db8:1::1'],
    ])
      expect(host.inPod(internet, 'ip', `${word} add ${to}`.split(' ')).code).toBe(0)
    const nonMasqueradeCIDRs = ['198.51.100.0/24', `${outside.far4}/32`, '198.51.0.0/16', '2001:db8:2::/64']
    const [one] = [add(1, { nonMasqueradeCIDRs }), add(2, { nonMasqueradeCIDRs })]
    expect(await seen(one, 'outside', far)).toEqual(both(1))
    expect(await seen(one, 'outside', ['192.0.2.2', '2001:db8:1::2'])).toEqual(node)
    expectSilent(call('CHECK', one, { nonMasqueradeCIDRs }))
    expect(elements()).toHaveLength(2 * 2 + 2 * 2)
    expectSilent(call('DEL', one, { nonMasqueradeCIDRs }))
    expect(elements()).toHaveLength(2 + 2)
  })

  it('have elements that grow with the pods, not with their pairs', () => {
    const counted = new Map<number, number>()
    for (let pod = 1; pod <= 6; pod++) {
      add(pod, { nonMasqueradeCIDRs: ['203.0.113.0/24'] })
      counted.set(pod, elements().length)
    }
    // Of each pod both addresses, and one with the destination of its family.
    expect([counted.get(3), counted.get(6)]).toEqual([9, 18])
  })

  it('say in CHECK what is missing, and have it again by restore and by the next ADD', () => {
    const [one, two] = [add(1, { nonMasqueradeCIDRs: ['203.0.113.0/24'] }), add(2)]
    runLine(host, 'nft delete element inet trestle masqhost4 { 10.1.2.1 }')
    runLine(host, 'nft flush set inet trestle keephost4')
    const told = call('CHECK', one)
    expectError(told, 107, 'element 10.1.2.1 is missing from nft set masqhost4')
    expect(told.json?.details).toContain('element 10.1.2.1 203.0.113.0/24 is missing from nft set keephost4')
    restore(host)
    expectSilent(call('CHECK', one))
    runLine(host, 'nft delete table inet trestle')
    add(3)
    for (const pod of [one, two]) expectSilent(call('CHECK', pod))
  })

  it('keep their masquerade until their DEL when ipMasq leaves the configuration', async () => {
    const one = add(1)
    const second = chained(2)
    const added = host.cni('ADD', { ...conf, ipMasq: false, prevResult: second.prevResult }, second.call)
    expect(added.code, added.stdout).toBe(0)
    expect(await seen(one, 'outside', far)).toEqual(node)
    expect(elements()).toHaveLength(2)
    expectSilent(call('CHECK', one))
    expectSilent(call('DEL', one))
    expect(elements()).toEqual([])
  })

  it('beside one with a subnet in the same network leave it its masquerade', () => {
    const made = chained(1)
    const ips = [{ interface: 1, address: '10.1.2.1/24' }]
    expect(call('ADD', { ...made, prevResult: { ...made.prevResult, ips } }).code).toBe(0)
    add(2)
    expect(elements().filter((each) => /^(masq|keep)4/.test(each))).toHaveLength(2)
    expectSilent(call('CHECK', { ...made, prevResult: { ...made.prevResult, ips } }))
  })
})

describe('an address that is given to another pod before the DEL of its first one', () => {
  const [wide, narrow] = [{ nonMasqueradeCIDRs: ['203.0.0.0/16'] }, { nonMasqueradeCIDRs: ['203.0.113.0/24'] }]
  const own = (cidr: string) => elements().filter((each) => each.includes(`"${cidr}"`))

  it('keeps the elements of the second pod', () => {
    const first = add(1, wide)
    const second = routedPod(host, 'second', 'cali1', at(1).four, at(1).six)
    expect(call('ADD', second, narrow).code).toBe(0)
    expectSilent(call('CHECK', second, narrow))
    expectSilent(call('DEL', first, wide))
    expectSilent(call('CHECK', second, narrow))
    expect(own('203.0.0.0')).toEqual([])
    expectSilent(call('DEL', second, narrow))
    expect(elements()).toEqual([])
  })

  it('keeps them also where the pods have no link on the host', () => {
    const pods = ['one', 'two'].map((id): RoutedPod => {
      const netns = host.pod(id)
      expect(host.inPod(netns, 'ip', 'link add eth0 up type bridge'.split(' ')).code).toBe(0)
      const interfaces = [{ name: 'eth0', sandbox: netns }]
      const ips = [{ interface: 0, address: '10.1.2.9/32' }]
      return { call: { id, netns }, prevResult: { cniVersion: '1.0.0', interfaces, ips } }
    })
    const [first, second] = pods as [RoutedPod, RoutedPod]
    expect(call('ADD', first).code).toBe(0)
    host.removePod(first.call.netns)
    expect(call('ADD', second).code).toBe(0)
    expectSilent(call('DEL', first))
    expectSilent(call('CHECK', second))
    expectSilent(call('DEL', second))
    expect(elements()).toEqual([])
  })
})

describe('pods whose state was lost', () => {
  const noMasq = { nonMasqueradeCIDRs: ['203.0.113.0/24'] }
  const of = (pod: number) => elements().filter((each) => new RegExp(`"(10\\.1\\.2\\.|fd00:1::)${pod}"`).test(each))

  it.each([
    ['there', false],
    ['gone', true],
  ])('leave nothing after a DEL when their namespace is %s, and others their masquerade', (_, isGone) => {
    const [one] = [add(1, noMasq), add(2, noMasq)]
    const theirs = of(2)
    expect(theirs).toHaveLength(3)
    rmSync(stateFiles(host).networks, { recursive: true })
    if (isGone) host.removePod(one.call.netns)
    expectSilent(call('DEL', isGone ? { ...one, call: { ...one.call, netns: '' } } : one, noMasq))
    expect(elements()).toEqual(theirs)
  })
})
