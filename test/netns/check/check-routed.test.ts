// SPDX-License-Identifier: Apache-2.0
// CHECK of a routed pod (ptp): one resource at a time is broken by hand, as in check-features.test.ts.

import { describe } from 'vitest'
import { type Breakage, eachBreakage, lostElement } from '../../support/damage/breakage.ts'
import { ipamConf } from '../../support/traffic/pods.ts'

const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }]
const bandwidth = { ingressRate: 20_000_000, egressRate: 10_000_000 }

describe('CHECK of a routed pod says so when', () => {
  const ranges = [[{ subnet: '10.240.0.0/24' }], [{ subnet: 'fd00:240::/64' }]]
  const routed = ipamConf(
    { type: 'host-local', ranges },
    { mode: 'ptp', ipMasq: true, runtimeConfig: { portMappings, bandwidth } },
  )
  const route = (words: string, said: RegExp, v6 = ''): Breakage => ({
    what: `the pod's route ${words} is gone`,
    lines: [`pod ip ${v6}route del ${words}`],
    said: [said],
    mend: [`pod ip ${v6}route add ${words}`],
  })
  const onHost = (what: string, del: string, said: RegExp): Breakage => ({
    what: `${what} is gone`,
    lines: [del],
    said: [said],
    mend: 'restore',
  })
  eachBreakage(routed, [
    {
      what: 'the host end takes router advertisements',
      lines: ['sysctl -qw net.ipv6.conf.VETH.accept_ra=1'],
      said: [/^net\.ipv6\.conf\.veth\w+\.accept_ra is 1, not 0$/],
      mend: 'restore',
    },
    onHost(
      'the IPv4 host route',
      'ip route del 10.240.0.2',
      /^host route to 10\.240\.0\.2\/32 dev veth\w+ is missing$/,
    ),
    onHost(
      'the IPv6 host route',
      'ip -6 route del fd00:240::2',
      /^host route to fd00:240::2\/128 dev veth\w+ is missing$/,
    ),
    {
      what: 'the IPv4 gateway on the host end is gone, the last address, and the routes by it',
      lines: ['ip addr del 10.240.0.1/32 dev VETH'],
      said: [/^10\.240\.0\.1\/32 is missing on veth\w+$/, /^host route to 10\.240\.0\.2\/32 dev veth\w+ is missing$/],
      mend: 'restore',
    },
    onHost(
      'the IPv6 gateway on the host end',
      'ip addr del fd00:240::1/128 dev VETH',
      /^fd00:240::1\/128 is missing on veth\w+$/,
    ),
    route(
      '10.240.0.0/24 via 10.240.0.1 dev eth0 src 10.240.0.2',
      /^route to 10\.240\.0\.0\/24 via 10\.240\.0\.1 dev eth0 is missing$/,
    ),
    route('default via 10.240.0.1 dev eth0', /^route to 0\.0\.0\.0\/0 via 10\.240\.0\.1 dev eth0 is missing$/),
    route(
      'fd00:240::/64 via fd00:240::1 dev eth0',
      /^route to fd00:240::\/64 via fd00:240::1 dev eth0 is missing$/,
      '-6 ',
    ),
    route('default via fd00:240::1 dev eth0', /^route to ::\/0 via fd00:240::1 dev eth0 is missing$/, '-6 '),
    lostElement('anyports4', 'tcp . 8080 : 10.240.0.2 . 80', 'tcp . 8080'),
    lostElement('self4', '10.240.0.2 . 10.240.0.2'),
    lostElement('self6', 'fd00:240::2 . fd00:240::2'),
    lostElement('loopback', '"VETH"'),
    {
      what: 'route_localnet of its link is off',
      lines: ['sysctl -qw net.ipv4.conf.VETH.route_localnet=0'],
      said: [/^net\.ipv4\.conf\.veth\w+\.route_localnet is 0, not 1$/],
      mend: 'restore',
    },
  ])
})
