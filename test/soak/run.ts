// SPDX-License-Identifier: Apache-2.0
// The soak itself: a step, what must hold, the next step, until the time is over; at the end everything goes and nothing
// is left.

import { type Known, withoutShared, wordsOf } from '../support/allowance.ts'
import { type Snapshot, snapshot } from '../support/host.ts'
import { isDamaged, patterns } from '../support/state-layout.ts'
import { inflict } from './damage.ts'
import { confOf, networkNames, slots } from './networks.ts'
import { type Random, randomFrom } from './random.ts'
import { collectGarbage, restore, settle, wrongNow } from './settle.ts'
import { describeStep, nextStep, type Step } from './steps.ts'
import { callNetwork, callPod, count, dropNetns, isFull, openWorld, type Pod, removePod, type World } from './world.ts'

/** How long: until the time is over or so many steps are done, whatever comes first. */
export interface Length {
  readonly seed: number
  readonly minutes: number
  readonly steps?: number | undefined
}

/** What came of it. `wrong`: the first broken invariant, in words; empty where all held. */
export interface Soaked {
  readonly steps: number
  readonly counts: ReadonlyMap<string, number>
  readonly lastSteps: readonly string[]
  readonly wrong: readonly string[]
}

/** All live pods are checked every so many steps, one of them otherwise. */
const checkAllEvery = 10
const shownSteps = 12

/** Runs a soak on a node of its own. `tell` gets a line now and then. */
export async function soak(
  { seed, minutes, steps = Number.POSITIVE_INFINITY }: Length,
  tell: (line: string) => void,
): Promise<Soaked> {
  const world = openWorld()
  const random = randomFrom(seed)
  const before = snapshot(world.host)
  const end = performance.now() + minutes * 60_000
  const lastSteps: string[] = []
  let done = 0
  let wrong: readonly string[] = []
  try {
    while (wrong.length === 0 && done < steps && performance.now() < end) {
      const step = nextStep(random)
      done += 1
      lastSteps.push(`${done}: ${describeStep(step)}`)
      wrong = await playStep(world, step, { random, isFullRound: done % checkAllEvery === 0 })
      if (done % 100 === 0) tell(`${done} steps, ${[...world.pods.values()].length} pods`)
    }
    if (wrong.length === 0) {
      lastSteps.push('the end: DEL of everything')
      wrong = await removeAll(world, before)
    }
    return { steps: done, counts: world.counts, lastSteps: lastSteps.slice(-shownSteps), wrong }
  } finally {
    world.close()
  }
}

/** One step, what follows from it, and what is wrong then. */
async function playStep(
  world: World,
  step: Step,
  { random, isFullRound }: { readonly random: Random; readonly isFullRound: boolean },
): Promise<readonly string[]> {
  // Drawn whatever happens: the numbers of the next step must not depend on it.
  const chosen = random.fraction()
  const broken = await doStep(world, step)
  const settles = step.kind !== 'calls' || step.settles || isFullRound
  if (settles) await settle(world, broken)
  if (step.kind === 'damage') await restore(world)
  const live = [...world.pods.values()].filter(({ state }) => state === 'live')
  const checked =
    isFullRound || step.kind === 'damage' ? live : live.slice(Math.floor(chosen * live.length)).slice(0, 1)
  return await wrongNow(world, checked, settles)
}

/** Returns the pods that are not whole any more. */
async function doStep(world: World, step: Step): Promise<readonly Pod[]> {
  switch (step.kind) {
    case 'calls':
      await callAll(world, step)
      return []
    case 'check':
      return []
    case 'gc':
      await garbageOf(world, step.network, step.forgotten)
      return []
    case 'status':
      await status(world, step.network)
      return []
    case 'restore':
      await restore(world)
      return []
    case 'gc-apply':
      await collectGarbage(world)
      return []
    case 'damage': {
      count(world, `damage: ${step.damage}`)
      const broken = inflict(world, step.damage, step)
      for (const call of step.after) await callPod(world, call, false)
      return broken
    }
    default:
      return step satisfies never
  }
}

async function callAll(world: World, step: Extract<Step, { kind: 'calls' }>): Promise<void> {
  const isStrict = step.calls.every(({ disturbance }) => disturbance === undefined)
  const beside = {
    restore: () => restore(world),
    status: () => status(world, networkNames[0] ?? ''),
    'gc-apply': () => collectGarbage(world),
  }
  await Promise.all([
    ...step.calls.map((call) => callPod(world, call, isStrict)),
    ...(step.beside ? [beside[step.beside]()] : []),
  ])
}

async function status(world: World, network: string): Promise<void> {
  const { code, stdout, json } = await callNetwork(world, { verb: 'STATUS', network })
  if (json?.code === 50 && isFull(world, { network })) return
  if (code !== 0) world.complaints.push(`STATUS of ${network} ended with ${code}: ${stdout}`)
}

/** GC with the live pods; one that the runtime forgot goes with it. */
async function garbageOf(world: World, network: string, forgotten: number): Promise<void> {
  const live = [...world.pods.values()].filter(({ state, slot }) => state === 'live' && slot.network === network)
  const listed = live.filter(({ slot }) => slot.number !== forgotten)
  const { code, stdout } = await callNetwork(world, { verb: 'GC', network, listed })
  if (code !== 0) world.complaints.push(`GC of ${network} ended with ${code}: ${stdout}`)
  for (const pod of live.filter((each) => !listed.includes(each))) {
    dropNetns(world, pod)
    world.pods.delete(pod.slot.number)
  }
}

/** Everything goes; what networks share may stay (allowance.ts). */
async function removeAll(world: World, before: Snapshot): Promise<readonly string[]> {
  for (const pod of [...world.pods.values(), ...world.former]) await removePod(world, pod)
  await settle(world, [])
  const wrong = await wrongNow(world, [], true)
  const [was, is] = [withoutShared(before, ofNetworks), withoutDamaged(withoutShared(snapshot(world.host), ofNetworks))]
  const parts = Object.keys(is) as (keyof Snapshot)[]
  return [
    ...wrong,
    ...parts.flatMap((part) =>
      is[part] === was[part] ? [] : [`left: ${part} was\n${was[part]}\nand is\n${is[part]}`],
    ),
  ]
}

/** What the networks are of: their own files may be damaged. Gateways are not in their configurations, nor in our tables. */
const ofNetworks: Known = new Set(wordsOf(JSON.stringify(slots.map(confOf))))

/** What attachments share. Damaged after the last set-up of a network it stays so: an ADD writes it anew. */
const writtenAnew = new RegExp(`^(${[patterns.last, patterns.shared, patterns.mark, patterns.accept].join('|')})[ /]`)

/** What was set aside as damaged is kept for a person to look at. */
function withoutDamaged(taken: Snapshot): Snapshot {
  const state = taken.state.split('\n').filter((line) => !isDamaged(line) && !writtenAnew.test(line))
  return { ...taken, state: state.join('\n') }
}
