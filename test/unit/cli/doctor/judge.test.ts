// SPDX-License-Identifier: Apache-2.0
// Facts to findings: one fact that is not as on a healthy node, and the ids that doctor gives it.

import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import { describe, expect, it } from 'vitest'
import type {
  FirewallFacts,
  KernelFacts,
  NodeFacts,
  StateFacts,
  TailPlace,
} from '../../../../src/commands/doctor/facts.ts'
import { judge } from '../../../../src/commands/doctor/judge.ts'
import { keptSettings } from '../../../../src/commands/doctor/kernel.ts'
import { readIptablesMatches, readNftMatches, within } from '../../../../src/commands/doctor/rule-matches.ts'
import { healthy, kernel, nowMs, plugin, runtime, state } from './healthy.ts'

const idsOf = (facts: NodeFacts) => judge(facts).map(({ id, severity }) => `${severity} ${id}`)
const withKernel = (more: Partial<KernelFacts>): NodeFacts => ({ ...healthy, kernel: { ...kernel, ...more } })
const withState = (more: Partial<StateFacts>): NodeFacts => ({ ...healthy, state: { ...state, ...more } })
const withSettings = (settings: Record<string, string | undefined>) =>
  withKernel({ settings: new Map([...kernel.settings, ...Object.entries(settings)]) })
const pool = {
  network: 'pods',
  ranges: '10.1.0.0/29',
  total: 5n,
  directory: '/d',
  leaked: [],
  isAnyListed: true,
  taken: 0,
}
const reverting = (file: string, key = 'net.ipv4.ip_forward') =>
  new Map([['net.ipv4.ip_forward', { key, value: '0', file }]])
const configuration = healthy.configurations[0]

describe('doctor judges', () => {
  it('a healthy node: nothing', () => {
    expect(judge(healthy)).toEqual([])
  })

  it('a node without state, runtime and configuration: nothing', () => {
    const { state: _, kernel: __, ...rest } = healthy
    expect(judge({ ...rest, networks: [], runtimes: [], configurations: [], pools: [] })).toEqual([])
  })

  const six = [
    { name: 'pods', subnets: ['fd00::/64'], links: ['cni0'], bridges: ['cni0'], accepts: false, isSetUp: true },
  ]
  it.each<[string, NodeFacts, readonly string[]]>([
    ['forwarding off', withSettings({ 'net/ipv4/ip_forward': '0' }), ['error forwarding-off']],
    [
      'forwarding off before the first pod',
      {
        ...withSettings({ 'net/ipv4/ip_forward': '0' }),
        networks: [{ ...six[0], subnets: ['10.1.0.0/24'], isSetUp: false }] as never,
      },
      [],
    ],
    ['forwarding of a family that no network has', withSettings({ 'net/ipv6/conf/all/forwarding': '0' }), []],
    [
      'a file that switches forwarding off',
      withKernel({ kept: reverting('/etc/sysctl.d/50.conf') }),
      ['warning forwarding-reverts'],
    ],
    [
      'a kernel without IPv6',
      { ...withSettings({ 'net/ipv6/conf/all/disable_ipv6': undefined }), networks: six },
      ['error ipv6-disabled'],
    ],
    [
      'strict rp_filter on one of two uplinks',
      {
        ...withSettings({ 'net/ipv4/conf/up1/rp_filter': '1' }),
        kernel: {
          ...kernel,
          settings: new Map([...kernel.settings, ['net/ipv4/conf/up1/rp_filter', '1']]),
          uplinks: [...kernel.uplinks, { dev: 'up1', address: '198.51.100.2', backBy: 'up0' }],
        },
      },
      ['warning rp-filter'],
    ],
    [
      'loose rp_filter there, strict for all: the larger counts',
      {
        ...healthy,
        kernel: {
          ...kernel,
          settings: new Map([
            ...kernel.settings,
            ['net/ipv4/conf/all/rp_filter', '1'],
            ['net/ipv4/conf/up1/rp_filter', '2'],
          ]),
          uplinks: [{ dev: 'up1', address: '198.51.100.2', backBy: 'up0' }],
        },
      },
      [],
    ],
    ['kube-proxy without br_netfilter', withKernel({ hasKubeProxy: true }), ['warning bridge-nf-off']],
    [
      'the same where pods are routed',
      {
        ...withKernel({ hasKubeProxy: true }),
        networks: [{ ...healthy.networks[0], links: ['veth0123456789a'], bridges: [] }] as never,
      },
      [],
    ],
    [
      'a runtime that does not answer',
      { ...healthy, runtimes: [{ ...runtime, silent: 'UNAVAILABLE' }] },
      ['error runtime-silent'],
    ],
    [
      'a runtime whose network is not ready',
      { ...healthy, runtimes: [{ ...runtime, notReady: 'cni plugin not initialized' }] },
      ['error runtime-not-ready'],
    ],
    [
      'flannel without its file',
      {
        ...healthy,
        agents: [{ plugin: 'flannel', id: 'flannel-subnet-env', path: '/run/flannel/subnet.env', isThere: false }],
      },
      ['error flannel-subnet-env'],
    ],
    [
      'a full pool, as STATUS says',
      {
        ...healthy,
        readiness: [
          {
            network: 'pods',
            id: 'not-ready-pool',
            message: 'not ready: no IP addresses available in range set x',
            details: '',
          },
        ],
      },
      ['error not-ready-pool'],
    ],
    [
      'a tool that is not there, as STATUS says',
      {
        ...healthy,
        readiness: [{ network: 'pods', id: 'not-ready-tool', message: 'not ready: nft not found', details: '' }],
      },
      ['error not-ready-tool'],
    ],
    ['a full pool of host-local', { ...healthy, pools: [{ ...pool, taken: 5 }] }, ['error host-local-full']],
    [
      'leaked reservations of host-local',
      { ...healthy, pools: [{ ...pool, taken: 3, leaked: ['10.1.0.2'] }] },
      ['warning host-local-leaked'],
    ],
    [
      'inotify used up',
      { ...healthy, limits: [{ id: 'inotify-limit', what: 'inotify', on: 'root', used: 128, most: 128 }] },
      ['error inotify-limit'],
    ],
    [
      'conntrack nearly full',
      { ...healthy, limits: [{ id: 'conntrack-full', what: 'conntrack', on: 'the node', used: 95, most: 100 }] },
      ['warning conntrack-full'],
    ],
    [
      'a disk at 95 %',
      { ...healthy, limits: [{ id: 'disk-full', what: 'disk', on: '/run', used: 95, most: 100 }] },
      [],
    ],
    ['an MTU above the uplink', withState({ uplinkMtu: 1400 }), ['warning mtu-larger']],
    [
      'a lost interface, and its pod without it',
      withState({ lost: [{ pod: 'p' }], pods: [{ pod: 'p', found: ['eth0 is missing'], isTaken: false }] }),
      ['error interface-lost'],
    ],
    [
      'pods whose sandboxes have the addresses',
      withState({ pods: ['p', 'q'].map((pod) => ({ pod, found: ['10.240.0.2/24 is missing'], isTaken: true })) }),
      ['note addresses-inside'],
    ],
    [
      'a bridge that is gone takes its ports and routes with it',
      {
        ...withState({
          differences: [
            { kind: 'bridge.add', dev: 'cni0', found: ['cni0 is missing'] },
            { kind: 'link.set', dev: 'veth1', master: 'cni0', found: ['bridge of veth1 is none, not cni0'] },
            { kind: 'link.set', dev: 'veth1', found: ['hairpin of veth1 is off, not on'] },
          ],
        }),
        kernel: { ...kernel, podRoutes: [{ pod: 'p', address: '10.240.0.2', expected: 'cni0', leavesBy: 'up0' }] },
      },
      ['error bridge-differs'],
    ],
    [
      'a bridge that is gone, and the port of another one',
      withState({
        differences: [
          { kind: 'bridge.add', dev: 'cni0', found: ['cni0 is missing'] },
          { kind: 'link.set', dev: 'veth2', master: 'br1', found: ['bridge of veth2 is none, not br1'] },
        ],
      }),
      ['error bridge-differs', 'error port-differs'],
    ],
    [
      'a lost route of a routed pod',
      withState({ differences: [{ kind: 'route.add', dev: 'veth1', found: ['x'] }] }),
      ['error route-missing'],
    ],
    [
      'an alias that is gone, of a link that passes all packets',
      withState({ differences: [{ kind: 'alias', dev: 'veth1', found: ['alias of veth1 is none, not x'] }] }),
      ['warning alias-missing'],
    ],
    [
      'the ifb of a limit gone with its alias',
      withState({
        differences: ['ifb.add', 'alias'].map((kind) => ({ kind, dev: 'ifb1', found: ['ifb1 is missing'] })),
      }),
      ['warning limit-missing'],
    ],
    [
      'a lost limit',
      withState({ differences: [{ kind: 'bucket.set', dev: 'veth1', found: ['x'] }] }),
      ['warning limit-missing'],
    ],
    [
      'a process on a host port, over IPv4 and IPv6',
      withState({ ports: [4, 6].map(() => ({ port: 'host port 80/tcp', listener: '[::]:80', pod: 'p' })) }),
      ['warning port-taken'],
    ],
    ['set-aside files', withState({ damaged: ['/run/trestle/damaged/x'] }), ['note state-damaged']],
    ['a record that is gone', withState({ lacks: ['the record of eth0 of container c'] }), ['warning state-lacks']],
    ['a record that was found again', withState({ partial: ['eth0 of container c'] }), ['note record-partial']],
    [
      'what is left of dead pods, and what may be of a live one',
      withState({
        garbage: [
          { part: 'attachments', text: 'eth0 of container c', verdict: 'collect', why: 'w', document: {} },
          { part: 'reservations', text: 'address 10.1.0.2', verdict: 'collect', why: 'w', document: {} },
          { part: 'orphans', text: 'link ifb1', verdict: 'collect', why: 'w', document: {} },
          { part: 'orphans', text: 'link veth1', verdict: 'report', why: 'w', document: {} },
          { part: 'orphans', text: 'link veth2', verdict: 'keep', why: 'w', document: {} },
        ],
      }),
      ['warning dead-attachments', 'warning reservations-leaked', 'warning orphans', 'note unsure'],
    ],
  ])('%s', (_, facts, ids) => {
    expect(idsOf(facts)).toEqual(ids)
  })

  it.each([
    ['net.ipv4.ip_forward', '-net/ipv4/ip_forward = 0\nnet.ipv4.ip_forward=0', '-net/ipv4/ip_forward = 1'],
    ['net.ipv4.conf.all.forwarding', '# x\n net.ipv4.conf.all.forwarding=0', '# x\n net.ipv4.conf.all.forwarding= 1'],
  ])('/etc/sysctl.conf, which is read last, is changed itself: %s', (key, before, after) => {
    const [found] = judge(withKernel({ kept: reverting('/etc/sysctl.conf', key) }))
    expect(found?.message).toBe(`it says ${key} = 0`)
    const file = `${mkdtempSync(`${tmpdir()}/trestle-sysctl-`)}/sysctl.conf`
    writeFileSync(file, before)
    execFileSync('sh', ['-c', found?.run?.replace('/etc/sysctl.conf', file) ?? ''])
    expect(readFileSync(file, 'utf8')).toContain(after)
    expect(readFileSync(file, 'utf8')).not.toContain('0')
    rmSync(dirname(file), { recursive: true })
  })

  const both = (file: string): NodeFacts => ({
    ...withKernel({
      settings: new Map([
        ...kernel.settings,
        ['net/ipv6/conf/up0/accept_ra', '2'],
        ['net/ipv6/conf/up1.7/accept_ra', '1'],
      ]),
      uplinks6: ['up0', 'up1.7', 'up2'],
      kept: new Map(
        ['net.ipv4.ip_forward', 'net.ipv6.conf.all.forwarding'].map((key) => [key, { key, value: '0', file }]),
      ),
    }),
    networks: [{ ...healthy.networks[0], subnets: ['10.240.0.0/24', 'fd00::/64'] }] as never,
  })

  it.each([
    ['/usr/lib/sysctl.d/50-default.conf', '99-zz-pod-network.conf'],
    ['/etc/sysctl.d/zz-hardening.conf', 'zz-hardening.pod-network.conf'],
    ['/etc/sysctl.d/99-zz-pod-network.conf', '99-zz-pod-network.pod-network.conf'],
  ])('both families of %s go into one file that is read later, with accept_ra of uplinks', (file, name) => {
    const root = mkdtempSync(`${tmpdir()}/trestle-sysctl-`)
    mkdirSync(`${root}${dirname(file)}`, { recursive: true })
    mkdirSync(`${root}/etc/sysctl.d`, { recursive: true })
    writeFileSync(`${root}${file}`, 'net.ipv4.ip_forward = 0\nnet.ipv6.conf.all.forwarding = 0\n')
    const found = judge(both(file))
    expect(found.map(({ id }) => id)).toEqual(['forwarding-reverts', 'forwarding-reverts'])
    for (const { run } of found) execFileSync('sh', ['-c', run?.replaceAll('/etc/', `${root}/etc/`) ?? ''])
    expect(readFileSync(`${root}/etc/sysctl.d/${name}`, 'utf8').split('\n')).toEqual([
      'net.ipv4.ip_forward = 1',
      'net.ipv6.conf.up0.accept_ra = 2',
      'net.ipv6.conf.up1/7.accept_ra = 2',
      'net.ipv6.conf.all.forwarding = 1',
      '',
    ])
    const keys = ['net.ipv4.ip_forward', 'net.ipv6.conf.all.forwarding']
    expect([...keptSettings(keys, root).values()].map(({ value }) => value)).toEqual(['1', '1'])
    rmSync(root, { recursive: true })
  })

  it('IPv6 forwarding that is off: restore for networks of trestle, else with accept_ra of uplinks that have 1', () => {
    const facts = both('/f')
    const settings = new Map([...(facts.kernel?.settings ?? []), ['net/ipv6/conf/all/forwarding', '0']])
    const off = { ...facts, kernel: { ...kernel, settings, uplinks6: ['up0', 'up1.7'] } }
    const run = 'sysctl -w net.ipv6.conf.up1/7.accept_ra=2 net.ipv6.conf.all.forwarding=1'
    expect(judge(off)).toMatchObject([{ id: 'forwarding-off', run }])
    const found = ['net.ipv6.conf.all.forwarding is 0, not 1']
    const differences = [{ kind: 'forwarding', dev: '', found }]
    const own = { ...off, state: { ...state, differences } }
    expect(judge(own)).toMatchObject([{ id: 'forwarding-off', run: 'trestle restore' }])
  })

  it('removes the leaked files of host-local that were judged, and no others', () => {
    const root = mkdtempSync(`${tmpdir()}/trestle doctor-`)
    const files = ['10.1.0.2', '10.1.0.3', 'fd00::4', 'lock']
    for (const name of files) writeFileSync(`${root}/${name}`, 'gone')
    const leaking = { ...pool, directory: root, taken: 4, leaked: ['10.1.0.2', 'fd00::4'] }
    const full = { ...leaking, taken: 5 }
    const [leaked, taken] = [leaking, full].flatMap((each) => judge({ ...healthy, pools: [each] }))
    expect([leaked?.id, taken?.id, taken?.run]).toEqual(['host-local-leaked', 'host-local-full', leaked?.run])
    execFileSync('sh', ['-c', leaked?.run ?? ''])
    expect(readdirSync(root)).toEqual(['10.1.0.3', 'lock'])
    rmSync(root, { recursive: true })
  })

  it.each([
    [true, 'give the network a larger range'],
    [false, '`trestle explain host-local-full`'],
  ])('prints no command for a full range without a leaked file, a runtime asked: %s', (isAnyListed, cure) => {
    const [found] = judge({ ...healthy, pools: [{ ...pool, taken: 5, isAnyListed }] })
    expect(found).toMatchObject({ id: 'host-local-full', cure: expect.stringContaining(cure) })
    expect(found).not.toHaveProperty('run')
  })

  it.each([
    ['kernel.threads-max=65536', { 'kernel.pid_max': 4_194_304, 'kernel.threads-max': 31_000 }],
    ['kernel.pid_max=65536 kernel.threads-max=65536', { 'kernel.pid_max': 32_768, 'kernel.threads-max': 31_000 }],
  ])('raises what binds, and lowers no limit: sysctl -w %s', (words, values) => {
    const raisedBy = Object.entries(values).map(([name, value]) => ({ name, value }))
    const limit = { id: 'process-limit', what: 'processes', on: 'the node', used: 30_000, most: 31_000, raisedBy }
    expect(judge({ ...healthy, limits: [limit] })[0]?.run).toBe(`sysctl -w ${words}`)
  })

  it('one cause once: what lint says of the configuration explains a runtime that is not ready', () => {
    const finding = {
      id: 'dir-empty',
      severity: 'error',
      on: '/etc/cni/net.d',
      message: 'it is empty',
      cause: '',
      cure: '',
    } as const
    const configurations = [{ runtime, findings: [finding], plugins: [], files: [] }]
    const runtimes = [{ ...runtime, notReady: 'cni plugin not initialized' }]
    expect(idsOf({ ...healthy, configurations, runtimes })).toEqual(['error dir-empty'])
  })

  it('a runtime that nobody uses is a note beside one that is ready', () => {
    const confDir = '/var/lib/k3s/net.d'
    const missing = { id: 'dir-missing', severity: 'error', on: '/etc/cni/net.d', message: 'it is not there' }
    const socket = '/run/containerd/containerd.sock'
    const unused = { ...runtime, socket, notReady: 'cni plugin not initialized' }
    const k3s = { ...runtime, confDir, socket: '/run/k3s/containerd/containerd.sock' }
    const empty = { runtime: unused, findings: [missing], plugins: [], files: [] }
    const node = (other: object, socketsInUse: readonly string[] = [k3s.socket]): NodeFacts => ({
      ...healthy,
      runtimes: [unused, { ...k3s, ...other }],
      socketsInUse,
      configurations: [empty as never, { ...configuration, runtime: k3s } as never],
    })
    expect(idsOf(node({}))).toEqual(['note runtime-not-ready', 'note dir-missing'])
    expect(idsOf(node({}, [socket]))).toEqual(['error dir-missing'])
    expect(idsOf(node({ notReady: 'cni plugin not initialized' }))).toEqual(['error dir-missing'])
  })

  it('a file of another network that comes first, unless it hands on to the others', () => {
    const shadowing = (type: string): NodeFacts => {
      const plugins = [{ ...plugin, type, isOwn: false }]
      const used = { ...configuration, file: '00-other.conflist', network: 'other', plugins }
      return { ...healthy, configurations: [used as never] }
    }
    expect(judge(shadowing('bridge'))).toMatchObject([
      { id: 'config-shadowed', run: 'mv /etc/cni/net.d/00-other.conflist /etc/cni/net.d/00-other.conflist.disabled' },
    ])
    expect(judge(shadowing('multus'))).toEqual([])
  })

  it('a file of another network that comes first is left alone where pods live in its network', () => {
    const used = {
      ...configuration,
      file: '00-other.conflist',
      network: 'other',
      plugins: [{ ...plugin, isOwn: false }],
    }
    const shown = (more: object, counts: Partial<StateFacts> = {}) =>
      judge({ ...withState(counts), configurations: [{ ...used, ...more } as never] }).map(({ id, run }) => ({
        id,
        run,
      }))
    const run = 'mv /etc/cni/net.d/00-other.conflist /etc/cni/net.d/00-other.conflist.disabled'
    expect(shown({})).toEqual([{ id: 'config-shadowed', run }])
    expect(shown({ hasPods: true })).toEqual([])
    expect(shown({}, { podsOf: new Map([...state.podsOf, ['other', 1]]) })).toEqual([])
    // Pods that a person or nerdctl made say nothing of kubelet's: no command.
    expect(shown({}, { podsOfKubelet: new Map() })).toEqual([{ id: 'config-shadowed', run: undefined }])
    expect(shown({ plugins: [plugin] }, { podsOfKubelet: new Map() })).toEqual([])
  })

  it('a file that comes first and lacks its plugin: one finding, whose cure is to rename it', () => {
    const file = '/etc/cni/net.d/00-other.conflist'
    const missing = {
      id: 'plugin-missing',
      severity: 'error',
      on: file,
      file,
      line: 1,
      column: 2,
      message: 'no "bridge"',
    }
    const used = {
      ...configuration,
      file: '00-other.conflist',
      network: 'other',
      plugins: [{ ...plugin, isOwn: false }],
    }
    const found = judge({ ...healthy, configurations: [{ ...used, findings: [missing] } as never] })
    expect(found).toMatchObject([
      {
        id: 'config-shadowed',
        severity: 'error',
        run: `mv ${file} ${file}.disabled`,
        message: expect.stringContaining('; no "bridge"'),
      },
    ])
  })

  it('a line that there is no configuration: nothing, once the runtime has one', () => {
    const line = {
      id: 'no-network-config',
      count: 1,
      lastMs: healthy.nowMs,
      pods: [],
      units: ['containerd'],
      text: 't',
    }
    expect(judge({ ...healthy, log: [line] })).toEqual([])
    const { file: _, ...without } = configuration ?? {}
    expect(idsOf({ ...healthy, configurations: [without as never], log: [line] })).toEqual([
      'warning no-network-config',
    ])
  })

  it('another file of the network in use; of files of other networks nothing', () => {
    const again = '/etc/cni/net.d/20-again.conflist'
    const finding = { id: 'same-network', severity: 'warning', on: again, message: 'm', cause: 'c', cure: 'd' }
    const behind = (network: string) => ({
      ...healthy,
      configurations: [
        {
          ...configuration,
          findings: [finding],
          files: [...(configuration?.files ?? []), { file: again, network, isOwn: true }],
        } as never,
      ],
    })
    expect(judge(behind('pods'))).toMatchObject([{ id: 'same-network', severity: 'warning', on: again }])
    expect(judge(behind('storage'))).toEqual([])
  })

  it('the bridge that another file wants for itself is seen with that file, and no finding of its own', () => {
    const used = {
      ...configuration,
      file: '00-other.conflist',
      network: 'other',
      plugins: [{ ...plugin, isOwn: false }],
    }
    const bridge = { name: 'cni0', addresses: ['10.240.0.1/24'], hasPorts: true }
    const [network] = healthy.networks
    if (network === undefined) throw new Error('no network')
    const other = { ...network, name: 'other', subnets: ['10.88.0.0/16'], otherBridge: bridge }
    const facts = { ...healthy, networks: [...healthy.networks, other] }
    expect(judge({ ...facts, configurations: [used as never] })).toMatchObject([
      { id: 'config-shadowed', message: expect.stringContaining('cni0 has 10.240.0.1/24') },
    ])
    expect(idsOf(facts)).toEqual(['error bridge-other-address'])
    // One that nobody uses is in the way of both.
    const unused = { ...other, otherBridge: { ...bridge, hasPorts: false } }
    const both = { ...healthy, networks: [unused], configurations: [used as never] }
    expect(idsOf(both)).toEqual(['warning config-shadowed', 'error bridge-other-address'])
  })

  it('an error of the log that goes on, one that is over, and one that is found elsewhere', () => {
    const logged = (id: string, minutes: number) => {
      const about = { meaning: 'm', cause: 'c', cure: 'd', pods: ['default/web'], units: ['kubelet'], text: 't' }
      return { id, ...about, count: 2, lastMs: nowMs - minutes * 60_000 }
    }
    const log = [logged('name-reserved', 1), logged('exec-format', 30), logged('inotify-limit', 1)]
    const limits = [{ id: 'inotify-limit', what: 'inotify', on: 'root', used: 128, most: 128 }] as const
    expect(idsOf({ ...healthy, log, limits })).toEqual([
      'error inotify-limit',
      'warning name-reserved',
      'note exec-format',
    ])
  })
})

describe('doctor judges firewalls', () => {
  const rule = { chain: 'FORWARD', id: '1', act: 'drop', isOurs: false, isUnconditional: false } as const
  const iptables = { kind: 'iptables', program: 'iptables', chain: 'FORWARD' } as const
  const nft = { kind: 'nft', family: 'inet', table: 'f', chain: 'c' } as const
  const accept = (text: string) => ({ text, act: 'accept' }) as const
  const ofAnswers = accept('-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT')
  const ofSenders = accept('-A FORWARD -s 10.240.0.0/24 -j ACCEPT')
  const ofReceivers = accept('-A FORWARD -d 10.240.0.0/24 -j ACCEPT')
  const stateMap = {
    text: 'ct state vmap { established : accept, related : accept, invalid : drop }',
    act: 'none',
  } as const
  const firewall = (
    texts: readonly (string | { text: string; act: 'accept' | 'none' })[],
    endsInDrop = false,
    base: FirewallFacts['base'] = iptables,
  ): NodeFacts => {
    const read = base.kind === 'nft' ? readNftMatches : readIptablesMatches
    const rules = texts.map((each) => {
      const { text, act } = typeof each === 'string' ? { text: each, act: rule.act } : each
      return { ...rule, act, text, matches: read(text) }
    })
    return {
      ...healthy,
      firewalls: [{ hook: 'forward', base, ...(endsInDrop ? { tail: { chain: 'FORWARD' } } : {}), rules }],
    }
  }
  /** A chain of the administrator ahead of the others, whose last rule drops everything. */
  const adminClosed = (before: readonly object[], after: readonly object[] = []): NodeFacts => {
    const last = { text: '-A DOCKER-USER -j DROP', chain: 'DOCKER-USER', isUnconditional: true }
    const rules = [...before, last, ...after].map((each) => {
      const { text, ...more } = { ...rule, text: '', ...each }
      return { ...more, text, matches: readIptablesMatches(text) }
    })
    return { ...healthy, firewalls: [{ hook: 'forward', base: iptables, rules }] }
  }
  const endingIn = (facts: NodeFacts, tail: TailPlace): NodeFacts => {
    return { ...facts, firewalls: (facts.firewalls ?? []).map((each) => ({ ...each, tail })) }
  }
  it.each<[string, NodeFacts, readonly string[]]>([
    ['the range of the pods', firewall(['-A FORWARD -s 10.240.0.0/24 -j DROP']), ['error firewall-drops']],
    ['a range around it', firewall(['-A FORWARD -d 10.0.0.0/8 -j DROP']), ['error firewall-drops']],
    ['one pod', firewall(['-A FORWARD -d 10.240.0.9 -j DROP']), ['error firewall-drops']],
    ['the bridge, by the beginning of its name', firewall(['-A FORWARD -i cni+ -j DROP']), ['error firewall-drops']],
    [
      'nft, the bridge',
      firewall(['oifname "cni0" counter packets 0 bytes 0 drop'], false, nft),
      ['error firewall-drops'],
    ],
    [
      'a port of the pods',
      firewall(['-A FORWARD -d 10.240.0.0/24 -p tcp -m tcp --dport 22 -j DROP']),
      ['note firewall-drops-some'],
    ],
    [
      'one address that pods are not to reach',
      firewall(['-A FORWARD -s 10.240.0.0/24 -d 169.254.169.254/32 -j DROP']),
      ['note firewall-drops-some'],
    ],
    [
      'one that is not to reach pods',
      firewall(['-A FORWARD -s 203.0.113.7/32 -d 10.240.0.0/24 -j DROP']),
      ['note firewall-drops-some'],
    ],
    ['the way out', firewall(['-A FORWARD -i cni0 -o eth0 -j DROP']), ['error firewall-drops']],
    ['a forged sender', firewall(['-A FORWARD -s 10.0.0.0/8 -i eth0 -j DROP']), []],
    ['a range of others', firewall(['-A FORWARD -s 192.168.0.0/16 -j DROP']), []],
    ['another link', firewall(['-A FORWARD -i docker0 -j DROP']), []],
    ['all but the pods', firewall(['-A FORWARD ! -s 10.240.0.0/24 -i eth9 -j DROP']), []],
    ['invalid packets', firewall(['-A FORWARD -m conntrack --ctstate INVALID -j DROP']), []],
    ['the tail', firewall([], true), ['error firewall-drops']],
    ['a chain of the administrator', adminClosed([]), ['error firewall-drops']],
    ['that, whatever is accepted behind it', adminClosed([], [ofAnswers, ofSenders]), ['error firewall-drops']],
    ['that, behind accepts of the pods', adminClosed([ofAnswers, ofSenders]), []],
    [
      'that, behind a return of some packets',
      adminClosed([{ chain: 'DOCKER-USER', act: 'return', text: '-A DOCKER-USER -s 10.240.0.0/24 -j RETURN' }]),
      ['note firewall-drops-some'],
    ],
    ['the tail behind an accept of what pods send alone', firewall([ofSenders], true), ['error firewall-drops']],
    ['the tail behind an accept of what pods get alone', firewall([ofReceivers], true), ['error firewall-drops']],
    ['the tail behind an accept of answers alone', firewall([ofAnswers], true), ['error firewall-drops']],
    ['the tail behind accepts of both directions', firewall([ofSenders, ofReceivers], true), []],
    ['the tail behind accepts of answers and senders', firewall([ofAnswers, ofSenders], true), []],
    [
      'the tail behind accepts of answers and of what is for pods',
      firewall([ofAnswers, ofReceivers], true),
      ['note firewall-drops-some'],
    ],
    [
      'the tail behind accepts of answers and of a port',
      firewall([ofAnswers, accept('-A FORWARD -s 10.240.0.0/24 -p tcp -m tcp --dport 443 -j ACCEPT')], true),
      ['note firewall-drops-some'],
    ],
    [
      'the tail behind an accept of answers, and of ping from anywhere',
      firewall([ofAnswers, accept('-A FORWARD -p icmp -m icmp --icmp-type 8 -j ACCEPT')], true),
      ['error firewall-drops'],
    ],
    [
      'the tail behind the accepts of another bridge',
      firewall(
        [
          accept('-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'),
          accept('-A FORWARD -i docker0 ! -o docker0 -j ACCEPT'),
          accept('-A FORWARD -i docker0 -o docker0 -j ACCEPT'),
        ],
        true,
      ),
      ['error firewall-drops'],
    ],
    [
      'the tail behind an accept of what leaves the node',
      firewall([ofAnswers, accept('-A FORWARD -o up0 -j ACCEPT')], true),
      ['note firewall-drops-some'],
    ],
    [
      'the same for another link',
      firewall([ofAnswers, accept('-A FORWARD -o docker0 -j ACCEPT')], true),
      ['error firewall-drops'],
    ],
    [
      'nft, the same',
      firewall([accept('ct state established,related accept'), accept('oifname "up0" accept')], true, nft),
      ['note firewall-drops-some'],
    ],
    [
      'nft, the tail behind an accept of a set of links',
      firewall([accept('ct state established,related accept'), accept('iifname @inner accept')], true, nft),
      ['note firewall-drops-some'],
    ],
    [
      'nft, the tail behind a map of links',
      firewall([stateMap, { text: 'iifname vmap { "cni0" : jump pods }', act: 'none' }], true, nft),
      ['note firewall-drops-some'],
    ],
    ['nft, the tail behind a map of states', firewall([stateMap], true, nft), ['error firewall-drops']],
    [
      'nft, the tail behind a map of states and an accept of the bridge',
      firewall([stateMap, accept('iifname "cni0" accept')], true, nft),
      [],
    ],
    [
      'a guard against strangers behind an accept of answers',
      firewall([ofAnswers, '-A FORWARD -d 10.240.0.0/24 -j DROP']),
      ['note firewall-drops-some'],
    ],
    [
      'the same guard in front of it',
      firewall(['-A FORWARD -d 10.240.0.0/24 -j DROP', ofAnswers]),
      ['error firewall-drops'],
    ],
    [
      'nft, a guard against strangers behind a map of states',
      firewall([stateMap, 'oifname "cni0" drop'], false, nft),
      ['note firewall-drops-some'],
    ],
    [
      'a drop of what pods send behind an accept of answers',
      firewall([ofAnswers, '-A FORWARD -s 10.240.0.0/24 -j DROP']),
      ['error firewall-drops'],
    ],
    [
      'a drop of the rest of what pods send',
      firewall([ofAnswers, accept('-A FORWARD -i cni0 -o up1 -j ACCEPT'), '-A FORWARD -i cni0 -j DROP']),
      ['note firewall-drops-some'],
    ],
    [
      'the tail behind an accept of others',
      firewall([{ text: '-A FORWARD -s 10.7.0.0/24 -j ACCEPT', act: 'accept' }], true),
      ['error firewall-drops'],
    ],
    [
      'a drop behind an accept of the range',
      firewall([{ text: '-A FORWARD -s 10.240.0.0/24 -j ACCEPT', act: 'accept' }, '-A FORWARD -i cni0 -j DROP']),
      [],
    ],
  ])('%s', (_, facts, ids) => {
    expect(idsOf(facts)).toEqual(ids)
  })

  it.each([
    ['iptables', '10.240.0.0/24'],
    ['ip6tables', 'fd00:240::/64'],
  ] as const)('the tail of %s is about the ranges of its family', (program, range) => {
    const both = { ...healthy.networks[0], subnets: ['10.240.0.0/24', 'fd00:240::/64'] } as never
    const [found] = judge({ ...firewall([], true, { ...iptables, program }), networks: [both] })
    expect(found?.message).toMatch(new RegExp(`and no rule of it names ${range}$`))
  })

  it.each([
    [firewall(['-A FORWARD -s 10.0.0.0/8 -j DROP']), 'iptables -I FORWARD 1 -s 10.240.0.0/24 -j ACCEPT'],
    [
      firewall(['ip daddr 10.0.0.0/8 drop'], false, nft),
      'nft insert rule inet f FORWARD handle 1 ip daddr 10.240.0.0/24 accept',
    ],
    [firewall(['-A FORWARD -s 10.240.0.0/24 -j DROP']), 'iptables -D FORWARD -s 10.240.0.0/24 -j DROP'],
  ])('spares the pods where a rule is about others, too, and else removes it', (facts, run) => {
    expect(judge(facts)[0]?.run).toBe(run)
  })

  it('prints no accept before a rule that others follow which drop, nor where the rest is dropped', () => {
    const drop = '-A FORWARD -s 10.0.0.0/8 -j DROP'
    const runs = [[drop, '-A FORWARD -d 169.254.169.254 -j DROP'], [drop]].map((rules, at) => {
      return judge(firewall(rules, at === 1))[0]?.run
    })
    expect(runs).toEqual([undefined, undefined])
  })

  it.each([
    [
      'nothing',
      [],
      [
        '-d 10.240.0.0/24 -m conntrack --ctstate RELATED,ESTABLISHED',
        '-d 10.240.0.0/24 -m conntrack --ctstate DNAT',
        '-s 10.240.0.0/24',
      ],
    ],
    ['answers', [ofAnswers], ['-d 10.240.0.0/24 -m conntrack --ctstate DNAT', '-s 10.240.0.0/24']],
    [
      'a port',
      [accept('-A FORWARD -s 10.240.0.0/24 -p tcp -m tcp --dport 443 -j ACCEPT')],
      ['-d 10.240.0.0/24 -m conntrack --ctstate RELATED,ESTABLISHED', '-d 10.240.0.0/24 -m conntrack --ctstate DNAT'],
    ],
  ])('behind an accept of %s, lets pass the rest of it right before the drop', (_, rules, matches) => {
    const facts = firewall(rules, true)
    const runs = [facts, endingIn(facts, { chain: 'LAST', before: '7' })].map((each) => judge(each)[0]?.run)
    expect(runs).toEqual([
      matches.map((match) => `iptables -A FORWARD ${match} -j ACCEPT`).join('\n'),
      matches.map((match) => `iptables -I LAST 7 ${match} -j ACCEPT`).join('\n'),
    ])
  })

  it('names a network with accepts where the drop comes before their mark', () => {
    const networks = [{ ...healthy.networks[0], accepts: true }] as never
    const facts = { ...firewall([], true, nft), networks }
    expect(idsOf(facts)).toEqual([])
    expect(idsOf(endingIn(facts, { chain: 'c', isUnmarked: true }))).toEqual(['error firewall-drops'])
  })

  it.each([
    ['that names the pods', 'iifname "cni0" jump z', undefined, ['error firewall-drops']],
    ['that names others', 'iifname "eth9" jump z', undefined, []],
    ['that names a port of the pods', 'iifname "cni0" tcp dport 25 jump z', undefined, ['note firewall-drops-some']],
    ['that names all others', 'iifname != "cni0" jump z', undefined, []],
    ['whose chain some packets leave before', 'iifname "cni0" goto z', 'return', ['note firewall-drops-some']],
    ['whose chain accepts some packets', 'iifname "cni0" goto z', 'accept', ['note firewall-drops-some']],
  ] as const)('a jump to a chain that drops the rest, %s', (_, jump, act, ids) => {
    const matches = readNftMatches(jump)
    const text = `tcp dport 80 ${act}`
    const first = { ...rule, chain: 'z', text, matches: within(matches, readNftMatches(text)) }
    const rules = [
      { ...rule, chain: 'c', act: 'jump', text: jump, matches } as const,
      ...(act === undefined ? [] : [{ ...first, act }]),
      { ...rule, chain: 'z', text: 'drop', jump, matches },
    ]
    expect(idsOf({ ...healthy, firewalls: [{ hook: 'forward', base: nft, rules }] })).toEqual(ids)
  })

  it('names a drop before the first pod, and no policy, which the first ADD may accept', () => {
    const networks = [{ ...healthy.networks[0], isSetUp: false }] as never
    const drop = '-A FORWARD -s 10.0.0.0/8 -j DROP'
    expect(idsOf({ ...firewall([drop], true), networks })).toEqual(['error firewall-drops'])
  })

  it('prints no command against a guard that lets answers in', () => {
    expect(judge(firewall([ofAnswers, '-A FORWARD -d 10.240.0.0/24 -j DROP']))[0]?.run).toBeUndefined()
  })

  it('says which direction no accept matches', () => {
    const texts = [[ofSenders], [ofReceivers], []].map((rules) => judge(firewall(rules, true))[0]?.message)
    expect(texts).toEqual([
      expect.stringMatching(/and no accept of it matches answers to 10\.240\.0\.0\/24$/),
      expect.stringMatching(/and no accept of it matches packets from 10\.240\.0\.0\/24$/),
      expect.stringMatching(/and no rule of it names 10\.240\.0\.0\/24$/),
    ])
  })

  it('prints no command with words that a shell would run', () => {
    const evil = '-A FORWARD -s 10.240.0.0/24 -m comment --comment "$(reboot)" -j DROP'
    const [found] = judge(firewall([evil]))
    expect(found?.id).toBe('firewall-drops')
    expect(found?.run).toBeUndefined()
  })
})
