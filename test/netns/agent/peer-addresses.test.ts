// SPDX-License-Identifier: Apache-2.0
// Addresses and ranges that other Nodes list: whose they are, which of them routes go by, and what is told.

import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { expect, it } from 'vitest'
import { nodeWithRounds, uplink } from '../../support/cluster/agent-node.ts'
import { nodeObject } from '../../support/cluster/cluster.ts'
import { runLine } from '../../support/outcome.ts'

const node = nodeWithRounds(uplink.v6)

const [ranges, good] = [
  ['10.244.2.0/24', 'fd00:10:244:2::/64'],
  ['192.0.2.12', '2001:db8::12'],
]
const self = nodeObject('self', { cidrs: ['10.244.1.0/24', 'fd00:10:244:1::/64'], addresses: ['192.0.2.11'] })
const peer = (name: string, cidrs: readonly string[], addresses: readonly string[], created?: string) =>
  nodeObject(name, { cidrs, addresses, ...(created === undefined ? {} : { created }) })
const round = async (nodes: readonly object[], options: Readonly<Record<string, string>> = {}) => {
  const found = await node.rounds.round({ nodes: nodes.includes(self) ? nodes : [self, ...nodes], options })
  const told = found.problems.map((each) => `${each.node} ${each.id} ${each.text}`)
  return { ...found, told }
}
const routes = () =>
  [4, 6].flatMap((family) =>
    [...node.host.run('ip', [`-${family}`, 'route', 'show', 'proto', '116']).stdout.matchAll(/^(\S+) via (\S+)/gm)].map(
      ([, dst, gateway]) => `${dst} via ${gateway}`,
    ),
  )
const toTwo = ['10.244.2.0/24 via 192.0.2.12', 'fd00:10:244:2::/64 via 2001:db8::12']

it('no route goes by an address that cannot be the peer’s, each is told, and no route is made again', async () => {
  const wrong = ['169.254.1.1', 'fe80::9', '192.0.2.255', '192.0.2.11', '2001:db8::11']
  const nodes = [peer('two', ranges, [...wrong, ...good])]
  const { told, isDone } = await round(nodes)
  expect(routes()).toEqual(toTwo)
  expect(isDone).toBe(true)
  expect(told.map((text) => text.split(' ').slice(0, 4).join(' '))).toEqual(
    wrong.map((address) => `two BadInternalIP InternalIP ${address}`),
  )
  expect((await round(nodes)).said).not.toContain('routes changed')
})

it('this node’s own IPv6 address alone makes no route, and it is told', async () => {
  const { told } = await round([peer('two', ['fd00:10:244:2::/64'], ['2001:db8::11'])])
  expect(routes()).toEqual([])
  expect(told).toContain("two BadInternalIP InternalIP 2001:db8::11 is this node's own")
  expect((await round([peer('two', ['fd00:10:244:2::/64'], ['2001:db8::11'])])).said).not.toContain('routes changed')
})

it('a route that the kernel refuses is told, and the others are made', async () => {
  // By its scope such a route is no way to a gateway (net/ipv4/fib_semantics.c, fib_check_nh_v4_gw).
  runLine(node.host, 'ip route add 198.51.100.0/24 dev up0 scope global')
  const nodes = [peer('three', ['10.244.3.0/24'], ['198.51.100.12']), peer('two', ranges, good)]
  const { told, isDone } = await round(nodes)
  expect(isDone).toBe(true)
  expect(told).toEqual([expect.stringMatching(/^self RouteRefused could not route 10\.244\.3\.0\/24 /)])
  expect(routes()).toEqual(toTwo)
})

it('an address of this node that no route tells of is known, too', async () => {
  runLine(node.host, 'ip addr add 192.0.2.200/32 dev lo')
  const { told } = await round([peer('two', ['10.244.2.0/24'], ['192.0.2.200', '192.0.2.12'])])
  expect(told).toEqual(["two BadInternalIP InternalIP 192.0.2.200 is this node's own"])
  expect(routes()).toEqual([toTwo[0]])
})

it('an address in a node’s range takes it from nobody, and is told where it is listed', async () => {
  const strays = ['10.244.2.1', '10.244.1.7', '192.0.2.13']
  const elder = peer('elder', ['10.244.3.0/24'], strays, '2001-01-01T00:00:00Z')
  const own = nodeObject('self', { cidrs: ['10.244.1.0/24'], addresses: ['192.0.2.11', '10.244.1.1'] })
  const { problems, isDone } = await node.rounds.round({
    nodes: [own, elder, peer('two', ['10.244.2.0/24'], ['10.244.2.1', '192.0.2.12'])],
    options: {},
  })
  expect(isDone).toBe(true)
  expect(routes()).toEqual([toTwo[0], '10.244.3.0/24 via 192.0.2.13'])
  expect(problems.map((each) => `${each.node} ${each.id} ${each.text}`)).toEqual([
    'elder BadInternalIP InternalIP 10.244.2.1 is in podCIDR 10.244.2.0/24 of node two',
    'elder BadInternalIP InternalIP 10.244.1.7 is in podCIDR 10.244.1.0/24 of node self',
  ])
})

it('a range with the API server in it gets no route, and no configuration', async () => {
  const far = peer('far', ['10.99.0.0/16'], ['192.0.2.13'])
  const nodes = [self, far, peer('two', ranges, good)]
  const { problems } = await node.rounds.round({ nodes, options: {}, apiServer: 'https://10.99.0.10:6443' })
  expect(problems).toMatchObject([{ node: 'far', id: 'BadPodCIDR', text: expect.stringContaining('API server') }])
  expect(routes()).toEqual(toTwo)
  const own = peer('self', ['10.99.0.0/16'], ['192.0.2.11'])
  node.rounds.files.remove()
  const found = await node.rounds.round({ nodes: [own], options: {}, apiServer: 'https://10.99.0.10:6443' })
  expect(found).toMatchObject({ isDone: false, problems: [{ node: 'self', id: 'BadPodCIDR' }] })
  expect(existsSync(node.rounds.files.conflist)).toBe(false)
})

it('--cluster-cidr bounds what is routed', async () => {
  const nodes = [peer('two', ranges, good), peer('far', ['203.0.113.0/24'], ['192.0.2.13'])]
  const bounded = await round(nodes, { 'cluster-cidr': '10.244.0.0/16,fd00:10:244::/48' })
  expect(routes()).toEqual(toTwo)
  expect(bounded.told).toEqual([
    expect.stringMatching(/^far BeyondClusterCIDR podCIDR 203\.0\.113\.0\/24 is not in --cluster-cidr/),
  ])
  const open = await round([peer('two', ranges, good), peer('far', ['8.8.8.0/24'], ['192.0.2.13'])])
  expect(routes()).toEqual(['8.8.8.0/24 via 192.0.2.13', ...toTwo])
  expect(open.told).toEqual([])
})

it('allowOverlap of the template reaches the routes: nodes in a large subnet, pods in a part of it', async () => {
  const directory = mkdtempSync(`${tmpdir()}/trestle-template-`)
  const template = `${directory}/pods.conflist`
  try {
    runLine(node.host, 'ip addr add 10.0.0.11/8 dev up0')
    const nodes = [
      nodeObject('self', { cidrs: ['10.244.1.0/24'], addresses: ['10.0.0.11'] }),
      peer('two', ['10.244.2.0/24'], ['10.0.0.12']),
      // Still no way to take what is of this node.
      peer('thief', ['10.0.0.0/24'], ['10.0.0.13']),
    ]
    const by = async (text: object) => {
      writeFileSync(template, JSON.stringify({ plugins: [{ type: 'trestle', ...text }] }))
      const { problems } = await node.rounds.round({ nodes, options: { template } })
      return problems.map((each) => `${each.node} ${each.id}`).sort()
    }
    expect(await by({})).toEqual(['self OverlapsHost', 'thief BadPodCIDR', 'two OverlapsHost'])
    expect(routes()).toEqual([])
    expect(await by({ allowOverlap: true })).toEqual(['thief BadPodCIDR'])
    expect(routes()).toEqual(['10.244.2.0/24 via 10.0.0.12'])
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})
