// SPDX-License-Identifier: Apache-2.0
// A Node object that is edited while pods live, in sequences that seeds decide: after each edit no address and no
// gateway is there twice, and each live pod reaches its gateway and each other; a new pod gets its network, or ADD is
// refused by name and the agent is not ready. One sequence in each mode; six with TRESTLE_TEST_FULL=1, and as many more as
// TRESTLE_TEST_NODE_EDITS says.

import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { clusterOf, type EditedNode, edited, edits, firstNode, harmless } from '../../support/cluster/node-edits.ts'
import type { RoundAnswer } from '../../support/cluster/round-driver.ts'
import { openRounds, type Rounds } from '../../support/cluster/rounds.ts'
import { type Host, openHost } from '../../support/host.ts'
import { runLine } from '../../support/outcome.ts'
import { numbers } from '../../support/seeded.ts'

const stepsEach = 20
const isFull = process.env['TRESTLE_TEST_FULL'] === '1'
const seeds = isFull ? [1, 2, 3, 4, 5, 6] : [1, 2]
const more = Number(process.env['TRESTLE_TEST_NODE_EDITS'] ?? 0)

interface Pod {
  readonly id: string
  readonly netns: string
  readonly conf: unknown
  readonly addresses: readonly string[]
  readonly gateways: readonly string[]
}

interface Sequence {
  readonly host: Host
  readonly rounds: Rounds
  readonly pods: Pod[]
  readonly done: string[]
  made: number
}

const open: Sequence[] = []
/** Of each edit: how often it was made of a node that was ready, and how often new pods were refused then. */
const counts = new Map<string, { made: number; refused: number }>()

afterEach(() => {
  for (const { host, rounds } of open.splice(0)) {
    rounds.close()
    host.close()
  }
})

function begin(): Sequence {
  const host = openHost()
  for (const line of [
    'link set lo up',
    'link add up0 type bridge',
    'link set up0 up',
    'addr add 192.0.2.11/24 dev up0',
    'addr add 2001:db8::11/64 dev up0 nodad',
  ])
    runLine(host, `ip ${line}`)
  const sequence = { host, rounds: openRounds(host), pods: [], done: [], made: 0 }
  open.push(sequence)
  return sequence
}

describe('edits of a Node under live pods', () => {
  it.each([...seeds, ...Array.from({ length: more }, (_, at) => 1000 + at)])(
    'hold with seed %i',
    async (seed) => {
      const [sequence, draw] = [begin(), numbers(seed)]
      let node = firstNode(seed % 2 === 0 ? 'ptp' : 'bridge')
      let isReady = await step(sequence, node, 'first')
      expect(isReady).toBe(true)
      for (let made = 0; made < stepsEach; ) {
        const last = node
        const [name, change] = pick(draw, isReady, node)
        if (change === undefined) continue
        made += 1
        if (name === 'all pods go') for (const pod of sequence.pods.splice(0)) remove(sequence, pod)
        else if (draw(3) === 0 && sequence.pods.length > 1)
          remove(sequence, sequence.pods.splice(draw(sequence.pods.length), 1)[0])
        const hadPods = sequence.pods.length > 0
        node = edited(last, change)
        const wasReady = isReady
        isReady = await step(sequence, node, name)
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
function pick(draw: (n: number) => number, isReady: boolean, node: EditedNode) {
  const names = isReady ? [...Object.keys(edits), 'all pods go'] : ['all pods go', 'whole move', 'another uid']
  const name = names[draw(names.length)] ?? ''
  return [name, name === 'all pods go' ? {} : edits[name]?.(node)] as const
}

/** A round, an ADD, and all that holds then. Returns whether the agent is ready. */
async function step(sequence: Sequence, node: EditedNode, name: string): Promise<boolean> {
  const { rounds, done, host, pods } = sequence
  const result = await rounds.round({ nodes: clusterOf(node), options: { mode: node.mode } })
  done.push(`${name} ${node.cidrs.join()} ${node.mode}${result.isDone ? '' : ' (refused)'}`)
  const why = () => `${done.join('; ')}: ${JSON.stringify(result)}`
  expect(result.failures, why()).toEqual([])
  const { cniVersion, name: network, plugins } = JSON.parse(readFileSync(rounds.files.conflist, 'utf8'))
  const conf = { cniVersion, name: network, ...plugins[0] }
  sequence.made += 1
  const id = `pod${sequence.made}`
  const netns = host.pod(id)
  const { code, json, stdout } = host.cni('ADD', conf, { id, netns })
  const told = () => `${why()}: ${stdout}`
  if (result.isDone) {
    expect(code, told()).toBe(0)
    const ips = json?.ips ?? []
    expect(ips.length, told()).toBe(node.cidrs.length)
    const addresses = ips.map(({ address }) => address.split('/')[0] ?? '')
    pods.push({ id, netns, conf, addresses, gateways: ips.map(({ gateway }) => gateway) })
  } else {
    expect([108, 110], told()).toContain(json?.code)
    expect(result.waitsFor, told()).toMatch(/drain the node/)
    expect(idsOf(result), told()).toContain('MovedPodCIDR')
    host.removePod(netns)
  }
  requireApart(sequence, why)
  requireReach(sequence, why)
  if (pods.length > 4) remove(sequence, pods.shift())
  return result.isDone
}

function idsOf({ problems }: RoundAnswer): readonly string[] {
  return problems.filter(({ node }) => node === 'self').map(({ id }) => id)
}

/** No address is there twice, on pods and bridges alike. */
function requireApart({ host, pods }: Sequence, why: () => string): void {
  const printed = JSON.parse(host.run('ip', ['-j', '-d', 'addr', 'show']).stdout) as readonly {
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

/** Each pod reaches its gateways and the addresses of all others of a family that it has. */
function requireReach({ host, pods }: Sequence, why: () => string): void {
  // An address that is given out again has another MAC where the families were swapped meanwhile: who knew it asks
  // again by itself, some seconds later (net/core/neighbour.c, NUD_DELAY and NUD_PROBE).
  host.run('ip', ['neigh', 'flush', 'all'])
  for (const pod of pods) {
    const families = new Set(pod.addresses.map(isSix))
    const others = pods.filter((each) => each !== pod).flatMap(({ addresses }) => addresses)
    const asked = [...pod.gateways, ...others.filter((address) => families.has(isSix(address)))]
    const script =
      'ip neigh flush all 2>/dev/null; for to in "$@"; do ping -n -c 1 -W 2 "$to" >/dev/null || echo "$to"; done'
    const lost = host.inPod(pod.netns, 'sh', ['-c', script, 'sh', ...asked]).stdout
    expect(lost, `${why()}: ${pod.id} with ${pod.addresses.join()} does not reach`).toBe('')
  }
}

function isSix(address: string): boolean {
  return address.includes(':')
}

function remove({ host }: Sequence, pod: Pod | undefined): void {
  if (pod === undefined) return
  const { code, stdout } = host.cni('DEL', pod.conf, { id: pod.id, netns: pod.netns })
  expect(code, stdout).toBe(0)
  host.removePod(pod.netns)
}
