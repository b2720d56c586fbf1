// SPDX-License-Identifier: Apache-2.0
// Routes inside the pod and on the host: what is asked for is really installed, and what somebody else made stays.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { addressesOf, attach, inPodJson, ipamConf, later, netConf, onHostJson } from '../../support/traffic/pods.ts'

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

const dual = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })
const second = netConf({ name: 'second', bridge: 'br-second', podcidr: ['10.250.0.0/24', 'fd00:250::/64'] })
const defaults = (netns: string, family: '-4' | '-6' = '-4') =>
  inPodJson(host, netns, [family, 'route', 'show', 'default'])

describe('routes of the configuration', () => {
  it('are installed with mtu, advmss, priority, table and scope', () => {
    const routes = [
      { dst: '10.1.0.0/16', gw: '10.240.0.9', mtu: 1300, advmss: 1200, priority: 50 },
      { dst: '10.2.0.0/16', table: 100 },
      { dst: '10.3.0.0/16', priority: 7 },
      { dst: '10.4.0.0/16', table: 0, priority: 0 },
      { dst: '2001:db8::/32', mtu: 1290 },
    ]
    const ranges = [[{ subnet: '10.240.0.0/24' }], [{ subnet: 'fd00:240::/64' }]]
    const conf = ipamConf({ type: 'trestle', ranges, routes })
    const pod = attach(host, conf)
    const show = (...words: string[]) => inPodJson(host, pod.netns, ['route', 'show', ...words])[0]
    expect(show('10.1.0.0/16')).toMatchObject({
      gateway: '10.240.0.9',
      metric: 50,
      metrics: [{ mtu: 1300, advmss: 1200 }],
    })
    expect(show('10.2.0.0/16')).toBeUndefined()
    expect(show('table', '100', '10.2.0.0/16')).toMatchObject({ gateway: '10.240.0.1', dev: 'eth0' })
    expect(show('10.3.0.0/16')).toMatchObject({ gateway: '10.240.0.1', metric: 7 })
    expect(show('10.4.0.0/16')).toMatchObject({ gateway: '10.240.0.1', dev: 'eth0' })
    const route6 = inPodJson(host, pod.netns, ['-6', 'route', 'show', '2001:db8::/32'])[0]
    expect(route6).toMatchObject({ gateway: 'fd00:240::1', metrics: [{ mtu: 1290 }] })
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it.each([
    ['has none', { type: 'static', addresses: [{ address: '10.240.0.5/24' }] }],
    ['has one', { type: 'trestle', subnet: '10.240.0.0/24' }],
  ])('may be on link: scope 253 and no gateway, where the address %s', (_, ipam) => {
    const conf = netConf({ podcidr: undefined, ipam: { ...ipam, routes: [{ dst: '10.5.0.0/16', scope: 253 }] } })
    const pod = attach(host, conf)
    expect(inPodJson(host, pod.netns, ['route', 'show', '10.5.0.0/16'])[0]).toMatchObject({
      scope: 'link',
      dev: 'eth0',
    })
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('of IPv6 have the gateway whatever their scope, as with upstream', () => {
    const routes = [{ dst: '2001:db8::/32', scope: 253 }]
    const conf = ipamConf({ type: 'trestle', subnet: 'fd00:240::/64', routes })
    const pod = attach(host, conf)
    const route = inPodJson(host, pod.netns, ['-6', 'route', 'show', '2001:db8::/32'])[0]
    expect(route).toMatchObject({ gateway: 'fd00:240::1' })
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it.each([{ mode: 'bridge' }, { mode: 'ptp' }, { sbr: {} }])(
    'are in the result with their host bits, which the kernel does not take, with %j',
    (more) => {
      const before = snapshot(host)
      const ranges = [[{ subnet: '10.240.0.0/24' }], [{ subnet: 'fd00:240::/64' }]]
      const routes = [
        { dst: '10.1.2.3/16', gw: '10.240.0.1' },
        { dst: '2001:db8:2::1/64', gw: 'fd00:240::1' },
      ]
      const conf = ipamConf({ type: 'trestle', ranges, routes }, more)
      const pod = attach(host, conf)
      expect(pod.result.routes.slice(0, 2)).toEqual(routes)
      for (const dst of ['10.1.0.0/16', '2001:db8:2::/64']) {
        const shown = inPodJson(host, pod.netns, ['route', 'show', 'table', 'all', dst])
        expect(shown[0], dst).toMatchObject({ dev: 'eth0' })
      }
      expectSilent(later(host, 'CHECK', { conf, pod }))
      host.inPod(pod.netns, 'ip', ['route', 'flush', 'table', 'all', '10.1.0.0/16'])
      expectError(later(host, 'CHECK', { conf, pod }), 107, 'route to 10.1.0.0/16')
      expectSilent(later(host, 'DEL', { conf, pod }))
      expectNothingLeft(host, before)
    },
  )

  it('that the kernel would refuse, by a gateway on no link, fail ADD and leave the pod empty', () => {
    const conf = ipamConf({
      type: 'trestle',
      subnet: '10.240.0.0/24',
      routes: [{ dst: '10.1.0.0/16', gw: '172.31.0.1' }],
    })
    const netns = host.pod('a')
    const before = snapshot(host)
    expectError(host.cni('ADD', conf, { netns }), 7, '10.1.0.0/16')
    expect(inPodJson(host, netns, ['link', 'show'])).toHaveLength(1)
    expectNothingLeft(host, before)
  })

  it('of the default in ipam.routes and isDefaultGateway are one route', () => {
    const pod = attach(host, ipamConf({ type: 'trestle', subnet: '10.240.0.0/24', routes: [{ dst: '0.0.0.0/0' }] }))
    expect(defaults(pod.netns)).toMatchObject([{ gateway: '10.240.0.1', dev: 'eth0' }])
    expect(pod.result.routes).toEqual([{ dst: '0.0.0.0/0' }])
  })

  it('of the default with a gateway and a metric are in place of that of isDefaultGateway', () => {
    const routes = [{ dst: '0.0.0.0/0', gw: '10.240.0.77', priority: 50 }]
    const conf = ipamConf({ type: 'trestle', subnet: '10.240.0.0/24', routes })
    const pod = attach(host, conf)
    expect(defaults(pod.netns)).toMatchObject([{ gateway: '10.240.0.77', metric: 50 }])
    expect(defaults(pod.netns)).toHaveLength(1)
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })
})

describe('routes of a routed pod', () => {
  it('may go through a neighbour in the subnet, which the upstream ptp sets as well', () => {
    const routes = [{ dst: '10.1.0.0/16', gw: '10.240.0.9' }, { dst: '0.0.0.0/0' }]
    const conf = ipamConf({ type: 'trestle', subnet: '10.240.0.0/24', routes }, { mode: 'ptp' })
    const pod = attach(host, conf)
    const route = inPodJson(host, pod.netns, ['route', 'show', '10.1.0.0/16'])[0]
    expect(route).toMatchObject({ gateway: '10.240.0.9', dev: 'eth0', flags: ['onlink'] })
    expect(defaults(pod.netns)).toMatchObject([{ gateway: '10.240.0.1', flags: [] }])
    expect(pod.result.routes).toEqual(routes)
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('need a gateway: an address without one is refused and leaves nothing', () => {
    const conf = netConf({
      podcidr: undefined,
      mode: 'ptp',
      ipam: { type: 'static', addresses: [{ address: '10.240.0.5/24' }] },
    })
    const netns = host.pod('a')
    const before = snapshot(host)
    expectError(host.cni('ADD', conf, { netns }), 7, '10.240.0.5/24 has no gateway')
    expect(inPodJson(host, netns, ['link', 'show'])).toHaveLength(1)
    expectNothingLeft(host, before)
  })
})

describe('a second default route on net1', () => {
  it('is not added: that of eth0 stays alone, and the result does not name it', () => {
    const first = attach(host, dual)
    const added = attach(host, second, { netns: first.netns, ifName: 'net1' })
    expect(defaults(first.netns)).toMatchObject([{ gateway: '10.240.0.1', dev: 'eth0' }])
    expect(defaults(first.netns, '-6')).toMatchObject([{ gateway: 'fd00:240::1', dev: 'eth0' }])
    expect(added.result.routes).toBeUndefined()
    expect(addressesOf(host, first.netns, 'net1')).toEqual(['10.250.0.2/24', 'fd00:250::2/64'])
    expectSilent(later(host, 'CHECK', { conf: second, pod: added }))
    expectSilent(later(host, 'CHECK', { conf: dual, pod: first }))
  })

  it.each([
    ['with another metric', ['metric', '500']],
    ['of somebody else', []],
  ])('is not added beside one %s', (_, words) => {
    const netns = host.pod('a')
    const run = (args: string) => expect(host.inPod(netns, 'ip', args.split(' ')).code, args).toBe(0)
    run('link add eth0 type veth peer name far')
    run('addr add 172.20.0.2/24 dev eth0')
    run('addr add fd00:20::2/64 dev eth0 nodad')
    run('link set eth0 up')
    run('link set far up')
    run(['route add default via 172.20.0.1 dev eth0', ...words].join(' '))
    run(['-6 route add default via fd00:20::1 dev eth0', ...words].join(' '))
    const added = attach(host, second, { netns, ifName: 'net1' })
    expect(defaults(netns)).toMatchObject([{ gateway: '172.20.0.1', dev: 'eth0' }])
    expect(defaults(netns, '-6')).toMatchObject([{ gateway: 'fd00:20::1', dev: 'eth0' }])
    expect(added.result.routes).toBeUndefined()
    expectSilent(later(host, 'CHECK', { conf: second, pod: added }))
  })

  it('stays that of eth0 when net1 goes', () => {
    const first = attach(host, dual)
    const added = attach(host, second, { netns: first.netns, ifName: 'net1' })
    expectSilent(later(host, 'DEL', { conf: second, pod: added }))
    expect(defaults(first.netns)).toMatchObject([{ gateway: '10.240.0.1', dev: 'eth0' }])
    expectSilent(later(host, 'CHECK', { conf: dual, pod: first }))
  })
})

describe('the gateway', () => {
  it('keeps its MAC while pods come and go', () => {
    const mac = () => onHostJson(host, ['link', 'show', 'cni0'])[0]?.address
    const first = attach(host, netConf(), { id: 'a' })
    const made = mac()
    expect(first.result.interfaces[0]?.mac).toBe(made)
    for (const id of ['b', 'c', 'd']) {
      const pod = attach(host, netConf(), { id })
      expect(mac()).toBe(made)
      expectSilent(later(host, 'DEL', { conf: netConf(), pod }))
      expect(mac()).toBe(made)
    }
    expectSilent(later(host, 'DEL', { conf: netConf(), pod: first }))
    expect(attach(host, netConf(), { id: 'e' }).result.interfaces[0]?.mac).toBe(made)
  })
})
