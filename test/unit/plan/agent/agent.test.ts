// SPDX-License-Identifier: Apache-2.0
// What else the agent decides: where the API server is, how long to wait, what a line of the kernel's means, what to
// remember, what to write.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { addressOf, apiServer } from '../../../../src-before/cli/agent/access.ts'
import { backoffMs } from '../../../../src-before/cli/agent/request.ts'
import { settingsOf } from '../../../../src-before/cli/agent/settings.ts'
import { parseAddress } from '../../../../src-before/cni/address.ts'
import { readInvocation } from '../../../../src-before/cni/invocation.ts'
import { readConfig } from '../../../../src-before/config/config.ts'
import { encodeFile } from '../../../../src-before/model/kinds.ts'
import { conflistText } from '../../../../src-before/plan/agent/conflist.ts'
import {
  deletedByOthers,
  hadAccept,
  isPodGone,
  newsOfIp,
  newsOfNft,
} from '../../../../src-before/plan/agent/kernel-news.ts'
import {
  decodeMemory,
  emptyMemory,
  rangesInUse,
  remember,
  withRangesOf,
} from '../../../../src-before/plan/agent/memory.ts'
import { graceMs, problemIds, ripeProblems } from '../../../../src-before/plan/agent/problem.ts'

const call = {
  CNI_COMMAND: 'ADD',
  CNI_CONTAINERID: 'a',
  CNI_NETNS: '/run/netns/a',
  CNI_IFNAME: 'eth0',
  CNI_PATH: '/bin',
}
const environment = { host: 'fd00::1', port: '6443', caFile: '/sa/ca.crt' }

describe('apiServer', () => {
  it('goes by flags, then the kubelet, then the environment', () => {
    const kubeconfig = { server: 'https://10.0.0.1:6443', caData: 'Q0E=' }
    const flags = { server: 'https://api.example:6443', caFile: '/ca' }
    expect(apiServer({ flags, kubeconfig, environment })).toEqual({ ...flags, source: 'flags' })
    expect(apiServer({ flags: {}, kubeconfig, environment })).toEqual({ ...kubeconfig, source: 'kubeconfig' })
    expect(apiServer({ flags: {}, environment })).toEqual({
      server: 'https://[fd00::1]:6443',
      caFile: '/sa/ca.crt',
      source: 'environment',
    })
    expect(apiServer({ flags: { caFile: '/ca' }, kubeconfig, environment })).toEqual({
      server: kubeconfig.server,
      caFile: '/ca',
      source: 'kubeconfig',
    })
  })

  it('has an address, or a name', () => {
    for (const [server, address] of [
      ['https://10.0.0.1:6443', '10.0.0.1'],
      ['https://[fd00::1]:6443', 'fd00::1'],
    ] as const)
      expect(addressOf(server)).toEqual(parseAddress(address))
    for (const server of ['https://api.example:6443', '', undefined]) expect(addressOf(server)).toBeUndefined()
  })

  it('sends the token over TLS or not off the node', () => {
    const ask = (server: string) => apiServer({ flags: { server }, environment })
    expect(ask('http://127.0.0.1:8001')).toEqual({ server: 'http://127.0.0.1:8001', source: 'flags' })
    for (const refused of ['http://10.0.0.1:6443', 'ftp://127.0.0.1', 'nonsense'])
      expect(ask(refused)).toEqual(expect.any(String))
    expect(apiServer({ flags: {}, environment: { caFile: '/ca' } })).toMatch(/KUBERNETES_SERVICE_HOST/)
  })
})

describe('remember', () => {
  it('forgets a node an hour after it went, by the time since boot, whatever an earlier agent counted from', () => {
    const peer = { name: 'b', ranges: ['10.0.2.0/24'], addresses: ['192.0.2.2'] }
    const gone = (goneSinceMs: number, nowMs: number) =>
      remember({ peers: [{ ...peer, goneSinceMs }], own: [] }, { peers: [], own: [], nowMs }).peers
    expect(gone(1_700_000_000_000, 5000)).toEqual([{ ...peer, goneSinceMs: 5000 }])
    expect(gone(5000, 3_600_000)).toHaveLength(1)
    expect(gone(5000, 3_605_000)).toEqual([])
  })
})

describe('backoffMs', () => {
  it('doubles up to half a minute, spread by chance, and heeds Retry-After within reason', () => {
    expect([0, 1, 3, 50].map((failures) => backoffMs(failures, 1))).toEqual([500, 1000, 4000, 30_000])
    expect(backoffMs(1, 0)).toBe(500)
    expect(backoffMs(0, 0, 5000)).toBe(5000)
    expect(backoffMs(0, 0, 3_600_000)).toBe(60_000)
  })
})

describe('news', () => {
  const bridges = new Set(['cni0'])
  it.each([
    ['inet all forwarding off ', 'all'],
    ['inet6 all forwarding off mc_forwarding off proxy_neigh off ', 'all'],
    ['inet veth1 forwarding off ', undefined],
    ['Deleted inet cni0 ', undefined],
    ['Deleted 2: cni0: <BROADCAST,MULTICAST> mtu 1500 qdisc noop state DOWN group default', 'all'],
    ['2: cni0: <BROADCAST,MULTICAST> mtu 1500 qdisc noqueue state DOWN group default', 'all'],
    ['2: cni0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc noqueue state DOWN group default', undefined],
    ['Deleted 4: veth1@NONE: <BROADCAST,MULTICAST> mtu 1500 qdisc noop state DOWN', undefined],
    ['3: eth0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc mq state DOWN', 'routes'],
    ['Deleted 10.244.2.0/24 via 192.0.2.12 dev eth0 proto 116 metric 116 ', 'routes'],
    ['Deleted 10.1.0.0/24 dev cni0 proto kernel scope link src 10.1.0.1 ', 'all'],
    ['10.1.0.0/24 dev cni0 proto kernel scope link src 10.1.0.1 ', undefined],
    ['Deleted local 10.1.0.1 dev eth0 table local proto kernel scope host src 10.1.0.1 ', undefined],
    ['10.1.0.7 dev veth7 scope link ', undefined],
    ['', undefined],
  ])('of ip: %s', (line, news) => {
    expect(newsOfIp(line, bridges)).toBe(news)
  })

  it.each([
    ['Deleted 7: veth0123456789a@if2: <BROADCAST,MULTICAST> mtu 1500 qdisc noop state DOWN', true],
    ['7: veth0123456789a@if2: <BROADCAST,MULTICAST> mtu 1500 qdisc noop state DOWN', false],
    ['Deleted 7: vethabc@if2: <BROADCAST,MULTICAST> mtu 1500 qdisc noop state DOWN', false],
    ['Deleted 10.1.0.7 dev veth0123456789a scope link ', false],
  ])('of a pod that goes: %s', (line, isGone) => {
    expect(isPodGone(line)).toBe(isGone)
  })

  it.each([
    ['delete table inet trestle', 'all'],
    ['delete rule inet trestle postrouting handle 12', 'all'],
    ['delete chain bridge trestle prerouting', 'all'],
    ['delete element inet trestle ports4 { 192.0.2.1 . tcp . 80 }', undefined],
    ['delete table inet firewalld', undefined],
    ['delete table inet trestle2', 'all'],
  ])('of nft: %s', (line, news) => {
    expect(newsOfNft(line)).toBe(line.endsWith('trestle2') ? undefined : news)
  })
})

describe('what others delete', () => {
  const places = [
    { kind: 'iptables', program: 'iptables-nft', chain: 'FORWARD' },
    { kind: 'iptables', program: 'ip6tables', chain: 'FORWARD' },
    { kind: 'iptables', program: 'iptables-legacy', chain: 'LEGACY' },
    { kind: 'nft', family: 'inet', table: 'fw', chain: 'forwarded' },
  ] as const
  it.each([
    ['delete rule ip filter FORWARD handle 5', true],
    ['delete chain ip6 filter FORWARD', true],
    ['delete table inet fw', true],
    ['delete chain inet fw forwarded', true],
    ['delete rule ip filter INPUT handle 5', false],
    ['delete rule ip filter LEGACY handle 5', false],
    ['delete table inet fw2', false],
    ['delete rule ip nat FORWARD handle 5', false],
    ['delete element inet fw forwarded { 1 }', false],
    ['delete rule inet trestle forward handle 5', false],
    ['add rule ip filter FORWARD handle 5', false],
  ])('%s: had an accept of ours: %s', (line, had) => {
    const deleted = deletedByOthers(line)
    expect(places.some((place) => deleted !== undefined && hadAccept(place, deleted))).toBe(had)
  })
})

describe('memory', () => {
  const peer = { name: 'b', ranges: ['10.0.2.0/24'], addresses: ['192.0.2.2'] }
  it('keeps a node that is gone for an hour, and ranges of its own', () => {
    const first = remember(emptyMemory, { peers: [peer], own: ['10.0.1.0/24'], nowMs: 0 })
    const gone = remember(first, { peers: [], own: ['10.0.9.0/24'], nowMs: 1000 })
    expect(gone).toEqual({ peers: [{ ...peer, goneSinceMs: 1000 }], own: ['10.0.1.0/24', '10.0.9.0/24'] })
    expect(remember(gone, { peers: [], own: ['10.0.9.0/24'], nowMs: 3_602_000 }).peers).toEqual([])
    expect(decodeMemory(encodeFile(gone))).toEqual(gone)
    expect(rangesInUse(gone, ['10.0.9.0/24'], ['10.0.1.7', '10.0.9.3'])).toEqual(['10.0.1.0/24'])
    expect(rangesInUse(gone, ['10.0.9.0/24'], ['10.0.9.3'])).toEqual([])
  })

  it('has the ranges of live pods, those of this boot that no agent has seen as the oldest', () => {
    const known = { peers: [], own: ['10.0.1.0/24', '10.0.9.0/24'] }
    expect(withRangesOf(known, ['10.0.7.1/24', '10.0.9.1/24', '10.0.7.1/24']).own).toEqual([
      '10.0.7.0/24',
      ...known.own,
    ])
    expect(withRangesOf(known, ['10.0.9.1/24'])).toBe(known)
  })

  it('keeps what it knows of a node that was registered again and has no address yet', () => {
    const first = remember(emptyMemory, { peers: [peer], own: [], nowMs: 0 })
    const again = { name: 'b', ranges: ['10.0.9.0/24'], addresses: [] }
    const young = remember(first, { peers: [again], own: [], nowMs: 0 })
    expect(young.peers).toEqual([{ name: 'b', ranges: ['10.0.9.0/24', '10.0.2.0/24'], addresses: ['192.0.2.2'] }])
  })

  it.each([
    '',
    '{',
    '[]',
    'null',
    '{"format":1}',
    '{"format":1,"peers":[{}],"own":[]}',
    '{"format":1,"peers":[],"own":[5]}',
  ])('is empty where the file has %s', (text) => {
    expect(decodeMemory(text)).toEqual(emptyMemory)
  })
})

describe('conflistText', () => {
  it('is a configuration that the plugin reads, with the families in the order of the cluster', () => {
    const facts = { name: 'pods', mode: 'ptp', cniVersion: '1.1.0', podCidrs: ['fd00:1::/64', '10.0.1.0/24'] } as const
    const { plugins, cniVersion, name } = JSON.parse(conflistText(facts))
    expect(plugins[0]).toMatchObject({ type: 'trestle', mode: 'ptp', podcidr: ['fd00:1::/64', '10.0.1.0/24'] })
    const conf = readConfig(JSON.stringify({ cniVersion, name, ...plugins[0] }), readInvocation(call))
    expect(conf).toMatchObject({ mode: 'ptp', ipam: { kind: 'pool' } })
  })
})

describe('problems', () => {
  it('are those of the catalogue, and docs/kubernetes.md has the same table', () => {
    const [, ...rows] = readFileSync('src-before/catalogue/agent.tsv', 'utf8').trim().split('\n')
    const columns = rows.map((row) => row.split('\t'))
    expect(columns.map(([event]) => event).sort()).toEqual([...problemIds].sort())
    const lines = columns.map(([event, meaning, cause, cure]) => `| \`${event}\` | ${meaning}: ${cause} | ${cure} |`)
    expect(readFileSync('docs/kubernetes.md', 'utf8')).toContain(`|---|---|---|\n${lines.join('\n')}\n\n`)
  })
})

describe('ripeProblems', () => {
  const [own, other] = ['self', 'b'].map((node) => ({ id: 'NoPodCIDR' as const, node, text: 'x' }))
  it("tells the own node's at once, another's when it has lasted, and begins anew when it was over", () => {
    const both = [own, other] as { id: 'NoPodCIDR'; node: string; text: string }[]
    const first = ripeProblems(both, { self: 'self', nowMs: 1000, seen: new Map() })
    expect(first).toMatchObject({ ripe: [own], isWaiting: true })
    const later = ripeProblems(both, { self: 'self', nowMs: 1000 + graceMs, seen: first.seen })
    expect(later).toMatchObject({ ripe: both, isWaiting: false })
    const over = ripeProblems([], { self: 'self', nowMs: 20_000, seen: later.seen })
    expect(ripeProblems(both, { self: 'self', nowMs: 30_000, seen: over.seen }).ripe).toEqual([own])
  })
})

describe('settingsOf', () => {
  it('has defaults, and takes the name of the node from the pod', () => {
    const { node, listen, confDir, lookMs } = settingsOf({ values: {} }, { NODE_NAME: 'node-1' })
    expect({ node, listen, confDir, lookMs }).toEqual({
      node: 'node-1',
      listen: { host: '127.0.0.1', port: 9917 },
      confDir: '/etc/cni/net.d',
      lookMs: 60_000,
    })
  })

  it.each([
    ['node-name', '../x'],
    ['mode', 'vxlan'],
    ['cni-version', '2'],
    ['conf-dir', 'relative'],
    ['listen', 'nowhere'],
    ['listen', '127.0.0.1:99999'],
    ['look', '0'],
    ['gc', '-5'],
    ['cluster-cidr', ''],
    ['cluster-cidr', '10.244.0.0/16,'],
    ['cluster-cidr', '10.244.0.1/16'],
  ])('refuses --%s %s', (option, value) => {
    expect(() => settingsOf({ values: { 'node-name': 'a', [option]: value } }, {})).toThrow(`--${option}`)
  })
})
