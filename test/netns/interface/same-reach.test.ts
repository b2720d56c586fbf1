// SPDX-License-Identifier: Apache-2.0
// The same pods through the upstream chain and through the list that `trestle convert` makes of it: who
// reaches whom, as whom, and what the pod has. Differences are named here, each with its reason.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answer, ask, filterBridged } from '../../support/ask.ts'
import { missingCnitool, openRuntime, type Runtime } from '../../support/cnitool.ts'
import { outside, pings } from '../../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../../support/traffic/uplinked-host.ts'

const missing = missingCnitool(['bridge', 'ptp', 'host-local', 'portmap', 'firewall', 'bandwidth', 'tuning'])
if (missing !== undefined) console.warn(missing)

const network = 'compared'

/** `main`: keys of the plugin that makes the interface. */
interface Feature {
  readonly what: string
  readonly main: { readonly type: 'bridge' | 'ptp' } & Readonly<Record<string, unknown>>
  readonly backend: 'iptables' | 'nftables'
  /** iptables and nft see what a bridge forwards (br_netfilter). */
  readonly isBridgeFiltered: boolean
  /** What another pod is seen as by the server behind a host port, where the two are not alike; '': not answered. */
  readonly otherPodSeenAs?: Readonly<Record<'tcp' | 'udp', { readonly upstream: string; readonly trestle: string }>>
}

const seen = (upstream: { tcp: string; udp: string }, trestle: string) => ({
  tcp: { upstream: upstream.tcp, trestle },
  udp: { upstream: upstream.udp, trestle },
})

const bridge = { type: 'bridge', bridge: 'br-cmp', isDefaultGateway: true, ipMasq: true, hairpinMode: true } as const

const features: readonly Feature[] = [
  // portmap's iptables backend masquerades the whole subnet. Where netfilter sees what a bridge forwards there is no
  // need: the answer is translated there, and the other pod keeps its address.
  {
    what: 'bridge with iptables',
    main: bridge,
    backend: 'iptables',
    isBridgeFiltered: true,
    otherPodSeenAs: seen({ tcp: 'gateway', udp: 'gateway' }, 'other pod'),
  },
  { what: 'bridge with iptables, unseen', main: bridge, backend: 'iptables', isBridgeFiltered: false },
  // portmap's nftables backend masquerades a pod that reaches itself only: the answer of another pod comes
  // untranslated over the bridge, which is right by luck when netfilter sees it, and lost when not.
  { what: 'bridge with nftables', main: bridge, backend: 'nftables', isBridgeFiltered: true },
  {
    what: 'bridge with nftables, unseen',
    main: bridge,
    backend: 'nftables',
    isBridgeFiltered: false,
    // A socket of the probe for UDP takes an answer from anywhere.
    otherPodSeenAs: seen({ tcp: '', udp: 'other pod' }, 'gateway'),
  },
  // Answers of routed pods come back through the node anyway: they keep the other pod's address.
  {
    what: 'ptp with iptables',
    main: { type: 'ptp', ipMasq: true },
    backend: 'iptables',
    isBridgeFiltered: true,
    otherPodSeenAs: seen({ tcp: 'gateway', udp: 'gateway' }, 'other pod'),
  },
]

function listOf({ main, backend }: Feature) {
  // The upstream bridge adds the default route itself, and fails when IPAM has one too.
  const routes = main.type === 'ptp' ? [{ dst: '0.0.0.0/0' }] : []
  const ipam = { type: 'host-local', ranges: [[{ subnet: '10.78.0.0/24' }]], routes }
  return {
    cniVersion: '1.0.0',
    name: network,
    plugins: [
      { ...main, ipMasqBackend: backend, ipam },
      { type: 'portmap', backend, capabilities: { portMappings: true } },
      { type: 'firewall' },
      { type: 'bandwidth', ingressRate: 8e8, ingressBurst: 8e7, egressRate: 8e8, egressBurst: 8e7 },
      { type: 'tuning', sysctl: { 'net.core.somaxconn': '500' }, mtu: 1400 },
    ],
  }
}

const hostPort = 8100
const portMappings = (['tcp', 'udp'] as const).map((protocol) => ({ hostPort, containerPort: 80, protocol }))

let host: UplinkedHost
let runtime: Runtime
function open(): void {
  host = openUplinkedHost()
  // The outside knows a way to the pods, so that a probe shows who is seen, not only who is answered.
  host.inPod(host.internet, 'ip', ['route', 'add', '10.78.0.0/24', 'via', outside.node4])
  runtime = openRuntime(host, network)
}
function close(): void {
  runtime.close()
  host.close()
}
beforeEach(open)
afterEach(close)

function addPod(label: string, capabilities: object): { netns: string; address: string } {
  const netns = host.pod(label)
  const added = runtime.tool('add', netns, capabilities)
  expect(added.code, added.stderr).toBe(0)
  return { netns, address: added.json?.ips[0]?.address.replace(/\/.*/, '') ?? '' }
}

/** Each probe with what it saw: the client's address as the server has it, by name; '' where nobody answered. */
async function probes(): Promise<Readonly<Record<string, string>>> {
  const served = addPod('served', { portMappings })
  const other = addPod('other', {})
  for (const netns of [served.netns, host.internet]) host.atClose(await answer(netns, 80))
  const names: Readonly<Record<string, string>> = {
    ...{ [served.address]: 'served pod', [other.address]: 'other pod', [outside.node4]: 'node' },
    ...{ '10.78.0.1': 'gateway', '192.0.2.2': 'outside', '127.0.0.1': 'loopback' },
  }
  const reached: Record<string, string> = {}
  const look = (what: string, netns: string, targets: Readonly<Record<string, readonly [string, number]>>) => {
    const entries = Object.entries(targets).flatMap(([name, [address, port]]) =>
      (['tcp', 'udp'] as const).map((protocol) => ({
        name: `${protocol} ${what} -> ${name}`,
        protocol,
        address,
        port,
      })),
    )
    const answers = ask(host, netns, entries)
    for (const [at, { name }] of entries.entries()) reached[name] = names[answers[at] ?? ''] ?? answers[at] ?? ''
  }
  look('other pod', other.netns, {
    pod: [served.address, 80],
    'host port': [outside.node4, hostPort],
    outside: ['192.0.2.2', 80],
  })
  look('served pod', served.netns, { 'its own host port': [outside.node4, hostPort], outside: ['192.0.2.2', 80] })
  look('outside', host.internet, { 'host port': [outside.node4, hostPort], pod: [served.address, 80] })
  look('node', host.path, {
    'host port': [outside.node4, hostPort],
    'host port on 127.0.0.1': ['127.0.0.1', hostPort],
    pod: [served.address, 80],
  })
  const had = { ...settingsOf(served.netns), gateway: `${pings(host, other.netns, '10.78.0.1')}` }
  for (const { netns } of [served, other]) runtime.tool('del', netns, { portMappings })
  return { ...reached, ...had }
}

/** What a pod has by other features: a sysctl, its MTU, and how many links are limited. */
function settingsOf(netns: string): Readonly<Record<string, string>> {
  const somaxconn = host.inPod(netns, 'cat', ['/proc/sys/net/core/somaxconn']).stdout.trim()
  const mtu = /mtu (\d+)/.exec(host.inPod(netns, 'ip', ['link', 'show', 'eth0']).stdout)?.[1] ?? ''
  const qdiscs = host.run('tc', ['qdisc', 'show']).stdout.split('\n')
  return { somaxconn, mtu, shaped: `${qdiscs.filter((line) => line.includes(' tbf ')).length}` }
}

describe.skipIf(missing !== undefined)('upstream and trestle', () => {
  it.each(features)('reach the same: $what', async (feature) => {
    runtime.write(listOf(feature))
    filterBridged(host, feature.isBridgeFiltered)
    const upstream = await probes()
    // Another node for trestle, so that neither finds what the other left.
    close()
    open()
    filterBridged(host, feature.isBridgeFiltered)
    runtime.write(listOf(feature))
    const converted = runtime.command('convert', runtime.file)
    expect(converted.code, converted.stderr).toBe(0)
    runtime.write(JSON.parse(converted.stdout))
    const trestle = await probes()

    expect(Object.entries(trestle).filter(([, client]) => client === '')).toEqual([])
    const unlike = Object.keys(trestle).filter((name) => trestle[name] !== upstream[name])
    const found = unlike.map((name) => [name, { upstream: upstream[name], trestle: trestle[name] }])
    const known = Object.entries(feature.otherPodSeenAs ?? {})
    const expected = known.map(([protocol, each]) => [`${protocol} other pod -> host port`, each])
    expect(Object.fromEntries(found)).toEqual(Object.fromEntries(expected))
  })
})
