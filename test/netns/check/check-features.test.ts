// SPDX-License-Identifier: Apache-2.0
// CHECK of every feature: one resource at a time is broken by hand; CHECK names that one and nothing
// else, and is silent again when it is mended, by `trestle restore` where it is on the host.

import { describe, expect, it } from 'vitest'
import { type Breakage, eachBreakage, lostElement } from '../../support/damage/breakage.ts'
import { openFaults } from '../../support/faults/faults.ts'
import { openHost } from '../../support/host.ts'
import { expectSilent } from '../../support/outcome.ts'
import { portName, stateFilesAt } from '../../support/state-layout.ts'
import { attach, later, netConf } from '../../support/traffic/pods.ts'

const mac = '0a:00:00:00:00:10'
const portMappings = [
  { hostPort: 8080, containerPort: 80, protocol: 'tcp' },
  { hostPort: 5353, containerPort: 53, protocol: 'udp', hostIP: '192.0.2.1' },
]
const bandwidth = { ingressRate: 20_000_000, ingressBurst: 800_000, egressRate: 10_000_000, egressBurst: 400_000 }

const bridged = netConf({
  podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
  nonMasqueradeCIDRs: ['10.0.0.0/8'],
  macspoofchk: true,
  portmap: { masqAll: true },
  firewall: { ingressPolicy: 'same-bridge', hostAccept: 'off' },
  tuning: { sysctl: { 'net.core.somaxconn': '200' }, promisc: true, allmulti: true, txQLen: 500, mtu: 1400, mac },
  runtimeConfig: { portMappings, bandwidth },
})

describe('CHECK of a host port says so when', () => {
  const port = stateFilesAt('STATE').port(portName('tcp', 8080))
  const address = stateFilesAt('STATE').network('net').address('10.240.0.2')
  eachBreakage(bridged, [
    lostElement('anyports4', 'tcp . 8080 : 10.240.0.2 . 80', 'tcp . 8080'),
    lostElement('anyports6', 'tcp . 8080 : fd00:240::2 . 80', 'tcp . 8080'),
    lostElement('ports4', '192.0.2.1 . udp . 5353 : 10.240.0.2 . 53', '192.0.2.1 . udp . 5353'),
    lostElement('masqall4', '10.240.0.2 . tcp . 80'),
    lostElement('masqall6', 'fd00:240::2 . tcp . 80'),
    lostElement('loopback', '"cni0"'),
    lostElement('hairpin4', '10.240.0.0/24 . 10.240.0.0/24'),
    lostElement('hairpin6', 'fd00:240::/64 . fd00:240::/64'),
    lostElement('keep4', '10.240.0.0/24 . 10.0.0.0/8'),
    {
      what: 'route_localnet is off',
      lines: ['sysctl -qw net.ipv4.conf.cni0.route_localnet=0'],
      said: [/^net\.ipv4\.conf\.cni0\.route_localnet is 0, not 1$/],
      mend: 'restore',
    },
    {
      what: 'the element leads to another pod',
      lines: [
        'nft delete element inet trestle anyports4 { tcp . 8080 }',
        'nft add element inet trestle anyports4 { tcp . 8080 : 10.240.0.77 . 80 }',
      ],
      said: [/^element tcp 8080 -> 10\.240\.0\.2 80 is missing from nft set anyports4$/],
      mend: 'restore',
    },
    {
      what: 'the reservation of the port is gone',
      lines: [`mv ${port} STATE/aside`],
      said: [/^the reservation of host port tcp:8080:4:any is missing$/],
      mend: [`mv STATE/aside ${port}`],
    },
    {
      what: 'the reservation of the address is gone',
      lines: [`mv ${address} STATE/aside`],
      said: [/^the reservation of 10\.240\.0\.2 is missing$/],
      mend: [`mv STATE/aside ${address}`],
    },
  ])
})

describe('CHECK of ingressPolicy and macspoofchk says so when', () => {
  eachBreakage(bridged, [
    lostElement('fenced', '"cni0"'),
    lostElement('fencedpair', '"cni0" . "cni0"'),
    lostElement('guarded', '"VETH"'),
    lostElement('guardedmac', `"VETH" . ${mac}`),
    {
      what: 'the rule against spoofed frames is gone',
      lines: ['nft flush chain bridge trestle prerouting'],
      said: [/^nft rule "trestle \d+ spoof" is missing from prerouting$/],
      mend: 'restore',
    },
    {
      what: 'the table against spoofed frames is gone',
      lines: ['nft delete table bridge trestle'],
      said: [
        /^nft table bridge trestle is missing$/,
        /^element veth\w+ is missing from nft set guarded$/,
        /^element veth\w+ \S+ is missing from nft set guardedmac$/,
      ],
      mend: 'restore',
    },
    {
      what: 'somebody else put a rule before ours',
      lines: ['nft insert rule inet trestle forward drop'],
      said: [/^a rule that is not ours is in nft chain forward$/],
      mend: 'restore',
    },
    {
      what: 'a chain drops what no rule takes',
      lines: ['nft add chain inet trestle forward { policy drop; }'],
      said: [/^policy of nft chain forward is drop, not accept$/],
      mend: 'restore',
    },
    {
      what: 'the rule of ingressPolicy is gone',
      lines: ['nft flush chain inet trestle forward'],
      said: [
        /^nft rule "trestle \d+ outer4" is missing from forward$/,
        /^nft rule "trestle \d+ outer6" is missing from forward$/,
        /^nft rule "trestle \d+ itself4" is missing from forward$/,
        /^nft rule "trestle \d+ itself6" is missing from forward$/,
        /^nft rule "trestle \d+ fence" is missing from forward$/,
      ],
      mend: 'restore',
    },
  ])
})

describe('CHECK of bandwidth says so when', () => {
  const other = 'latency 25ms'
  eachBreakage(bridged, [
    {
      what: 'the limit into the pod is gone',
      lines: ['tc qdisc del dev VETH root'],
      said: [/^bandwidth limit is missing on veth\w+$/],
      mend: 'restore',
    },
    {
      what: 'the limit into the pod is another',
      lines: [`tc qdisc replace dev VETH root handle 1: tbf rate 90mbit burst 100000b ${other}`],
      said: [/^bandwidth limit on veth\w+ is 90000000 bit\/s, not 20000000$/],
      mend: 'restore',
    },
    {
      what: 'the burst into the pod is another',
      lines: [`tc qdisc replace dev VETH root handle 1: tbf rate 20mbit burst 300000b ${other}`],
      said: [/^burst on veth\w+ is \d+ bytes, not 100000$/],
      mend: 'restore',
    },
    {
      what: 'the limit out of the pod is gone',
      lines: ['tc qdisc del dev IFB root'],
      said: [/^bandwidth limit is missing on ifb\w+$/],
      mend: 'restore',
    },
    {
      what: 'traffic out of the pod is not sent through the limit',
      lines: ['tc filter del dev VETH parent ffff:'],
      said: [/^filter to ifb\w+ is missing on veth\w+$/],
      mend: 'restore',
    },
    {
      what: 'the ingress qdisc is gone, and its filter with it',
      lines: ['tc qdisc del dev VETH ingress'],
      said: [/^ingress qdisc is missing on veth\w+$/],
      mend: 'restore',
    },
    {
      what: 'the ifb is down, which lets nothing out of the pod',
      lines: ['ip link set IFB down'],
      said: [/^ifb\w+ is down$/],
      mend: 'restore',
    },
    {
      what: 'the ifb carries smaller packets than the pod',
      lines: ['ip link set IFB mtu 1280'],
      said: [/^MTU of ifb\w+ is 1280, not 1500$/],
      mend: 'restore',
    },
    {
      what: 'the ifb is gone, and what was on it and led to it',
      lines: ['ip link del IFB'],
      said: [
        /^ifb\w+ is missing$/,
        /^bandwidth limit is missing on ifb\w+$/,
        /^filter to ifb\w+ is missing on veth\w+$/,
      ],
      mend: 'restore',
    },
  ])
})

describe('CHECK of tuning says so when', () => {
  const link = (what: string, change: readonly [broken: string, mended: string], said: RegExp): Breakage => ({
    what,
    lines: [`pod ip link set eth0 ${change[0]}`],
    said: [said],
    mend: [`pod ip link set eth0 ${change[1]}`],
  })
  eachBreakage(bridged, [
    {
      what: 'a sysctl is another',
      lines: ['pod sysctl -qw net.core.somaxconn=99'],
      said: [/^net\.core\.somaxconn in the pod is 99, not 200$/],
      mend: ['pod sysctl -qw net.core.somaxconn=200'],
    },
    link('promisc is off', ['promisc off', 'promisc on'], /^eth0 is not promiscuous$/),
    link('allmulti is off', ['allmulticast off', 'allmulticast on'], /^allmulti of eth0 is off, not on$/),
    link('the queue is longer', ['txqueuelen 700', 'txqueuelen 500'], /^queue length of eth0 is 700, not 500$/),
    link('the MTU is another', ['mtu 1450', 'mtu 1400'], /^MTU of eth0 is 1450, not 1400$/),
    link(
      'the MAC is another',
      ['address 0a:00:00:00:00:11', `address ${mac}`],
      /^MAC of eth0 is 0a:00:00:00:00:11, not 0a:00:00:00:00:10$/,
    ),
  ])
})

describe('CHECK of a limit', () => {
  it('asks tc once, for the queues and the filters', () => {
    const host = openHost()
    const tools = openFaults()
    try {
      const limited = netConf({ bandwidth: { ingressRate: 1_000_000, egressRate: 1_000_000 } })
      const call = { env: { PATH: tools.path } }
      expectSilent(later(host, 'CHECK', { conf: limited, pod: attach(host, limited), call }))
      expect(tools.seen().map(({ tool }) => tool)).toEqual(expect.arrayContaining(['ip', 'tc']))
      expect(tools.seen().filter(({ tool }) => tool === 'tc')).toHaveLength(1)
    } finally {
      tools.close()
      host.close()
    }
  })
})
