// SPDX-License-Identifier: Apache-2.0
// CHECK with one thing broken at a time: it names that thing, and nothing that is well. What pods
// share is put right by the next ADD.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Answer, type Host, openHost } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { networkStateAt } from '../../support/state-layout.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const conf = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })
const far = { dst: '10.99.0.0/16', gw: '10.240.0.1' }

let host: Host
let pod: Pod
beforeEach(() => {
  host = openHost()
  pod = attach(host, conf)
})
afterEach(() => host.close())

/** Words of a command line; VETH and STATE stand for this pod's link and the state directory. */
function run(line: string): void {
  const words = line.replace('VETH', pod.hostLink).replace('STATE', host.stateDir).split(' ')
  const done =
    words[0] === 'pod' ? host.inPod(pod.netns, 'ip', words.slice(1)) : host.run(words[0] ?? '', words.slice(1))
  expect(done.code, `${line}: ${done.stderr}`).toBe(0)
}

/** The differences CHECK names, each on its line. */
function differences(prevResult: unknown = pod.result): readonly string[] {
  const answer = host.cni('CHECK', { ...conf, prevResult }, pod.call)
  expectError(answer, 107)
  return answer.json?.details.split('\n') ?? []
}

/** One breakage: what is done, what CHECK must say, and what else may follow from it. */
type Breakage = readonly [what: string, lines: readonly string[], said: RegExp, also?: RegExp]

const net = networkStateAt('STATE', 'net')

const ofPod: readonly Breakage[] = [
  [
    "the pod's link is down",
    ['pod link set eth0 down'],
    /^eth0 is down$/,
    /^route to |^fd00:240::2\/64 is missing on eth0$/,
  ],
  [
    "the pod's MAC is another",
    ['pod link set eth0 address 0a:00:00:00:00:01'],
    /^MAC of eth0 is 0a:00:00:00:00:01, not /,
  ],
  [
    'an IPv4 address is gone',
    ['pod addr del 10.240.0.2/24 dev eth0'],
    /^10\.240\.0\.2\/24 is missing on eth0$/,
    /^route to 0\.0\.0\.0\/0/,
  ],
  [
    'an IPv6 address is gone',
    ['pod addr del fd00:240::2/64 dev eth0'],
    /^fd00:240::2\/64 is missing on eth0$/,
    /^route to ::\/0/,
  ],
  [
    'the IPv4 default route is gone',
    ['pod route del default'],
    /^route to 0\.0\.0\.0\/0 via 10\.240\.0\.1 dev eth0 is missing$/,
  ],
  [
    'the IPv6 default route is gone',
    ['pod -6 route del default'],
    /^route to ::\/0 via fd00:240::1 dev eth0 is missing$/,
  ],
  [
    'the default route is another',
    ['pod route replace default via 10.240.0.77 dev eth0'],
    /^route to 0\.0\.0\.0\/0 via 10\.240\.0\.1 dev eth0 is different$/,
  ],
  ["the pod's MTU is another", ['pod link set eth0 mtu 1400'], /^MTU of eth0 is 1400, not 1500$/],
  [
    "the pod's link is gone",
    ['pod link del eth0'],
    /^eth0 is missing$/,
    /^(veth\w+|eth0) is missing$|^route to |is missing on eth0$|veth\w+\.accept_ra is absent/,
  ],
  ["the host's end is down", ['ip link set VETH down'], /^veth\w+ is down$/],
  ["the host's end has another MTU", ['ip link set VETH mtu 1400'], /^MTU of veth\w+ is 1400, not 1500$/],
  [
    "the host's end has another MAC",
    ['ip link set VETH address 0a:00:00:00:00:02'],
    /^MAC of veth\w+ is 0a:00:00:00:00:02, not /,
  ],
  [
    "the host's end is not on the bridge",
    ['ip link set VETH nomaster'],
    /^bridge of veth\w+ is none, not cni0$/,
    /^(hairpin|isolation) of veth/,
  ],
  ['hairpin is off', ['ip link set VETH type bridge_slave hairpin off'], /^hairpin of veth\w+ is off, not on$/],
  ['the port is isolated', ['ip link set VETH type bridge_slave isolated on'], /^isolation of veth\w+ is on, not off$/],
  ['a reservation is gone', [`rm ${net.address('10.240.0.2')}`], /^the reservation of 10\.240\.0\.2 is missing$/],
  ['the record is gone', [`rm ${net.finished('c1')}`], /^no record of this attachment in /],
]

const shared: readonly Breakage[] = [
  [
    'the bridge is down',
    ['ip link set cni0 down'],
    /^cni0 is down$/,
    /^(fd00:240::1|fe80::[0-9a-f:]+)\/64 is missing on cni0$/,
  ],
  ['the IPv4 gateway is gone', ['ip addr del 10.240.0.1/24 dev cni0'], /^10\.240\.0\.1\/24 is missing on cni0$/],
  ['the IPv6 gateway is gone', ['ip addr del fd00:240::1/64 dev cni0'], /^fd00:240::1\/64 is missing on cni0$/],
  [
    'the bridge is gone',
    ['ip link del cni0'],
    /^cni0 is missing$/,
    /^cni0 is missing$|^bridge of veth|^(hairpin|isolation) of veth|cni0\.accept_ra is absent/,
  ],
  [
    'the masquerade rules are gone',
    ['nft flush chain inet trestle postrouting'],
    /masquerade4" is missing from postrouting$/,
    /^nft rule ".*" is missing from postrouting$/,
  ],
  [
    'the chain is gone',
    ['nft flush chain inet trestle postrouting', 'nft delete chain inet trestle postrouting'],
    /^nft chain postrouting is missing$/,
  ],
  [
    'the subnet is not in the set',
    ['nft delete element inet trestle masq4 { 10.240.0.0/24 }'],
    /^element 10\.240\.0\.0\/24 is missing from nft set masq4$/,
  ],
  [
    'the table is gone',
    ['nft delete table inet trestle'],
    /^nft table inet trestle is missing$/,
    /^element .* is missing from nft set /,
  ],
  ['IPv4 forwarding is off', ['sysctl -qw net.ipv4.ip_forward=0'], /^net\.ipv4\.ip_forward is 0, not 1$/],
  [
    'IPv6 forwarding is off',
    ['sysctl -qw net.ipv6.conf.all.forwarding=0'],
    /^net\.ipv6\.conf\.all\.forwarding is 0, not 1$/,
  ],
]

function expectNamed([, lines, said, also]: Breakage): void {
  expectSilent(later(host, 'CHECK', { conf, pod }))
  for (const line of lines) run(line)
  const found = differences()
  expect(
    found.filter((line) => said.test(line)),
    found.join('\n'),
  ).not.toEqual([])
  expect(found.filter((line) => !said.test(line) && !also?.test(line))).toEqual([])
}

describe('CHECK names it when', () => {
  it.each(ofPod.map((breakage) => [breakage[0], breakage] as const))('%s', (_, breakage) => expectNamed(breakage))

  it.each(shared.map((breakage) => [breakage[0], breakage] as const))(
    '%s, and the next ADD puts it right',
    (_, breakage) => {
      expectNamed(breakage)
      const next = attach(host, conf, { id: 'c2' })
      expectSilent(later(host, 'CHECK', { conf, pod }))
      expectSilent(later(host, 'CHECK', { conf, pod: next }))
      for (const { netns } of [pod, next]) {
        for (const gateway of ['10.240.0.1', 'fd00:240::1']) {
          expect(host.inPod(netns, 'ping', ['-c1', '-w10', gateway]).code, `${netns} to ${gateway}`).toBe(0)
        }
      }
    },
  )

  it('several things are broken: it names all of them', () => {
    for (const line of ['pod route del default', `rm ${net.address('10.240.0.2')}`, 'nft delete table inet trestle'])
      run(line)
    const found = differences().join('\n')
    for (const part of ['route to 0.0.0.0/0', 'reservation of 10.240.0.2', 'nft table inet trestle'])
      expect(found).toContain(part)
  })

  it('prevResult is of another namespace or has no such interface', () => {
    const moved = { ...pod.result.interfaces[2], sandbox: '/run/netns/other' }
    const elsewhere = { ...pod.result, interfaces: [...pod.result.interfaces.slice(0, 2), moved] }
    expect(differences(elsewhere).join('\n')).toContain('/run/netns/other')
    expect(differences({ ...pod.result, interfaces: [] }).join('\n')).toContain('prevResult has no interface eth0')
  })
})

describe('CHECK', () => {
  it('takes what later plugins changed from prevResult: MAC, routes, MTU', () => {
    for (const line of ['pod link set eth0 address 0a:00:00:00:00:09 mtu 1400', 'pod route del default']) run(line)
    const { interfaces, routes } = pod.result
    const changed = {
      ...pod.result,
      interfaces: [...interfaces.slice(0, 2), { ...interfaces[2], mac: '0A:00:00:00:00:09', mtu: 1400 }],
      routes: routes.filter((route) => route.dst !== '0.0.0.0/0'),
    }
    expectSilent(host.cni('CHECK', { ...conf, prevResult: changed }, pod.call))
  })

  it.each<[string, (result: Answer) => object, string]>([
    ['a route', ({ routes }) => ({ routes: [...routes, far] }), 'route to 10.99.0.0/16 via 10.240.0.1 of prevResult'],
    [
      'a route in place of ours',
      ({ routes }) => ({ routes: routes.map((route) => (route.dst === '::/0' ? { dst: 'fd99::/64' } : route)) }),
      'route to fd99::/64 of prevResult',
    ],
    ['an address', ({ ips }) => ({ ips: [...ips, { address: '10.240.0.9/24' }] }), '10.240.0.9/24 of prevResult'],
  ])('names %s of prevResult that the pod does not have', (_, change, said) => {
    expect(differences({ ...pod.result, ...change(pod.result) })).toEqual([`${said} is missing in the pod`])
  })

  it("names the host's end that prevResult does not have", () => {
    const interfaces = pod.result.interfaces.filter(({ name }) => name !== pod.hostLink)
    const ips = pod.result.ips.map((ip) => ({ ...ip, interface: 1 }))
    expect(differences({ ...pod.result, interfaces, ips })).toEqual([`prevResult has no interface ${pod.hostLink}`])
  })

  it('finds what a later plugin added: routes in whatever table and on whatever link, and addresses elsewhere', () => {
    for (const line of [
      'pod link add more type bridge',
      'pod link set more up',
      'pod addr add 10.240.0.9/24 dev more',
      'pod route add 10.99.0.0/16 via 10.240.0.1 table 100',
      'pod route add 10.98.0.0/16 dev more',
      'pod -6 route add fd99::/64 via fd00:240::1 table 777',
      'pod -6 route add fd98::1 dev eth0',
    ])
      run(line)
    const { ips, routes } = pod.result
    const more = [
      ...[
        far,
        { dst: '10.98.0.0/16', gw: '0.0.0.0' },
        { dst: 'fd99::1/64', gw: 'FD00:240:0::1' },
        { dst: 'fd98::1/128' },
      ],
      { dst: '10.99.0.0/16', table: 5 },
      // Upstream sbr with gateways: another default route, of which the result does not tell.
      { dst: '0.0.0.0/0', gw: '10.240.0.77' },
    ]
    const elsewhere = [
      { address: '10.240.0.9/24' },
      { address: '172.20.0.9/24' },
      { address: '10.240.0.77/24', interface: 0 },
    ]
    const result = { ...pod.result, ips: [...ips, ...elsewhere], routes: [...routes, ...more] }
    expectSilent(host.cni('CHECK', { ...conf, prevResult: result }, pod.call))
  })

  it.each([
    [
      'a destination that keeps the address',
      netConf({ podcidr: '10.244.0.0/24', nonMasqueradeCIDRs: ['192.0.2.1/32', '10.0.0.0/8'] }),
    ],
    [
      'the pod has',
      netConf({
        podcidr: undefined,
        mode: 'ptp',
        ipMasq: true,
        ipam: {
          type: 'static',
          addresses: [
            { address: '10.9.0.2/32', gateway: '169.254.1.1' },
            { address: 'fd00:9::2/128', gateway: 'fe80::1' },
          ],
        },
      }),
    ],
  ])('finds a prefix of one address, which nft prints as an address: %s', (_, alone) => {
    const one = { ...alone, name: 'one', bridge: 'br-one' }
    expectSilent(later(host, 'CHECK', { conf: one, pod: attach(host, one, { id: 'one' }) }))
  })

  it('does not compare rules of another version of trestle, which the next ADD renews', () => {
    const listed = host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout
    const other = listed
      .replace(/^.* comment "trestle \d+ itself[46]"\n/gm, '')
      .replace(/"trestle \d+ /g, '"trestle 6 ')
    expect(other).not.toContain('itself')
    expect(host.run('nft', ['-f', '-'], `delete table inet trestle\n${other}`).stderr).toBe('')
    const checked = later(host, 'CHECK', { conf, pod })
    expectSilent(checked)
    expect(checked.stderr).toMatch(/^trestle: CHECK: rules .* are not compared.*\n$/)
    run('ip link set VETH down')
    expect(differences()).toContain(`${pod.hostLink} is down`)
    run('ip link set VETH up')
    attach(host, conf, { id: 'c2' })
    expect(later(host, 'CHECK', { conf, pod })).toMatchObject({ code: 0, stderr: '' })
  })

  it('without prevResult is refused, and with that of another container too', () => {
    expectError(host.cni('CHECK', conf, pod.call), 7, 'prevResult')
    expectError(host.cni('CHECK', { ...conf, prevResult: pod.result }, { ...pod.call, id: 'other' }), 107, 'no record')
  })

  it('changes nothing, also when something is broken', () => {
    run('nft delete table inet trestle')
    run('pod route del default')
    const before = host.inPod(pod.netns, 'ip', ['route']).stdout
    differences()
    expect(host.run('nft', ['list', 'tables']).stdout).toBe('')
    expect(host.inPod(pod.netns, 'ip', ['route']).stdout).toBe(before)
  })
})
