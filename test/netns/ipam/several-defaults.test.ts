// SPDX-License-Identifier: Apache-2.0
// Default routes of equal metric in ipam.routes: all are installed, as with the upstream bridge and ptp, and the
// result names what the kernel has.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { attach, ipamConf, later, type Pod } from '../../support/traffic/pods.ts'

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

const two = (net: string) => ['4', '5'].map((last) => ({ dst: '0.0.0.0/0', gw: `10.${net}.0.${last}` }))
const two6 = (net: string) => ['4', '5'].map((last) => ({ dst: '::/0', gw: `fd00:${net}::${last}` }))

function confOf(net: string, more: Readonly<Record<string, unknown>>) {
  const ranges = [[{ subnet: `10.${net}.0.0/24` }], [{ subnet: `fd00:${net}::/64` }]]
  return ipamConf({ type: 'trestle', ranges, routes: [...two(net), ...two6(net)] }, more)
}

/** Gateways of the pod's default routes, in the kernel's order. */
function gateways({ netns }: Pod, family: '-4' | '-6'): readonly string[] {
  const { stdout } = host.inPod(netns, 'ip', [family, 'route', 'show', 'default'])
  return [...stdout.matchAll(/via (\S+) dev eth0/g)].map(([, gateway = '']) => gateway)
}

describe.each(['bridge', 'ptp'])('two default routes, mode %s', (mode) => {
  const conf = confOf('240', { mode })

  it('are both there, the first one first, and CHECK misses either', () => {
    const pod = attach(host, conf)
    expect(pod.result.routes).toEqual([...two('240'), ...two6('240')])
    expect(gateways(pod, '-4')).toEqual(two('240').map(({ gw }) => gw))
    expect(gateways(pod, '-6')).toEqual(two6('240').map(({ gw }) => gw))
    expectSilent(later(host, 'CHECK', { conf, pod }))
    for (const gw of ['10.240.0.5', 'fd00:240::4']) {
      const family = gw.includes(':') ? '-6' : '-4'
      expect(host.inPod(pod.netns, 'ip', [family, 'route', 'del', 'default', 'via', gw]).code).toBe(0)
      expectError(later(host, 'CHECK', { conf, pod }), 107, `via ${gw} dev eth0 is different`)
    }
  })

  it.each([[''], ['metric 500']])('are neither added beside one that the pod has: default %s', (metric) => {
    const first = attach(host, confOf('240', { mode, isDefaultGateway: false }))
    for (const [family, gw] of [['-4', '10.240.0.9'] as const, ['-6', 'fd00:240::9'] as const]) {
      const line = `route replace default via ${gw} dev eth0 onlink ${metric}`.trim().split(' ')
      expect(host.inPod(first.netns, 'ip', [family, 'route', 'flush', 'exact', 'default']).code).toBe(0)
      expect(host.inPod(first.netns, 'ip', [family, ...line]).code).toBe(0)
    }
    const second = confOf('250', { mode, name: 'second', bridge: 'br-second' })
    const added = attach(host, second, { netns: first.netns, ifName: 'net1' })
    expect([gateways(first, '-4'), gateways(first, '-6')]).toEqual([['10.240.0.9'], ['fd00:240::9']])
    const left = host.inPod(first.netns, 'ip', ['route', 'show', 'default', 'dev', 'net1'])
    expect(left).toMatchObject({ code: 0, stdout: '' })
    expect(added.result.routes).toBeUndefined()
    expectSilent(later(host, 'CHECK', { conf: second, pod: added }))
  })
})

it('two times the same one is one', () => {
  const again = { dst: '0.0.0.0/0', gw: '10.240.0.4' }
  const conf = ipamConf({ type: 'trestle', subnet: '10.240.0.0/24', routes: [again, again] })
  const pod = attach(host, conf)
  expect(gateways(pod, '-4')).toEqual(['10.240.0.4'])
  expectSilent(later(host, 'CHECK', { conf, pod }))
})
