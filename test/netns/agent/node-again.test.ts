// SPDX-License-Identifier: Apache-2.0
// A Node whose ranges change while it has pods: they are fixed until the last of them has gone. And another mode of the
// agent, and ranges that somebody else has.

import { existsSync } from 'node:fs'
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
const bridges = () =>
  [...node.host.run('ip', ['-br', 'link', 'show', 'type', 'bridge']).stdout.matchAll(/^(cni\d+)/gm)].map(
    ([name]) => name,
  )

describe('a Node with other ranges', () => {
  it.each([
    ['other ranges', 'bridge', b],
    ['other ranges', 'ptp', b],
    ['another range of IPv4', 'bridge', [b[0], a[1]]],
    ['a smaller mask', 'bridge', ['10.244.1.0/25', a[1]]],
    ['a larger mask', 'ptp', ['10.244.0.0/23', a[1]]],
    ['one of its ranges', 'bridge', [a[1]]],
  ])(
    '%s, mode %s: not ready and no new pods until the last pod has gone, then the new network',
    async (_, mode, cidrs) => {
      await registered(a, mode)
      const [old, other] = [attach('old'), attach('other')]
      const found = await registered(cidrs, mode)
      expect(found).toMatchObject({ isDone: false, waitsFor: expect.stringContaining('drain this node') })
      expect(found.problems).toMatchObject([
        { id: 'MovedPodCIDR', text: expect.stringContaining(', then delete its remaining pods or reboot it') },
      ])
      expect(refusal()).toBe(110)
      requireReach(old, other)
      const asPod = ['get', 'element', 'inet', 'trestle', 'podnet4', `{ ${old.addresses[0]} }`]
      expect(node.host.run('nft', asPod).code, 'the old range is one of pods').toBe(0)
      detach(other)
      expect(await registered(cidrs, mode)).toMatchObject({ isDone: false })
      detach(old)
      expect(await registered(cidrs, mode)).toMatchObject({ isDone: true, problems: [] })
      const young = attach('young')
      expect(young.gateways).toHaveLength(cidrs.length)
      requireReach(young, attach('another'))
      expect(node.host.run('ip', ['-br', 'addr', 'show', 'type', 'bridge']).stdout.includes('10.244.1.1/24')).toBe(
        false,
      )
    },
  )

  it('is as before with the same ranges again', async () => {
    await registered(a)
    const old = attach('old')
    await registered(b)
    expect(await registered(a)).toMatchObject({ isDone: true, problems: [] })
    requireReach(old, attach('young'))
    expect(bridges()).toEqual(['cni0'])
  })
})

describe('a range that an elder node has', () => {
  const elder = nodeObject('elder', { cidrs: [b[0]], addresses: ['192.0.2.12'], created: '2025-01-01T00:00:00Z' })
  const round = (cidrs: readonly string[]) =>
    node.rounds.round({
      nodes: [nodeObject('self', { cidrs, addresses: ['192.0.2.11'] }), elder],
      options: { mode: 'bridge' },
    })
  const elders = {
    isDone: false,
    problems: expect.arrayContaining([expect.objectContaining({ text: expect.stringContaining('the elder') })]),
  }

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

  it('stays with a node that was set up with it, which is told of it', async () => {
    await registered([b[0]])
    const old = attach('old')
    expect(await round([b[0]])).toMatchObject({ ...elders, isDone: true })
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
        waitsFor: expect.stringMatching(/podCIDR|there is no such file/),
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

  it('is no range of a node that has none: new pods wait for one', async () => {
    await registered(a)
    expect(await round([], {}, [])).toMatchObject({
      isDone: false,
      waitsFor: 'waiting for a podCIDR of the own node',
    })
    expect(plugin()['podcidr']).toEqual([])
    expect(refusal()).toBe(7)
    expect(await registered(a)).toMatchObject({ isDone: true })
    attach('young')
  })
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
      expect(found).toMatchObject({ isDone: false })
      expect(found.problems.find(({ id }) => id === 'OverlapsHost')?.text).toMatch(/overlaps 192\.0\.2\.0\/24 of up0/)
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
      expect(kept.problems).toMatchObject([{ id: 'ModeChanged', text: expect.stringContaining('drain this node') }])
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
