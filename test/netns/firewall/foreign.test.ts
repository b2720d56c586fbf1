// SPDX-License-Identifier: Apache-2.0
// What is not ours stays byte for byte as it was: nft tables, iptables rules and a bridge of somebody
// else, through everything that trestle does with its own tables.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { restore } from '../../support/damage/breakage.ts'
import { until } from '../../support/faults/process-identities.ts'
import { type Finished, type Host, openHost } from '../../support/host.ts'
import { expectSilent, runLine } from '../../support/outcome.ts'
import { attach, ipamConf, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const foreignTables = `
table inet trestle-of-others {
  set blocked { type ipv4_addr; flags interval; elements = { 10.240.0.0/24, 192.0.2.0/24 } }
  map ports { type inet_proto . inet_service : ipv4_addr . inet_service; elements = { tcp . 8080 : 203.0.113.7 . 80 } }
  map verdicts { type ifname : verdict; elements = { "cni0" : accept, "up0" : goto side } }
  counter seen { packets 0 bytes 0 }
  chain side { meta mark 0x10 accept comment "trestle 1 masquerade4"; }
  chain forward { type filter hook forward priority filter; policy accept; iifname vmap @verdicts; }
}
table ip nat-of-others {
  chain postrouting { type nat hook postrouting priority srcnat; policy accept; ip saddr 10.240.9.0/24 masquerade; }
}
table bridge guards {
  set macs { type ether_addr; elements = { 0a:58:0a:f0:00:02 } }
  chain prerouting { type filter hook prerouting priority -300; policy accept; ether saddr @macs accept; }
}`

const iptablesRules = [
  '-A FORWARD -i cni9 -j ACCEPT',
  '-A INPUT -p tcp --dport 8080 -j REJECT',
  '-t nat -N CNI-HOSTPORT-DNAT',
  '-t nat -A CNI-HOSTPORT-DNAT -p tcp --dport 8081 -j MARK --set-mark 0x2000',
  '-t nat -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT',
]

const everything = netConf({
  podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
  nonMasqueradeCIDRs: ['10.0.0.0/8'],
  macspoofchk: true,
  portmap: { masqAll: true },
  firewall: { ingressPolicy: 'isolated' },
  tuning: { sysctl: { 'net.core.somaxconn': '200' }, promisc: true, mtu: 1400 },
  bandwidth: { ingressRate: 20_000_000, egressRate: 20_000_000 },
  runtimeConfig: {
    portMappings: [
      { hostPort: 8080, containerPort: 80, protocol: 'tcp' },
      { hostPort: 5353, containerPort: 53, protocol: 'udp' },
    ],
  },
})
const routed = ipamConf(
  { type: 'host-local', ranges: [[{ subnet: '10.241.0.0/24' }]] },
  {
    name: 'routed',
    mode: 'ptp',
    ipMasq: true,
    runtimeConfig: { portMappings: [{ hostPort: 9090, containerPort: 90 }] },
  },
)
const shortLived = netConf({ name: 'short', bridge: 'br-short', podcidr: '10.242.0.0/24', removeWhenEmpty: true })

let host: Host
beforeEach(async () => {
  host = openHost()
  await furnish()
})
afterEach(() => host.close())

const run = (line: string, input?: string): Finished => runLine(host, line, input)

/** Everything of somebody else, made before trestle is run for the first time. */
async function furnish(): Promise<void> {
  run('nft -f -', foreignTables)
  for (const rule of iptablesRules) for (const program of ['iptables-nft', 'ip6tables-nft']) run(`${program} ${rule}`)
  run('ip link add br-theirs address 0a:00:00:00:00:77 type bridge ageing_time 100 forward_delay 0')
  run('ip link add port0 type veth peer name port1')
  // A link-local address changes by itself while it is looked at for duplicates.
  for (const dev of ['br-theirs', 'port0', 'port1']) run(`ip link set ${dev} addrgenmode none`)
  run('ip link set port0 master br-theirs up')
  run('ip link set port0 type bridge_slave hairpin on isolated on')
  run('ip link set port1 up')
  run('ip addr add 10.77.0.1/24 dev br-theirs')
  run('ip addr add fd00:77::1/64 dev br-theirs nodad')
  run('ip link set br-theirs up')
  run('tc qdisc add dev port0 root tbf rate 1mbit burst 32kbit latency 400ms')
  // Carrier is reported later (net/core/link_watch.c).
  const isUp = (dev: string) => run(`ip -o link show dev ${dev}`).stdout.includes(' state UP ')
  await until('the carrier', () => ['br-theirs', 'port0', 'port1'].every(isUp))
}

/** All that is not ours, as text; timers and counters of the bridge left out. */
function theirs() {
  const links = ['br-theirs', 'port0', 'port1'].map((dev) => run(`ip -d addr show dev ${dev}`).stdout)
  return {
    nft: withoutOurs(run('nft -s list ruleset').stdout),
    ...Object.fromEntries(
      ['iptables-nft-save', 'ip6tables-nft-save'].map((save) => [save, withoutCounters(run(save).stdout)]),
    ),
    // What counts up by itself.
    links: links.join('').replace(/ +(\w+_timer|gc_timer|fdb_n_learned) +[\d.]+/g, ''),
    queues: run('tc qdisc show dev port0').stdout,
    routes: run('ip route show dev br-theirs').stdout,
  }
}

function withoutCounters(saved: string): string {
  return saved.replace(/^#.*\n/gm, '').replace(/\[\d+:\d+\]$/gm, '')
}

/** A listing without our two tables, whose name is exactly `trestle`. */
function withoutOurs(listing: string): string {
  return listing.replace(/^table (inet|bridge) trestle \{\n[\s\S]*?^\}\n/gm, '')
}

describe('what is not ours', () => {
  it('is as it was after everything that trestle does', () => {
    const before = theirs()
    for (const part of ['trestle-of-others', 'nat-of-others', 'guards']) expect(before.nft).toContain(part)
    const same = (after: string) => expect(theirs(), after).toEqual(before)

    const first = attach(host, everything, { id: 'first' })
    same('the first ADD')
    const pods: [object, Pod][] = [
      [everything, first],
      [routed, attach(host, routed, { id: 'routed' })],
      [shortLived, attach(host, shortLived, { id: 'short' })],
    ]
    for (const [conf, pod] of pods) expectSilent(later(host, 'CHECK', { conf, pod }))
    same('ADD and CHECK of three networks')

    run('nft flush table inet trestle')
    const repaired = attach(host, netConf({ name: 'next', bridge: 'br-next', podcidr: '10.243.0.0/24' }), {
      id: 'next',
    })
    for (const [conf, pod] of pods) expectSilent(later(host, 'CHECK', { conf, pod }))
    same('the ADD that repaired our flushed table')

    run('nft delete table inet trestle')
    run('nft delete table bridge trestle')
    run('ip link del cni0')
    restore(host)
    for (const [conf, pod] of pods) expectSilent(later(host, 'CHECK', { conf, pod }))
    same('restore')

    expectSilent(host.cni('GC', { ...everything, 'cni.dev/valid-attachments': [] }))
    same('GC')
    for (const [conf, pod] of [...pods, [netConf({ name: 'next' }), repaired] as const])
      expectSilent(later(host, 'DEL', { conf, pod }))
    expect(host.run('ip', ['link', 'show', 'br-short']).code).not.toBe(0)
    same('DEL and the removal of an empty network')
  })

  it('is as it was after an ADD that failed', () => {
    const before = theirs()
    const taken = netConf({ bridge: 'br-theirs' })
    expect(host.cni('ADD', taken, { netns: host.pod('a') }).json?.code).toBe(108)
    expect(theirs()).toEqual(before)
  })

  it('is as it was when everything of ours is removed with the last pod', () => {
    const before = theirs()
    const conf = { ...everything, removeWhenEmpty: true }
    const pod = attach(host, conf)
    expectSilent(later(host, 'DEL', { conf, pod }))
    expect(theirs()).toEqual(before)
  })
})
