// SPDX-License-Identifier: Apache-2.0
// A Node object that is edited while pods live, in sequences that seeds decide: after each edit no address and no
// gateway is there twice, and each live pod reaches its gateway and each other; a new pod gets its network, or ADD is
// refused by name and the agent is not ready. One sequence in each mode; six with TRESTLE_TEST_FULL=1, and as many more as
// TRESTLE_TEST_NODE_EDITS says.

import { describe, expect, it } from 'vitest'
import {
  type AgentPod,
  detach,
  nodeWithRounds,
  requireReach,
  tryAttach,
  uplink,
  writtenPlugin,
} from '../../support/cluster/agent-node.ts'
import { clusterOf, type EditedNode, edited, edits, firstNode, harmless } from '../../support/cluster/node-edits.ts'
import type { RoundAnswer } from '../../support/cluster/round-driver.ts'
import { numbers } from '../../support/seeded.ts'

const stepsEach = 20
const isFull = process.env['TRESTLE_TEST_FULL'] === '1'
const seeds = isFull ? [1, 2, 3, 4, 5, 6] : [1, 2]
const more = Number(process.env['TRESTLE_TEST_NODE_EDITS'] ?? 0)

interface Sequence {
  readonly pods: AgentPod[]
  readonly done: string[]
  made: number
}

const node = nodeWithRounds(uplink.v6)
/** Of each edit: how often it was made of a node that was ready, and how often new pods were refused then. */
const counts = new Map<string, { made: number; refused: number }>()

describe('edits of a Node under live pods', () => {
  it.each([...seeds, ...Array.from({ length: more }, (_, at) => 1000 + at)])(
    'hold with seed %i',
    async (seed) => {
      const [sequence, draw] = [{ pods: [], done: [], made: 0 } as Sequence, numbers(seed)]
      let now = firstNode(seed % 2 === 0 ? 'ptp' : 'bridge')
      let isReady = await step(sequence, now, 'first')
      expect(isReady).toBe(true)
      for (let made = 0; made < stepsEach; ) {
        const last = now
        const [name, change] = pick(draw, isReady, now)
        if (change === undefined) continue
        made += 1
        if (name === 'all pods go') for (const pod of sequence.pods.splice(0)) remove(pod)
        else if (draw(3) === 0 && sequence.pods.length > 1)
          remove(sequence.pods.splice(draw(sequence.pods.length), 1)[0])
        const hadPods = sequence.pods.length > 0
        now = edited(last, change)
        const wasReady = isReady
        isReady = await step(sequence, now, name)
        const why = sequence.done.join('; ')
        if (!hadPods || name === 'all pods go') expect(isReady, why).toBe(true)
        if (!wasReady) continue
        if (harmless.includes(name)) expect(isReady, why).toBe(true)
        const { made: before, refused } = counts.get(name) ?? { made: 0, refused: 0 }
        counts.set(name, { made: before + 1, refused: refused + (isReady ? 0 : 1) })
      }
    },
    300_000,
  )

  it('are refused by name, so often', () => {
    for (const [name, { made, refused }] of [...counts].sort()) console.log(`${name}: ${refused} of ${made} refused`)
    expect(counts.size).toBeGreaterThan(more === 0 ? 8 : 12)
  })
})

/** An edit; of a node that is not ready one that makes it so: the pods go, or the ranges are others altogether. */
function pick(draw: (n: number) => number, isReady: boolean, now: EditedNode) {
  const names = isReady ? [...Object.keys(edits), 'all pods go'] : ['all pods go', 'whole move', 'another uid']
  const name = names[draw(names.length)] ?? ''
  return [name, name === 'all pods go' ? {} : edits[name]?.(now)] as const
}

/** A round, an ADD, and all that holds then. Returns whether the agent is ready. */
async function step(sequence: Sequence, now: EditedNode, name: string): Promise<boolean> {
  const { done, pods } = sequence
  const result = await node.rounds.round({ nodes: clusterOf(now), options: { mode: now.mode } })
  done.push(`${name} ${now.cidrs.join()} ${now.mode}${result.isDone ? '' : ' (refused)'}`)
  const why = () => `${done.join('; ')}: ${JSON.stringify(result)}`
  expect(result.failures, why()).toEqual([])
  sequence.made += 1
  const added = tryAttach(node.host, `pod${sequence.made}`, writtenPlugin(node))
  const told = () => `${why()}: ${added.told}`
  if (result.isDone) {
    expect(added.pod?.addresses.length, told()).toBe(now.cidrs.length)
    if (added.pod) pods.push(added.pod)
  } else {
    expect([108, 110], told()).toContain(added.code)
    expect(result.waitsFor, told()).toMatch(/drain the node/)
    expect(idsOf(result), told()).toContain('MovedPodCIDR')
  }
  requireApart(sequence, why)
  requireReach(node.host, pods, why)
  if (pods.length > 4) remove(pods.shift())
  return result.isDone
}

function idsOf({ problems }: RoundAnswer): readonly string[] {
  return problems.filter(({ node }) => node === 'self').map(({ id }) => id)
}

/** No address is there twice, on pods and bridges alike. */
function requireApart({ pods }: Sequence, why: () => string): void {
  const printed = JSON.parse(node.host.run('ip', ['-j', '-d', 'addr', 'show']).stdout) as readonly {
    readonly linkinfo?: { readonly info_kind?: string }
    readonly addr_info?: readonly { readonly local: string; readonly scope: string }[]
  }[]
  const onHost = printed.map(({ linkinfo, addr_info = [] }) => ({
    isBridge: linkinfo?.info_kind === 'bridge',
    addresses: addr_info.filter(({ scope }) => scope === 'global').map(({ local }) => local),
  }))
  const onBridges = onHost.filter(({ isBridge }) => isBridge).flatMap(({ addresses }) => addresses)
  expect(onBridges.length, `${why()}: ${onBridges.join()}`).toBe(new Set(onBridges).size)
  const onPods = pods.flatMap(({ addresses }) => addresses)
  expect(onPods.length, `${why()}: ${onPods.join()}`).toBe(new Set(onPods).size)
  const both = onHost.flatMap(({ addresses }) => addresses).filter((address) => onPods.includes(address))
  expect(both, why()).toEqual([])
}

function remove(pod: AgentPod | undefined): void {
  if (pod !== undefined) detach(node.host, pod)
}
