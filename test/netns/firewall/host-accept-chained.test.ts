// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept chained after a plugin that uses no bridge: after ptp the subnets of the pods are accepted where
// others drop, and taken out again; after macvlan, whose packets are not forwarded, nothing is put.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { restore } from '../../support/damage/breakage.ts'
import { foreignTable } from '../../support/foreign-firewalls.ts'
import { type Host, openHost } from '../../support/host.ts'
import { expectError, expectSilent, runLine } from '../../support/outcome.ts'
import { addUplink, outside, pings, pingsOnce } from '../../support/traffic/traffic.ts'
import { attachChain, type Chain, checkSecond, detachChain, missingPlugins } from '../../support/upstream.ts'

const subnets = ['10.70.0.0/24', 'fd00:70::/64']
const missing = missingPlugins(['ptp', 'macvlan', 'host-local'])

let host: Host
beforeEach(() => {
  host = openHost()
  addUplink(host)
  host.run('sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'])
  for (const line of foreignTable) runLine(host, line)
})
afterEach(() => host.close())

function chainOf(first: { readonly type: string }, firewall: object, ranges = subnets): Chain {
  const routes = [{ dst: '0.0.0.0/0' }, { dst: '::/0' }]
  const sets = ranges.map((subnet) => [{ subnet }])
  const ipam = { type: 'host-local', dataDir: `/var/lib/cni/${host.name}`, ranges: sets, routes }
  const named = { cniVersion: '1.0.0', name: 'net' }
  return {
    first: { ...named, ...first, ipam } as Chain['first'],
    second: { ...named, type: 'trestle', ipMasq: true, removeWhenEmpty: true, firewall },
  }
}

const table = () => host.run('nft', ['-s', 'list', 'table', 'inet', 'fw']).stdout
const accepts = () => table().match(/trestle [^"]*/g) ?? []
const one = ['trestle accept 0x1000']

describe.skipIf(missing)(`hostAccept chained${missing ? ` (${missing})` : ''}`, () => {
  it('after ptp: pods reach the outside, by one accept, until the last one is gone', async () => {
    const before = table()
    const [chain, off] = [chainOf({ type: 'ptp' }, {}), chainOf({ type: 'ptp' }, { hostAccept: 'off' })]
    const closed = attachChain(host, off, { id: 'closed' })
    expect([pingsOnce(host, closed.netns, outside.far4), accepts()]).toEqual([false, []])
    const pods = ['a', 'b'].map((id) => attachChain(host, chain, { id }))
    expect(accepts()).toEqual(one)
    for (const pod of [closed, ...pods]) {
      expect(pings(host, pod.netns, outside.far4)).toBe(true)
      // ptp's IPv6 works once its own end has passed DAD.
      expect(pings(host, pod.netns, outside.far6)).toBe(true)
    }
    for (const pod of pods) expectSilent(checkSecond(host, chain, pod))
    for (const pod of pods) detachChain(host, chain, pod)
    expect(accepts()).toEqual(one)
    detachChain(host, off, closed)
    expect(table()).toBe(before)
  })

  it('after ptp: what somebody removed is named by CHECK and put again by restore; hostAccept off takes it out', () => {
    const chain = chainOf({ type: 'ptp' }, {})
    const pod = attachChain(host, chain, { id: 'a' })
    expect(host.run('nft', ['flush', 'chain', 'inet', 'fw', 'forwarded']).code).toBe(0)
    expectError(checkSecond(host, chain, pod), 107, 'the accept of mark 0x1000 is missing')
    restore(host)
    expect(accepts()).toEqual(one)
    expectSilent(checkSecond(host, chain, pod))
    attachChain(host, chainOf({ type: 'ptp' }, { hostAccept: 'off' }), { id: 'b' })
    expect(accepts()).toEqual([])
  })

  it('after macvlan: nothing is put', () => {
    const before = table()
    const chain = chainOf({ type: 'macvlan', master: 'up0' } as Chain['first'], {}, ['198.51.100.128/25'])
    const pod = attachChain(host, chain, { id: 'a' })
    expect(table()).toBe(before)
    expectSilent(checkSecond(host, chain, pod))
  })
})
