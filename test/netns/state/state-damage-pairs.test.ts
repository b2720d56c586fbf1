// SPDX-License-Identifier: Apache-2.0
// Two damages of a node at once: no live pod's address or host port is given to another, every DEL succeeds, and nothing
// is left after it, or after `trestle gc` where no DEL comes.
// TRESTLE_TEST_FULL=1 plays every pair both ways, which takes two hours of a processor; else a part of them that the
// printed seed chooses. TRESTLE_TEST_PART=3/20 plays every twentieth story from the third on, so that a run can be split.

import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { filesBelow, randomFrom } from '../../support/damage/damage.ts'
import { type NodeDamage, nodeDamages, pairsOf } from '../../support/damage/damage-pairs.ts'
import { makeStateOld, openWorn, plain, port, type Worn, whole } from '../../support/damage/worn-state.ts'
import { type Finished, trestle } from '../../support/host.ts'
import { ofThisPart } from '../../support/part.ts'
import { isOfAttachment, stateWord } from '../../support/state-layout.ts'

const seed = Number(process.env['TRESTLE_TEST_SEED'] ?? Date.now() % 1_000_000)
const isFull = process.env['TRESTLE_TEST_FULL'] === '1'
/** Enough that a few runs meet most pairs of kinds. */
const sampled = 37

console.log(`pairs of damages: TRESTLE_TEST_SEED=${seed}${isFull ? ', everything' : ''}`)

type Ending = 'every DEL comes' | 'no DEL comes'
type Story = readonly [NodeDamage, NodeDamage, Ending, string]

/** What is called before anything else: whatever it heals, it must not free what lives. */
const callsBetween: Readonly<Record<string, (worn: Worn) => string | undefined>> = {
  'nothing first': () => undefined,
  'restore first': (worn) => exits(command(worn, 'restore'), 0, 1),
  'gc first': (worn) => {
    makeStateOld(worn.host.stateDir)
    return exits(command(worn, 'gc', '--no-runtime', '--apply'), 0, 1)
  },
  'GC first': ({ host, p, q }) => {
    const valid = [p, q].map(({ id }) => ({ containerID: id, ifname: 'eth0' }))
    return exits(host.cni('GC', { ...plain, 'cni.dev/valid-attachments': valid }), 0)
  },
  'CHECK first': ({ host, p }) => {
    const checked = host.cni('CHECK', { ...whole, prevResult: p.result }, p.call)
    return checked.code === 0 || [4, 107].includes(checked.json?.code ?? 0) ? undefined : saying(checked)
  },
  'STATUS first': ({ host }) => exits(host.cni('STATUS', plain), 0),
}

const stories: readonly Story[] = pairsOf(nodeDamages).flatMap(([first, second], at) =>
  (['every DEL comes', 'no DEL comes'] as const).map((ending, turn): Story => {
    const names = Object.keys(callsBetween)
    return [first, second, ending, names[(at + turn + seed) % names.length] ?? '']
  }),
)

describe('two damages at once', () => {
  it.each(
    ofThisPart(chosen(stories)).map(
      (story) => [story.map((each) => (typeof each === 'string' ? each : each.name)).join(', '), story] as const,
    ),
  )('%s', (_, [first, second, ending, between]) => {
    const worn = openWorn()
    try {
      first.spoil(worn)
      second.spoil(worn)
      const isAlive = first.ends !== 'p' && second.ends !== 'p'
      expect(callsBetween[between]?.(worn)).toBeUndefined()
      expect(givenAway(worn, isAlive)).toEqual([])
      if (ending === 'every DEL comes') expect(afterDels(worn)).toEqual([])
      expect(afterGc(worn)).toEqual([])
    } finally {
      worn.close()
    }
  })
})

/** What of live pods others have got, and what else an ADD does that it must not. `isAlive`: whether the first pod is. */
function givenAway(worn: Worn, isAlive: boolean): readonly string[] {
  const { host, p, q, fresh } = worn
  const live = isAlive ? [p, q] : [q]
  const added = host.cni('ADD', plain, { id: 'f', netns: fresh })
  const address = added.json?.ips?.[0]?.address.replace(/\/.*/, '') ?? ''
  const wrong = [
    ...(added.code === 0 ? [] : [`ADD: ${saying(added)}`]),
    ...(live.some((pod) => pod.address === address) ? [`${address} was given out twice`] : []),
  ]
  const asking = live.map((pod) => ({
    pod,
    done: host.cni('ADD', plain, {
      id: `g${pod.id}`,
      netns: host.pod(`g${pod.id}`),
      args: `IP=${pod.address}`,
    }),
  }))
  for (const { pod, done } of asking)
    if (done.json?.code !== 102) wrong.push(`${pod.address} was given out: ${saying(done)}`)
  if (isAlive) {
    const conf = { ...plain, runtimeConfig: { portMappings: [port] } }
    const done = host.cni('ADD', conf, { id: 'h', netns: host.pod('h') })
    if (done.json?.code !== 104) wrong.push(`the host port was given out: ${saying(done)}`)
  }
  const shown = host.run('ip', ['-o', 'link', 'show', 'master', 'cni0']).stdout
  const lost = live.filter(({ hostLink }) => !shown.includes(`${hostLink}@`))
  for (const id of ['f', 'gp', 'gq', 'h']) {
    const done = host.cni('DEL', plain, { id })
    if (done.code !== 0) wrong.push(`DEL of ${id}: ${saying(done)}`)
  }
  return [...wrong, ...lost.map(({ hostLink }) => `${hostLink} of a live pod is not on the bridge`)]
}

/** The runtime's DELs, with the result of ADD and without, and once more. */
function afterDels({ host, p, q, qChained, dead }: Worn): readonly string[] {
  const dels = [
    host.cni('DEL', { ...whole, prevResult: p.result }, existsSync(p.netns) ? p.call : { ...p.call, netns: '' }),
    host.cni('DEL', qChained, q.call),
    host.cni('DEL', plain, q.call),
    host.cni('DEL', plain, dead.call),
    host.cni('DEL', plain, { ...p.call, netns: '' }),
  ]
  return dels.flatMap((done) => (done.code === 0 && done.stdout === '' ? [] : [`DEL: ${saying(done)}`]))
}

/** What is there of any pod once all are gone and `trestle gc` was there. */
function afterGc(worn: Worn): readonly string[] {
  const { host, p, q, dead } = worn
  for (const { netns } of [p, q, dead]) if (existsSync(netns)) host.removePod(netns)
  makeStateOld(host.stateDir)
  const swept = command(worn, 'gc', '--no-runtime', '--apply')
  const isClean = swept.code === 0 && swept.stdout.includes('0 to look at, 0 kept')
  return [...(isClean ? [] : [`gc: ${saying(swept)}`]), ...leftOf(worn)]
}

/** Links, elements of host ports, records and reservations. */
function leftOf({ host }: Worn): readonly string[] {
  const links = ['veth', 'ifb'].flatMap((kind) =>
    host.run('ip', ['-o', 'link', 'show', 'type', kind]).stdout.split('\n'),
  )
  const elements = host.run('nft', ['list', 'table', 'inet', 'trestle']).stdout.split('\n')
  return [
    ...links.filter((line) => line !== ''),
    ...elements.filter((line) => line.includes('18081')),
    ...filesBelow(host.stateDir).filter(isOfAttachment),
  ]
}

function command({ host }: Worn, ...words: readonly string[]): Finished {
  return host.run('env', [stateWord(host), trestle, ...words])
}

function exits(finished: Finished, ...codes: readonly number[]): string | undefined {
  return codes.includes(finished.code) ? undefined : saying(finished)
}

function saying({ code, stdout, stderr }: Finished): string {
  return `${code} ${stdout}${stderr}`
}

const foundOnce = [
  'every network: removed',
  'every finished record: removed',
  "a finished record: another attachment's",
]

/** Pairs that lost something once: played every time. */
function wasFound([first, second, ending]: Story): boolean {
  return foundOnce.includes(first.name) && second.name === 'the bridge: deleted' && ending === 'every DEL comes'
}

/** All, or some of them that the seed chooses. */
function chosen(all: readonly Story[]): readonly Story[] {
  if (isFull) return all
  const random = randomFrom(seed)
  const left = all.filter((story) => !wasFound(story))
  const some = Array.from({ length: sampled }, () => left.splice(Math.floor(random() * left.length), 1)).flat()
  return [...all.filter(wasFound), ...some]
}
