// SPDX-License-Identifier: Apache-2.0
// Which address the pods behind a service see: the client's own, wherever the answer finds its way back through the
// translation. It does not where a packet was routed back to its own bridge: there the answer would go straight to the
// client, and the gateway's address is seen. kube-proxy itself is in test/e2e/kube-proxy.test.ts.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answer, ask, filterBridged, targetsAt } from '../../support/ask.ts'
import { trestle } from '../../support/host.ts'
import { expectSilent } from '../../support/outcome.ts'
import { stateWord } from '../../support/state-layout.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'
import { putServices } from '../../support/traffic/services.ts'
import { outside } from '../../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../../support/traffic/uplinked-host.ts'

const ranges = ['10.240.0.0/24', 'fd00:240::/64']
const gateway = ['10.240.0.1', 'fd00:240::1']
const port = 8080
const nodePort = 30080
const portMappings = ['tcp', 'udp'].map((protocol) => ({
  hostPort: 8081,
  containerPort: port,
  protocol,
}))
const withPort = { runtimeConfig: { portMappings } }
/** The two addresses of service `n`, one for each family. */
const service = (n: number) => [`10.96.0.${n}`, `fd00:96::${n}`]
const node = [outside.node4, outside.node6]
const other = {
  name: 'other',
  bridge: 'br-other',
  podcidr: ['10.250.0.0/24', 'fd00:250::/64'],
}
const both = (pod: Pod) => pod.result.ips.map(({ address }) => address.replace(/\/.*/, ''))

let host: UplinkedHost
beforeEach(() => {
  host = openUplinkedHost()
})
afterEach(() => host.close())

interface Pods {
  readonly caller: Pod
  readonly neighbour: Pod
  readonly stranger: Pod
}

/** A caller, its neighbour, a pod of another network and a server on another node, each behind a service. */
async function openServices(more: object): Promise<Pods> {
  const conf = netConf({
    podcidr: ranges,
    nonMasqueradeCIDRs: ['198.51.100.0/24', '2001:db8:2::/64'],
    ...more,
  })
  const caller = attach(host, conf, { id: 'caller' })
  const neighbour = attach(host, { ...conf, ...withPort }, { id: 'neighbour' })
  const stranger = attach(host, netConf({ ...more, ...other }), {
    id: 'stranger',
  })
  for (const netns of [caller.netns, neighbour.netns, stranger.netns, host.internet])
    host.atClose(await answer(netns, port))
  host.inPod(host.internet, 'ip', ['route', 'add', '10.240.0.0/24', 'via', outside.node4])
  host.inPod(host.internet, 'ip', ['-6', 'route', 'add', 'fd00:240::/64', 'via', outside.node6])
  const endpoints = [both(caller), both(neighbour), both(stranger), [outside.far4, outside.far6]]
  putServices(host, [
    ...endpoints.flatMap((each, n) =>
      each.map((endpoint, at) => ({
        clusterIP: service(n + 1)[at] ?? '',
        endpoint,
        port,
      })),
    ),
    ...both(neighbour).map((endpoint) => ({ nodePort, endpoint, port })),
  ])
  return { caller, neighbour, stranger }
}

/** Who is seen by the server behind these addresses: one text where both protocols agree, each family by its own. */
function seen(netns: string, addresses: readonly string[], at = port): readonly string[] {
  return addresses.map((address) => [...new Set(ask(host, netns, targetsAt([address], at)))].join(' and '))
}

/** What a service's endpoint sees of the caller, by where it is. */
function seenOf({ caller }: Pods) {
  return {
    itself: seen(caller.netns, service(1)),
    neighbour: seen(caller.netns, service(2)),
    'other network': seen(caller.netns, service(3)),
    'other node': seen(caller.netns, service(4)),
    'node port': seen(caller.netns, node, nodePort),
  }
}

const onBridge = {
  itself: gateway,
  'other network': ['10.250.0.1', 'fd00:250::1'],
}

describe('the client of a service', () => {
  it.each([true, false])('on a bridge, bridge-nf-call-iptables %s', async (isOn) => {
    filterBridged(host, isOn)
    const pods = await openServices({})
    const own = both(pods.caller)
    const neighbour = isOn ? own : gateway
    expect(seenOf(pods)).toEqual({
      ...onBridge,
      neighbour,
      'other node': own,
      'node port': neighbour,
    })
  })

  it('is its own from the next connection on when bridge-nf-call-iptables changes, each family by its own', async () => {
    filterBridged(host, false)
    const pods = await openServices({})
    const own = both(pods.caller)
    const neighbours = () => seen(pods.caller.netns, service(2))
    expect(neighbours()).toEqual(gateway)
    host.run('sysctl', ['-qw', 'net.bridge.bridge-nf-call-iptables=1'])
    expect(neighbours()).toEqual([own[0], gateway[1]])
    filterBridged(host, true)
    expect(neighbours()).toEqual(own)
    filterBridged(host, false)
    expect(neighbours()).toEqual(gateway)
  })

  it('routed, is its own for everybody but itself', async () => {
    const pods = await openServices({ mode: 'ptp' })
    const own = both(pods.caller)
    const found = seenOf(pods)
    expect(found).toMatchObject({
      neighbour: own,
      'other node': own,
      'node port': own,
    })
    expect([...found.itself, ...found['other network']]).not.toContain('')
  })

  it.each([
    ['bridge', true],
    ['bridge', false],
    ['ptp', false],
  ])('of the pod itself by its own host port gets an answer: %s, bridge-nf-call-iptables %s', async (mode, isOn) => {
    filterBridged(host, isOn)
    const { caller, neighbour } = await openServices({ mode })
    expect(seen(neighbour.netns, node, 8081)).toEqual(gateway)
    expect(seen(caller.netns, node, 8081)).toEqual(mode === 'bridge' && !isOn ? gateway : both(caller))
  })

  it('from outside is seen as itself through a node port, with externalTrafficPolicy Local', async () => {
    await openServices({})
    expect(seen(host.internet, node, nodePort)).toEqual(['192.0.2.2', '2001:db8:1::2'])
  })
})

describe('rules of another version', () => {
  const conf = netConf({ podcidr: ranges, ...withPort })
  const set = (name: string) => host.run('nft', ['list', 'set', 'inet', 'trestle', name]).stdout

  /** Everybody's packets within the subnets are masqueraded, and no pod on a bridge is said to reach itself. */
  async function openEarlier() {
    filterBridged(host, true)
    const pods = [
      attach(host, conf, { id: 'old' }),
      attach(host, netConf({ podcidr: ranges }), { id: 'beside' }),
    ] as const
    for (const { netns } of pods) host.atClose(await answer(netns, port))
    putServices(
      host,
      both(pods[0]).map((endpoint, at) => ({
        clusterIP: service(1)[at] ?? '',
        endpoint,
        port,
      })),
    )
    const lines = [
      'flush set inet trestle self4',
      'flush set inet trestle self6',
      'flush chain inet trestle postrouting',
      'delete set inet trestle hairpinlink',
      ...['ip', 'ip6'].map((ip) => {
        const pairs = `hairpin${ip === 'ip' ? 4 : 6}`
        const rule = `${ip} saddr . ${ip} daddr @${pairs} ct status dnat masquerade comment "trestle 3 ${pairs}"`
        return `add rule inet trestle postrouting ${rule}`
      }),
    ]
    expect(host.run('nft', ['-f', '-'], `${lines.join('\n')}\n`).stderr).toBe('')
    return pods
  }

  const heals = {
    'the next ADD': () => attach(host, netConf({ podcidr: ranges }), { id: 'new' }),
    restore: () => {
      const done = host.run('env', [stateWord(host), trestle, 'restore'])
      expect([done.code, done.stderr]).toEqual([0, ''])
    },
  }

  it.each(['the next ADD', 'restore'] as const)('give way with %s', async (heal) => {
    const [old, beside] = await openEarlier()
    expect(seen(beside.netns, service(1))).toEqual(gateway)
    heals[heal]()
    expect(seen(beside.netns, service(1))).toEqual(both(beside))
    expect(seen(old.netns, node, 8081)).toEqual(gateway)
    expectSilent(later(host, 'CHECK', { conf, pod: old }))
    expectSilent(later(host, 'DEL', { conf, pod: old }))
    expect([set('self4'), set('self6')].join('')).not.toContain('elements')
  })

  it('keep nobody from its DEL', async () => {
    const pods = await openEarlier()
    for (const pod of pods) expectSilent(later(host, 'DEL', { conf, pod }))
    expect(set('self4')).not.toContain('elements')
    const maps = ['anyports4', 'anyports6'].map(
      (map) => host.run('nft', ['list', 'map', 'inet', 'trestle', map]).stdout,
    )
    expect(maps.join('')).not.toContain('elements')
  })
})
