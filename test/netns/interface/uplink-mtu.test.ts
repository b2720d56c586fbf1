// SPDX-License-Identifier: Apache-2.0
// `mtu: auto`: the smallest MTU of the links with a default route, IPv4's and IPv6's, and no other link's.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { environment, type Host, openHost, trestle } from '../../support/host.ts'
import { stateEnv } from '../../support/state-layout.ts'
import { attach, netConf } from '../../support/traffic/pods.ts'

const conf = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

/** A link of the node to a neighbour, with addresses of both families. `at`: the number in both. */
function addLink(name: string, at: number, mtu: number): void {
  const lines = [
    `link add ${name} mtu ${mtu} type veth peer name ${name}far`,
    `addr add 192.0.${at}.1/24 dev ${name}`,
    `addr add 2001:db8:${at}::1/64 dev ${name} nodad`,
    `link set ${name}far up`,
    `link set ${name} up`,
  ]
  expect(host.run('ip', ['-batch', '-'], `${lines.join('\n')}\n`).stderr).toBe('')
}

function addDefault(family: 4 | 6, dev: string, at: number): void {
  const via = family === 4 ? `192.0.${at}.2` : `2001:db8:${at}::2`
  expect(
    host.run('ip', [`-${family}`, 'route', 'add', 'default', 'via', via, 'dev', dev, 'metric', `${at}`]).stderr,
  ).toBe('')
}

function addRoutes(count: number, dev: string): void {
  const routes = Array.from({ length: count }, (_, at) => `route add fd00:${at.toString(16)}::/64 dev ${dev}\n`)
  expect(host.run('ip', ['-batch', '-'], routes.join('')).stderr).toBe('')
}

const mtuOf = (id: string) => attach(host, conf, { id }).result.interfaces.map((each) => each.mtu)

describe('the MTU of pods is that of', () => {
  it.each<[string, readonly (readonly [4 | 6, 'one' | 'two'])[], number]>([
    ['the usual Ethernet without a default route', [], 1500],
    ['the IPv4 default route', [[4, 'one']], 1450],
    ['the IPv6 default route, where there is no other', [[6, 'one']], 1450],
    [
      'the smaller of both families, IPv6',
      [
        [4, 'one'],
        [6, 'two'],
      ],
      1400,
    ],
    [
      'the smaller of both families, IPv4',
      [
        [4, 'two'],
        [6, 'one'],
      ],
      1400,
    ],
    [
      'the smaller of two IPv6 default routes',
      [
        [6, 'one'],
        [6, 'two'],
      ],
      1400,
    ],
    [
      'no link that a default route does not use',
      [
        [4, 'one'],
        [6, 'one'],
      ],
      1450,
    ],
  ])('%s', (_, defaults, mtu) => {
    addLink('one', 1, 1450)
    addLink('two', 2, 1400)
    for (const [family, dev] of defaults) addDefault(family, dev, dev === 'one' ? 1 : 2)
    expect(mtuOf('a')).toEqual([mtu, mtu, mtu])
  })

  it.each([["the link's IPv6 MTU for others", ['10.240.0.0/24', 'fd00:240::/64'], 1300]])('%s', (_, podcidr, mtu) => {
    addLink('one', 1, 1450)
    addDefault(4, 'one', 1)
    addDefault(6, 'one', 1)
    expect(host.run('sysctl', ['-qw', 'net.ipv6.conf.one.mtu=1300']).stderr).toBe('')
    const env = environment('ADD', { netns: host.pod('a'), env: stateEnv(host) })
    const words = Object.entries(env).map(([key, value]) => `${key}=${value}`)
    // A runtime's /sys is the node's: `ip netns exec` mounts it anew.
    const onNode = ['netns', 'exec', host.name, 'env', '-i', ...words, trestle]
    const added = host.run('ip', onNode, JSON.stringify(netConf({ podcidr })))
    expect(added.stdout + added.stderr).toContain(`"mtu":${mtu},`)
  })

  it('the IPv6 default route, which the kernel lists after all others', () => {
    addLink('one', 1, 1450)
    addDefault(6, 'one', 1)
    addRoutes(3000, 'one')
    expect(mtuOf('a')).toEqual([1450, 1450, 1450])
  })

  it('the IPv6 default route of the main table behind that of another table', () => {
    addLink('one', 1, 1450)
    addLink('two', 2, 1400)
    expect(host.run('ip', '-6 route add default via 2001:db8:1::2 dev one table 100'.split(' ')).stderr).toBe('')
    addDefault(6, 'two', 2)
    // The kernel gives a page at a time: some 27 routes.
    addRoutes(200, 'one')
    expect(mtuOf('a')).toEqual([1400, 1400, 1400])
  })
})
