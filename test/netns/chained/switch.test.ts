// SPDX-License-Identifier: Apache-2.0
// A node is switched from the upstream chain to trestle while its pods live: no stream breaks before its
// pod's DEL, no address is given twice, and nothing of either is left.

import { existsSync, readdirSync, rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { knownOf, withoutShared } from '../../support/allowance.ts'
import { missingCnitool, openRuntime, type Runtime } from '../../support/cnitool.ts'
import { type Host, openHost, snapshot } from '../../support/host.ts'
import { openStreams, type Streams } from '../../support/traffic/streams.ts'
import { addUplink, outside } from '../../support/traffic/traffic.ts'

const missing = missingCnitool(['bridge', 'host-local', 'portmap', 'firewall', 'bandwidth', 'tuning'])
if (missing !== undefined) console.warn(missing)

const network = 'switched'
const rates = { ingressRate: 8e8, ingressBurst: 8e7, egressRate: 8e8, egressBurst: 8e7 }
const echoPort = 7000

function referenceList(backend: string) {
  const ipam = { type: 'host-local', ranges: [[{ subnet: '10.77.0.0/24' }], [{ subnet: 'fd00:77::/64' }]] }
  const bridge = {
    type: 'bridge',
    bridge: 'br-sw',
    isDefaultGateway: true,
    ipMasq: true,
    ipMasqBackend: backend,
    hairpinMode: true,
    ipam,
  }
  return {
    cniVersion: '1.0.0',
    name: network,
    plugins: [
      bridge,
      { type: 'portmap', backend, capabilities: { portMappings: true } },
      { type: 'firewall' },
      { type: 'bandwidth', capabilities: { bandwidth: true } },
      { type: 'tuning', sysctl: { 'net.core.somaxconn': '500' }, mtu: 1400 },
    ],
  }
}

interface Pod {
  readonly netns: string
  readonly hostPort: number
  readonly addresses: readonly string[]
  readonly streams: Streams
}

let host: Host
let runtime: Runtime
let internet: string
let far: Streams
const pods = new Map<number, Pod>()

beforeEach(async () => {
  host = openHost()
  internet = addUplink(host)
  runtime = openRuntime(host, network)
  far = await openStreams(internet, echoPort)
  // A node that drops what nobody accepts: the way out needs the accepts. Upstream opens no way in for host ports.
  for (const program of ['iptables', 'ip6tables']) {
    host.run(program, ['-A', 'FORWARD', '-m', 'conntrack', '--ctstate', 'DNAT', '-j', 'ACCEPT'])
    host.run(program, ['-P', 'FORWARD', 'DROP'])
  }
})
afterEach(() => {
  for (const pod of pods.values()) pod.streams.close()
  pods.clear()
  far.close()
  runtime.close()
  host.close()
})

const capabilitiesOf = (hostPort: number) => ({
  portMappings: [{ hostPort, containerPort: echoPort, protocol: 'tcp' }],
  bandwidth: rates,
})

/** ADD, then a stream out through the masquerade and one in through the host port. */
async function add(number: number): Promise<Pod> {
  const netns = host.pod(`p${number}`)
  const hostPort = 8000 + number
  const added = runtime.tool('add', netns, capabilitiesOf(hostPort))
  expect(added.code, `ADD ${number}: ${added.stderr}`).toBe(0)
  const addresses = (added.json?.ips ?? []).map(({ address }) => address.replace(/\/.*/, ''))
  const streams = await openStreams(netns, echoPort)
  streams.start('out', { address: outside.far4, port: echoPort })
  far.start(`in${number}`, { address: outside.node4, port: hostPort })
  const pod = { netns, hostPort, addresses, streams }
  expect(live().flatMap((other) => other.addresses)).not.toEqual(expect.arrayContaining([addresses[0]]))
  pods.set(number, pod)
  return pod
}

const live = () => [...pods.values()]

/** The streams end first, on purpose; then DEL, with the namespace or after it. */
async function remove(number: number, namespace: 'there' | 'gone'): Promise<void> {
  const pod = pods.get(number)
  if (pod === undefined) throw new Error(`no pod ${number}`)
  await endStreams(number, pod)
  if (namespace === 'gone') host.removePod(pod.netns)
  const removed = runtime.tool('del', pod.netns, capabilitiesOf(pod.hostPort))
  expect([removed.code, removed.stdout, removed.stderr], `DEL ${number}`).toEqual([0, '', ''])
}

async function endStreams(number: number, pod: Pod): Promise<void> {
  await far.stop(`in${number}`)
  expect(pod.streams.broken, `out of pod ${number}`).toEqual([])
  pod.streams.close()
  pods.delete(number)
}

/** Every stream gets echoes from now on, and none has broken. */
async function expectAllFlow(): Promise<void> {
  await Promise.all([far, ...live().map(({ streams }) => streams)].map((each) => each.settled(500)))
  expect([far.broken, live().flatMap(({ streams }) => streams.broken)]).toEqual([[], []])
}

/** Rules, reservations and devices of pods: what upstream keeps for all of them is left out. */
function leftOfPods(): readonly string[] {
  const rules = ['iptables-save', 'ip6tables-save'].flatMap((program) => host.run(program, []).stdout.split('\n'))
  const nft = host.run('nft', ['list', 'ruleset']).stdout.split('\n')
  const files = ['/run/cni/tuning', `/var/lib/cni/networks/${network}`, '/var/lib/cni/results']
  return [
    ...rules.filter((line) => /CNI-(DN-)?[0-9a-f]{20}|10\.77\.0\.\d+\/32|fd00:77::\d+\/128/.test(line)),
    ...nft.filter((line) => /comment "(cnitool-|[0-9a-f]{16}-)/.test(line)),
    ...files
      .flatMap((directory) => (existsSync(directory) ? readdirSync(directory) : []))
      .filter((name) => !/^(lock|last_reserved_ip\.\d)$/.test(name)),
    ...host
      .run('ip', ['-br', 'link'])
      .stdout.split('\n')
      .filter((line) => /^(veth|bwp|ifb)/.test(line)),
  ]
}

function convertList(): void {
  const converted = runtime.command('convert', runtime.file)
  expect(converted.code, converted.stderr).toBe(0)
  runtime.write(JSON.parse(converted.stdout))
}

function adopt(...words: readonly string[]) {
  const { code, stdout, stderr } = runtime.command('adopt', '--config-dir', runtime.directory, '-o', 'json', ...words)
  expect(stderr).toBe('')
  const { entries } = JSON.parse(stdout) as {
    entries: readonly { status: string; addresses: string[]; detail?: string }[]
  }
  return { code, entries, statuses: entries.map(({ status }) => status).sort() }
}

describe.skipIf(missing !== undefined).each(['iptables', 'nftables'])(
  'a node of the upstream chain with %s',
  (backend) => {
    it('is switched with its pods alive', { timeout: 300_000 }, async () => {
      runtime.write(referenceList(backend))
      for (let number = 0; number < 10; number++) await add(number)
      await expectAllFlow()
      const before = withoutShared(snapshot(host), knownOf(host))
      expect(before.links).toContain('bwp')

      // Before adoption: DEL without a record, and new pods among the old.
      convertList()
      await remove(0, 'there')
      await remove(1, 'gone')
      await add(10)
      await add(11)
      await expectAllFlow()

      // A pod whose DEL never comes, and whose cache entry is lost.
      const lost = pods.get(2)
      if (lost === undefined) throw new Error('no pod 2')
      await endStreams(2, lost)
      host.removePod(lost.netns)
      for (const name of readdirSync('/var/lib/cni/results')) {
        const isIts = host.run('grep', ['-q', lost.netns, `/var/lib/cni/results/${name}`]).code === 0
        if (isIts) rmSync(`/var/lib/cni/results/${name}`)
      }

      // A younger reservation may be of an ADD at work.
      host.run('find', ['/var/lib/cni/networks', '-type', 'f', '-exec', 'touch', '-d', '10 minutes ago', '{}', '+'])
      const dry = adopt()
      expect([dry.code, dry.statuses]).toEqual([1, [...Array(7).fill('adopt'), 'leak']])
      expect(leftOfPods().join('\n')).toContain(lost.addresses[0])
      const applied = adopt('--apply')
      expect([applied.code, applied.statuses], JSON.stringify(applied.entries)).toEqual([
        0,
        [...Array(7).fill('adopted'), 'cleared'],
      ])
      const again = adopt('--apply')
      expect([again.code, again.statuses]).toEqual([0, Array(7).fill('ours')])
      await expectAllFlow()

      // Ports and addresses of adopted pods are taken; their DELs come in any order.
      const refused = runtime.tool('add', host.pod('second'), capabilitiesOf(8003))
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('host port 8003/tcp')])
      for (const number of [12, 13]) await add(number)
      await expectAllFlow()
      for (const number of [13, 9, 3]) await remove(number, 'there')
      for (const number of [4, 10]) await remove(number, 'gone')
      await expectAllFlow()
      for (const number of [...pods.keys()]) await remove(number, number % 2 === 0 ? 'there' : 'gone')

      expect(far.broken).toEqual([])
      expect(leftOfPods()).toEqual([])
      expect(withoutShared(snapshot(host), knownOf(host)).state).toBe('')
    })

    it('without adoption, every DEL alone leaves nothing', async () => {
      runtime.write(referenceList(backend))
      for (let number = 0; number < 3; number++) await add(number)
      convertList()
      await remove(1, 'gone')
      await expectAllFlow()
      await remove(0, 'there')
      await expectAllFlow()
      await remove(2, 'there')
      expect(leftOfPods()).toEqual([])
    })

    it('is not applied to a list that still names the upstream plugins, unless it is named', async () => {
      runtime.write(referenceList(backend))
      await add(0)
      const found = adopt('--apply')
      expect([found.code, found.statuses]).toEqual([1, ['adopt']])
      expect(found.entries[0]?.detail).toContain('still names the upstream plugins')
      const named = adopt('--apply', runtime.file)
      expect([named.code, named.statuses]).toEqual([0, ['adopted']])
      convertList()
      await expectAllFlow()
      await remove(0, 'there')
      expect(leftOfPods()).toEqual([])
    })
  },
)
