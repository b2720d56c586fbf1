// SPDX-License-Identifier: Apache-2.0
// A Node that is registered again while its pods live: a part of its ranges, other masks, earlier ranges, another mode
// of the agent, and two bridges with one gateway as an earlier release has left them.

import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  type AgentPod,
  detach as detachFrom,
  nodeWithRounds,
  requireReach as requireReachOn,
  tryAttach,
  writtenPlugin,
} from '../../support/cluster/agent-node.ts'
import { nodeObject } from '../../support/cluster/cluster.ts'
import type { RoundAnswer } from '../../support/cluster/round-driver.ts'
import { stateFiles } from '../../support/state-layout.ts'

const [a, b] = [
  ['10.244.1.0/24', 'fd00:10:244:1::/64'],
  ['10.244.9.0/24', 'fd00:10:244:9::/64'],
] as const

const node = nodeWithRounds()

const registered = (cidrs: readonly string[], mode = 'bridge'): Promise<RoundAnswer> =>
  node.rounds.round({ nodes: [nodeObject('self', { cidrs, addresses: ['192.0.2.11'] })], options: { mode } })

const plugin = () => writtenPlugin(node)
const detach = (pod: AgentPod) => detachFrom(node.host, pod)
const requireReach = (...pods: readonly AgentPod[]) => requireReachOn(node.host, pods)

function attach(id: string, more: object = {}): AgentPod {
  const { pod, told } = tryAttach(node.host, id, { ...plugin(), ...more })
  if (pod === undefined) throw new Error(told)
  return pod
}

/** What ADD is refused with. */
const refusal = () => tryAttach(node.host, 'refused', plugin()).code

const reaches = (from: AgentPod, to: string) =>
  node.host.inPod(from.netns, 'ping', ['-n', '-c', '1', '-W', '3', to]).code === 0
const ids = ({ problems }: RoundAnswer) => problems.map(({ id }) => id)
const bridges = () =>
  [...node.host.run('ip', ['-br', 'link', 'show', 'type', 'bridge']).stdout.matchAll(/^(cni\d+)/gm)].map(
    ([name]) => name,
  )

describe('a Node that comes back', () => {
  it('with one of its ranges, or with both again, keeps the bridge, and all pods reach each other', async () => {
    await registered(a)
    const old = attach('old')
    for (const [at, cidrs] of [[a[0]], [a[1]], [a[1], a[0]], a].entries()) {
      expect(await registered(cidrs), cidrs.join()).toMatchObject({ isDone: true })
      const young = attach(`young${at}`)
      expect(bridges()).toEqual(['cni0'])
      requireReach(old, young)
      detach(young)
    }
  })

  it('with ranges that it has had before goes back to their bridge', async () => {
    await registered(a)
    const old = attach('old')
    await registered(b)
    const middle = attach('middle')
    expect(await registered(a)).toMatchObject({ isDone: true })
    const young = attach('young')
    expect(bridges()).toEqual(['cni0', 'cni1'])
    for (const other of [old, middle]) requireReach(young, other)
    expect(young.addresses).toEqual(['10.244.1.3', 'fd00:10:244:1::3'])
  })

  it('tells of pods that started before any agent of this boot, and their bridge goes with the last of them', async () => {
    await registered(b)
    const old = attach('old')
    rmSync(stateFiles(node.host).agent)
    const found = await registered(a)
    expect(ids(found)).toEqual(['MovedPodCIDR'])
    expect(bridges()).toEqual(['cni0'])
    const young = attach('young')
    requireReach(old, young)
    expect(node.host.run('nft', ['list', 'set', 'inet', 'trestle', 'podnet4']).stdout).toContain(b[0])
    detach(old)
    expect(await registered(a)).toMatchObject({ isDone: true, problems: [] })
    expect(bridges()).toEqual(['cni1'])
  })

  it.each([
    ['a smaller mask', ['10.244.1.0/25', a[1]]],
    ['a larger mask', ['10.244.0.0/23', a[1]]],
    ['another range of IPv4 beside that of IPv6', [b[0], a[1]]],
  ])('with %s is not ready and refuses new pods, until the old ones are gone', async (_, cidrs) => {
    await registered(a)
    const old = attach('old')
    const found = await registered(cidrs)
    expect(found).toMatchObject({ isDone: false, waitsFor: expect.stringContaining('drain the node') })
    expect(ids(found)).toEqual(['MovedPodCIDR'])
    expect(plugin()['podcidr']).toEqual(cidrs)
    expect(refusal()).toBe(108)
    expect(reaches(old, '10.244.1.1')).toBe(true)
    detach(old)
    expect(await registered(cidrs)).toMatchObject({ isDone: true, problems: [] })
    const young = attach('young')
    expect(bridges()).toEqual(['cni0'])
    for (const [at, address] of young.addresses.entries())
      expect(reaches(young, address.replace(/2$/, '1')), cidrs[at]).toBe(true)
  })

  it('with another range of IPv4 is ready once no pod has the earlier one, whatever lives on with IPv6', async () => {
    await registered(a)
    const old = attach('old')
    await registered([a[1]])
    const six = attach('six')
    const cidrs = [b[0], a[1]]
    expect(await registered(cidrs)).toMatchObject({ isDone: false })
    expect(refusal()).toBe(108)
    detach(old)
    expect(await registered(cidrs)).toMatchObject({ isDone: true, problems: [] })
    requireReach(six, attach('young'))
    expect(bridges()).toEqual(['cni0'])
  })

  it('with a range of each of two bridges is not ready', async () => {
    await registered(a)
    const old = attach('old')
    await registered(b)
    const middle = attach('middle')
    const found = await registered([a[0], b[1]])
    expect(found).toMatchObject({ isDone: false })
    expect(ids(found)).toEqual(['MovedPodCIDR'])
    expect(refusal()).toBe(110)
    requireReach(old, middle)
    detach(middle)
    detach(old)
    expect(await registered([a[0], b[1]])).toMatchObject({ isDone: true })
    attach('young')
  })

  it('with a larger range in mode ptp goes on, and with another part unless a pod has the address of the new gateway', async () => {
    await registered(['10.244.1.0/29'], 'ptp')
    const pods = [1, 2, 3, 4].map((n) => attach(`old${n}`))
    expect(pods.map(({ addresses }) => addresses[0])).toEqual(['10.244.1.2', '10.244.1.3', '10.244.1.4', '10.244.1.5'])
    expect(await registered(['10.244.1.0/28'], 'ptp')).toMatchObject({ isDone: true })
    const young = attach('young')
    for (const pod of pods) requireReach(pod, young)
    const upper = await registered(['10.244.1.4/30'], 'ptp')
    expect(upper).toMatchObject({ isDone: false })
    expect(ids(upper)).toEqual(['PoolNearlyFull', 'MovedPodCIDR'])
    expect(refusal()).toBe(110)
    for (const pod of pods) requireReach(pod, young)
    for (const pod of [...pods, young]) detach(pod)
    expect(await registered(['10.244.1.4/30'], 'ptp')).toMatchObject({ isDone: true, problems: [] })
    expect(attach('last').addresses).toEqual(['10.244.1.6'])
  })
})

describe('a range that an elder node has', () => {
  const elder = nodeObject('elder', { cidrs: [b[0]], addresses: ['192.0.2.12'], created: '2025-01-01T00:00:00Z' })
  const round = (cidrs: readonly string[]) =>
    node.rounds.round({
      nodes: [nodeObject('self', { cidrs, addresses: ['192.0.2.11'] }), elder],
      options: { mode: 'bridge' },
    })
  const elders = { isDone: false, waitsFor: expect.stringContaining('the elder') }

  it('brings no configuration to a node without one', async () => {
    expect(await round([b[0]])).toMatchObject(elders)
    expect(existsSync(node.rounds.files.conflist)).toBe(false)
  })

  it('is given to no pod of a node with other ranges before, and live pods stay and can be removed', async () => {
    await registered(a)
    const old = attach('old')
    expect(await round([b[0]])).toMatchObject(elders)
    expect(refusal()).toBe(7)
    expect(node.host.cni('STATUS', plugin()).json).toMatchObject({ code: 7 })
    expect(reaches(old, '10.244.1.1')).toBe(true)
    detachFrom(node.host, { ...old, conf: plugin() })
    expect(await registered(a)).toMatchObject({ isDone: true })
    attach('young')
  })

  it('stays with a node that was set up with it, which is not ready', async () => {
    await registered([b[0]])
    const old = attach('old')
    expect(await round([b[0]])).toMatchObject(elders)
    requireReach(old, attach('young'))
  })
})

describe('a range that another node has by now', () => {
  const other = nodeObject('other', { cidrs: [a[0]], addresses: ['192.0.2.12'] })
  const round = (cidrs: readonly string[], more: object = {}, nodes = [other]) =>
    node.rounds.round({
      nodes: [nodeObject('self', { cidrs, addresses: ['192.0.2.11'] }), ...nodes],
      options: { mode: 'bridge', ...more },
    })

  it.each([
    ['has none', [], {}],
    ['has one that is no range for pods', ['169.254.1.0/24'], {}],
    ['has another one, and no template yet', b, { template: '/nowhere/pods.conflist' }],
  ])('is given to no pod of a node that %s, and live pods stay and can be removed', async (_, cidrs, more) => {
    await registered(a)
    const old = attach('old')
    for (let n = 0; n < 2; n++)
      expect(await round(cidrs, more)).toMatchObject({
        isDone: false,
        waitsFor: expect.stringMatching(/; new pods get no address, 10\.244\.1\.0\/24 is node other's by now$/),
      })
    expect(plugin()).toMatchObject({ podcidr: [], firewall: { hostAccept: 'auto' } })
    expect(refusal()).toBe(7)
    const told = { code: 7, details: expect.stringContaining('/readyz') }
    expect(node.host.cni('STATUS', plugin()).json).toMatchObject(told)
    expect(reaches(old, '10.244.1.1')).toBe(true)
    detachFrom(node.host, { ...old, conf: plugin() })
    expect(await registered(a)).toMatchObject({ isDone: true })
    attach('young')
  })

  it('is the only reason to withdraw it from a node that has none', async () => {
    await registered(a)
    expect(await round([], {}, [])).toMatchObject({
      isDone: false,
      waitsFor: 'waiting for a podCIDR of the own node',
    })
    expect(plugin()['podcidr']).toEqual(a)
    attach('young')
  })
})

it('allowOverlap of the template allows no range that pods on another bridge have', async () => {
  const template = `${node.rounds.files.root}/pods.conflist`
  writeFileSync(template, JSON.stringify({ plugins: [{ type: 'trestle', allowOverlap: true }] }))
  const round = (cidrs: readonly string[]) =>
    node.rounds.round({ nodes: [nodeObject('self', { cidrs, addresses: ['192.0.2.11'] })], options: { template } })
  await round(a)
  attach('old')
  await round(b)
  const middle = attach('middle')
  expect(plugin()['allowOverlap']).toBe(true)
  expect(await round([a[0], b[1]])).toMatchObject({ isDone: false })
  expect(refusal()).toBe(110)
  detach(middle)
  expect(await round([a[0], b[1]])).toMatchObject({ isDone: true })
  expect(plugin()['allowOverlap']).toBe(true)
  attach('young')
})

it('no pod gets the gateway of pods of an earlier range, be it asked for', async () => {
  await registered(['10.244.3.128/25'], 'ptp')
  const old = attach('old')
  await registered(['10.244.3.0/24'], 'ptp')
  const asked = { runtimeConfig: { ips: ['10.244.3.129/24'] }, capabilities: { ips: true } }
  const ask = () => {
    const { pod, code } = tryAttach(node.host, 'asking', { ...plugin(), ...asked })
    return pod === undefined ? code : 'given'
  }
  expect(ask()).toBe(102)
  const young = attach('young')
  expect(ask()).toBe(102)
  requireReach(old, young)
  detach(old)
  expect(ask()).toBe('given')
})

describe('a range that overlaps the segment of the node', () => {
  it.each([
    ['bridge', '192.0.2.0/24'],
    ['bridge', '192.0.2.128/25'],
    ['ptp', '192.0.2.0/24'],
    ['ptp', '192.0.2.128/25'],
  ])(
    'in mode %s, %s, is named with the link, and the node keeps its segment and the routes by it',
    async (mode, range) => {
      await registered(a, mode)
      const old = attach('old')
      const peer = nodeObject('peer', { cidrs: ['10.244.7.0/24'], addresses: ['192.0.2.200'] })
      const self = nodeObject('self', { cidrs: [range], addresses: ['192.0.2.11'] })
      const found = await node.rounds.round({
        nodes: [self, peer],
        options: { mode },
      })
      expect(found).toMatchObject({
        isDone: false,
        waitsFor: expect.stringMatching(/overlaps 192\.0\.2\.0\/24 of up0/),
      })
      expect(found.problems.map(({ id, node }) => `${node} ${id}`).sort()).toEqual([
        'self MovedPodCIDR',
        'self OverlapsHost',
      ])
      expect(refusal()).toBe(110)
      expect(node.host.run('ip', ['route', 'get', '192.0.2.201']).stdout).toMatch(/^192\.0\.2\.201 dev up0 /)
      expect(node.host.run('ip', ['route', 'show', '10.244.7.0/24']).stdout).toMatch(/via 192\.0\.2\.200 dev up0/)
      expect(reaches(old, '192.0.2.11')).toBe(true)
      expect(await registered(a, mode)).toMatchObject({ isDone: true, problems: [] })
    },
  )
})

describe('--mode of an agent that is started again', () => {
  it.each([
    ['bridge', 'ptp'],
    ['ptp', 'bridge'],
  ])('is %s as long as a pod has it, and then %s', async (before, after) => {
    await registered(a, before)
    const old = attach('old')
    const modeOf = ({ mode = 'bridge' }: { readonly mode?: unknown }) => mode
    for (let round = 0; round < 2; round++) {
      const kept = await registered(a, after)
      expect(kept).toMatchObject({ isDone: true })
      expect(kept.problems).toMatchObject([{ id: 'ModeChanged', text: expect.stringContaining('drain the node') }])
      expect(modeOf(plugin())).toBe(before)
    }
    const young = attach('young')
    requireReach(old, young)
    for (const pod of [old, young]) detach(pod)
    expect(await registered(a, after)).toMatchObject({ isDone: true, problems: [] })
    expect(modeOf(plugin())).toBe(after)
    const [one, other] = [attach('one'), attach('other')]
    requireReach(one, other)
    expect(bridges()).toEqual(after === 'bridge' ? ['cni0'] : [])
  })
})

describe('two bridges with one gateway, by an earlier release', () => {
  it.each([0, 1])('are named, with what to do, and are one when the pods of bridge %i are gone', async (first) => {
    await registered(a)
    const more = { allowOverlap: true }
    const pods = [attach('one', more), attach('other', { ...more, bridge: 'cni1' })]
    expect(bridges()).toEqual(['cni0', 'cni1'])
    const found = await registered(a)
    expect(found).toMatchObject({ isDone: false })
    expect(found.problems.map(({ id, text }) => `${id}: ${text}`)).toEqual([
      expect.stringMatching(/^TwoBridges: cni0 and cni1 both have 10\.244\.1\.1\/24 and fd00:.*drain the node$/),
    ])
    // The kernel's route leads to the first, and new pods are plugged in there.
    const third = attach('third')
    requireReach(pods[0] as AgentPod, third)
    expect(reaches(third, '10.244.1.1')).toBe(true)
    detach(third)
    detach(pods[first] as AgentPod)
    await registered(a)
    expect(await registered(a)).toMatchObject({ isDone: true, problems: [] })
    const young = attach('young')
    await registered(a)
    expect(bridges()).toEqual([first === 0 ? 'cni1' : 'cni0'])
    requireReach(pods[1 - first] as AgentPod, young)
  })
})
