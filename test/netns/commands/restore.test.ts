// SPDX-License-Identifier: Apache-2.0
// `trestle restore` after each thing that others do to a node: the dry run names what is missing, the run makes it,
// a second run finds nothing, and CHECK of every pod is silent.

import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Finished, type Host, openHost, trestle } from '../../support/host.ts'
import { expectError, expectSilent } from '../../support/outcome.ts'
import { stateWord } from '../../support/state-layout.ts'
import { bridgedPod, foreignBridge } from '../../support/traffic/bridged-pods.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'

const mapped = (hostPort: number) => ({ portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] })
const limits = { ingressRate: 8_000_000, egressRate: 8_000_000 }
const dual = ['10.240.0.0/24', 'fd00:240::/64']
const bridged = netConf({
  podcidr: dual,
  macspoofchk: true,
  bandwidth: limits,
  firewall: { ingressPolicy: 'isolated' },
  runtimeConfig: mapped(8080),
})
const routed = netConf({
  name: 'routed',
  mode: 'ptp',
  podcidr: ['10.241.0.0/24', 'fd00:241::/64'],
  bandwidth: limits,
  runtimeConfig: mapped(8081),
})
const onTop = {
  cniVersion: '1.1.0',
  name: 'list',
  type: 'trestle',
  ipMasq: true,
  bandwidth: limits,
  firewall: {},
  runtimeConfig: mapped(8082),
}

/** `lines` for the shell: A, B, C are host ends of the bridged, the routed and the chained pod, IFBA the first one's ifb. */
interface Broken {
  readonly what: string
  readonly lines: readonly string[]
  readonly said: readonly RegExp[]
}

const single: readonly Broken[] = [
  {
    what: 'our table deleted',
    lines: ['nft delete table inet trestle'],
    said: [/^nft table inet trestle is missing$/],
  },
  {
    what: 'the bridge table deleted',
    lines: ['nft delete table bridge trestle'],
    said: [/^nft table bridge trestle is missing$/],
  },
  {
    what: 'a set flushed',
    lines: ['nft flush set inet trestle masq4'],
    said: [/10\.240\.0\.0\/24.* from nft set masq4/],
  },
  { what: 'a bridge removed', lines: ['ip link del cni0'], said: [/^cni0 is missing$/, /^bridge of veth\w+ is none/] },
  { what: 'a port unplugged', lines: ['ip link set A nomaster'], said: [/^bridge of veth\w+ is none, not cni0$/] },
  {
    // Either way a port comes from another bridge, whose flags the kernel takes away with it.
    what: 'a bridge renamed',
    lines: ['ip link set cni0 name old0', 'ip addr flush dev old0'],
    said: [/^cni0 is missing$/, /^bridge of veth\w+ is old0, not cni0$/],
  },
  {
    what: 'a port on another bridge, with the flags that it had',
    lines: [
      'ip link add br-foreign type bridge',
      'ip link set A master br-foreign',
      'bridge link set dev A hairpin on isolated on',
    ],
    said: [/^bridge of veth\w+ is br-foreign, not cni0$/],
  },
  { what: 'a port set down', lines: ['ip link set A down'], said: [/^veth\w+ is down$/] },
  { what: 'hairpin off', lines: ['bridge link set dev A hairpin off'], said: [/^hairpin of veth\w+ is off, not on$/] },
  {
    what: 'the gateway gone',
    lines: ['ip addr flush dev cni0'],
    said: [/^10\.240\.0\.1\/24 is missing on cni0$/, /^fd00:240::1\/64 is missing/],
  },
  {
    what: 'an ifb removed',
    lines: ['ip link del IFBA'],
    said: [/^ifb\w+ is missing$/, /^filter to ifb\w+ is missing/],
  },
  { what: 'a bucket removed', lines: ['tc qdisc del dev A root'], said: [/^bandwidth limit is missing on veth/] },
  {
    what: "the ifb's bucket removed",
    lines: ['tc qdisc del dev IFBA root'],
    said: [/^bandwidth limit is missing on ifb/],
  },
  { what: 'the ingress qdisc removed', lines: ['tc qdisc del dev A ingress'], said: [/^ingress qdisc is missing/] },
  { what: 'the filter removed', lines: ['tc filter del dev A parent ffff:'], said: [/^filter to ifb\w+ is missing/] },
  {
    what: 'sysctls changed',
    lines: [
      'sysctl -qw net.ipv4.conf.cni0.route_localnet=0 net.ipv4.ip_forward=0 net.ipv6.conf.cni0.accept_ra=1',
      'sysctl -qw net.ipv6.conf.all.forwarding=0',
    ],
    said: [/cni0\.route_localnet is 0/, /ip_forward is 0/, /cni0\.accept_ra is 1/, /ipv6\.conf\.all\.forwarding is 0/],
  },
  {
    what: "a routed pod's routes and addresses gone",
    lines: ['ip route flush dev B', 'ip addr flush dev B'],
    said: [/^host route to 10\.241\.0\.2\/32 dev veth\w+ is missing$/, /^10\.241\.0\.1\/32 is missing on veth/],
  },
  { what: 'a routed link down', lines: ['ip link set B down'], said: [/^veth\w+ is down$/, /^host route to/] },
  {
    what: 'a chained limit removed',
    lines: ['tc qdisc del dev C root'],
    said: [/^bandwidth limit is missing on hc/],
  },
  {
    what: 'the accept gone',
    lines: ['nft flush chain ip foreign forwarded'],
    said: [/^the accept of mark 0x1000 is missing in nft chain ip foreign forwarded$/],
  },
]
const all: Broken = {
  what: 'all of it at once, the rules flushed',
  lines: [
    'tc qdisc del dev A root',
    'ip link del IFBA',
    'ip route flush dev B',
    'ip link set B down',
    'nft flush ruleset',
    'ip link del cni0',
    'sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0',
  ],
  said: [/^cni0 is missing$/, /^nft table inet trestle is missing$/, /^ifb\w+ is missing$/],
}

describe('restore', () => {
  let host: Host
  let pods: readonly (readonly [object, Pod])[]
  beforeEach(() => {
    host = openHost()
    host.run('nft', [
      'add table ip foreign; add chain ip foreign forwarded { type filter hook forward priority 5; policy drop; }',
    ])
    const [a, b] = [attach(host, bridged, { id: 'a' }), attach(host, routed, { id: 'b' })]
    foreignBridge(host, 'br-list', '10.242.0.1')
    const { call, prevResult } = bridgedPod(host, 'c', { bridge: 'br-list', address: '10.242.0.2' })
    pods = [
      [bridged, a],
      [routed, b],
      [onTop, { ...attach(host, { ...onTop, prevResult }, call), hostLink: 'hc' }],
    ]
  })
  afterEach(() => host.close())

  const restore = (...words: readonly string[]): Finished =>
    host.run('env', [stateWord(host), trestle, 'restore', '-o', 'json', ...words])
  const missingIn = ({ stdout }: Finished): readonly string[] =>
    (JSON.parse(stdout) as { missing: readonly string[] }).missing

  const breakIt = ({ lines }: Broken): void => {
    const [a, b, c] = pods.map(([, pod]) => pod.hostLink)
    const filters = host.run('tc', ['filter', 'show', 'dev', a ?? '', 'parent', 'ffff:']).stdout
    const names: Readonly<Record<string, string>> = {
      A: a ?? '',
      B: b ?? '',
      C: c ?? '',
      IFBA: /ifb[0-9a-f]+/.exec(filters)?.[0] ?? '',
    }
    for (const line of lines) {
      const text = line.replace(/\b(IFBA|[ABC])\b/g, (word) => names[word] ?? word)
      const done = host.run('sh', ['-ec', text])
      expect(done.code, `${text}: ${done.stderr}`).toBe(0)
    }
  }

  it('finds nothing to do where nothing is broken', () => {
    const dry = restore('--dry-run')
    expect(missingIn(dry)).toEqual([])
    expect(dry.code).toBe(0)
  })

  it.each([...single, all])('of $what: told, made, and then nothing is missing', (broken) => {
    breakIt(broken)
    const dry = restore('--dry-run')
    const told = missingIn(dry)
    expect(broken.said.filter((pattern) => !told.some((line) => pattern.test(line)))).toEqual([])
    expect(dry.code).toBe(1)

    const done = restore()
    expect(done.code, done.stdout + done.stderr).toBe(0)
    expect(missingIn(done)).toEqual(told)
    const again = restore('--dry-run')
    expect(missingIn(again)).toEqual([])
    expect(again.code).toBe(0)
    for (const [conf, pod] of pods) expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('of a bridge renamed is done by an ADD, too, with all that its ports have', () => {
    breakIt({ what: '', lines: ['ip link set cni0 name old0', 'ip addr flush dev old0'], said: [] })
    attach(host, { ...bridged, runtimeConfig: {} }, { id: 'd' })
    const [conf, pod] = pods[0] ?? []
    if (conf === undefined || pod === undefined) throw new Error('no pod')
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('tells a pod that is gone from one that lost its interface, and makes neither', () => {
    const [ended, lives] = pods.map(([, pod]) => pod)
    if (ended === undefined || lives === undefined) throw new Error('no pods')
    host.removePod(ended.netns)
    const namesOf = (id: string) => [expect.stringMatching(`container ${id}$`)]
    const dry = restore('--dry-run')
    expect(JSON.parse(dry.stdout)).toMatchObject({ exitCode: 0, missing: [], lost: [], ended: namesOf('a') })
    expect(restore().code).toBe(0)
    const text = host.run('env', [stateWord(host), trestle, 'restore', '--dry-run'])
    expect(text.stdout).toMatch(/ended {5}eth0 of container a: the namespace is gone.*\n0 missing, 0 lost, 1 ended\n$/)
    host.run('ip', ['link', 'del', lives.hostLink])
    expect(JSON.parse(restore().stdout)).toMatchObject({ exitCode: 1, lost: namesOf('b'), ended: namesOf('a') })
  })

  it('is asked for by a CHECK that does not find the accept', () => {
    host.run('nft', ['flush', 'chain', 'ip', 'foreign', 'forwarded'])
    const [conf, pod] = pods[0] ?? []
    if (conf === undefined || pod === undefined) throw new Error('no pod')
    const answer = later(host, 'CHECK', { conf, pod })
    expectError(answer, 107, 'the accept of mark 0x1000 is missing in nft chain ip foreign forwarded')
    expect(restore().code).toBe(0)
    expectSilent(later(host, 'CHECK', { conf, pod }))
  })

  it('puts the rules of each table in with one transaction', () => {
    host.run('nft', ['flush', 'ruleset'])
    const directory = mkdtempSync(`${tmpdir()}/trestle-nft-`)
    try {
      const real = execFileSync('sh', ['-c', 'command -v nft'], { encoding: 'utf8' }).trim()
      const script = `#!/bin/sh\necho "$@" >> ${directory}/calls\nexec ${real} "$@"\n`
      writeFileSync(`${directory}/nft`, script, { mode: 0o755 })
      const env = [`PATH=${directory}:${process.env['PATH']}`, stateWord(host)]
      expect(host.run('env', [...env, trestle, 'restore']).code).toBe(0)
      const calls = readFileSync(`${directory}/calls`, 'utf8').split('\n')
      // The others list tables and chains.
      expect(calls.filter((call) => call === '-t -f -')).toHaveLength(2)
    } finally {
      rmSync(directory, { recursive: true })
    }
  })
})

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0
if (!hasSystemd) console.log('skipped: systemd-analyze is not installed')

it.skipIf(!hasSystemd)("restore's unit is one that systemd takes", () => {
  const directory = mkdtempSync(`${tmpdir()}/trestle-unit-`)
  try {
    const file = `${directory}/trestle-restore.service`
    const unit = readFileSync('conf-examples/trestle-restore.service', 'utf8')
    writeFileSync(file, unit.replaceAll('/opt/cni/bin/trestle', trestle))
    const verified = spawnSync('systemd-analyze', ['verify', file], { encoding: 'utf8' })
    expect(verified.stderr.split('\n').filter((line) => line.includes('trestle-restore'))).toEqual([])
    expect(verified.status).toBe(0)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
