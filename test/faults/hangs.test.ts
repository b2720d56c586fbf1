// SPDX-License-Identifier: Apache-2.0
// A process that hangs until the call's own deadline, on nodes side by side since they only wait. TRESTLE_TEST_PART=1/2
// plays half of the kinds of networks.

import { expect, it } from 'vitest'
import { type FaultNode, openFaultNode } from '../support/faults/fault-node.ts'
import { type RoundVerb, roundVerbs, type Strike } from '../support/faults/fault-rounds.ts'
import { type FeatureSet, featureSets } from '../support/faults/fault-sets.ts'
import { hangStrikes, listingTools } from '../support/faults/fault-strikes.ts'
import { isLong, undisturbed, wrongOf } from '../support/faults/fault-suite.ts'
import type { ToolCall } from '../support/faults/faults.ts'
import { ofThisPart } from '../support/part.ts'

const minutes = 60_000
/** The whole call's time (docs/design.md, "The verbs"), and what a loaded machine takes beside. */
const limitMs = 20_000 + 10_000
/** The streams of more nodes, or quicker ones, would be what keeps the machine busy. */
const atOnce = 12
const talking = { everyMs: 200 }
const sets: readonly FeatureSet[] = isLong ? ofThisPart(Object.values(featureSets)) : [featureSets.whole]

it.each(sets)(
  '$title: every verb ends within its deadline, and leaves nothing half done',
  async (set) => {
    const found = await onNode(openFaultNode(set, talking), async (node) => {
      const wrong: string[] = []
      const strikes: [RoundVerb, Strike][] = []
      for (const verb of roundVerbs) {
        const seen: ToolCall[] = []
        wrong.push(...(await undisturbed(node, verb, listingTools(seen))))
        strikes.push(...few(hangStrikes(seen)).map((strike) => [verb, strike] as [RoundVerb, Strike]))
      }
      return { wrong, strikes }
    })
    const wrong = [...found.wrong]
    for (let at = 0; at < found.strikes.length; at += atOnce) {
      wrong.push(...(await struckSideBySide(set, found.strikes.slice(at, at + atOnce))))
    }
    expect(wrong).toEqual([])
  },
  15 * minutes,
)

/** Nodes are opened one after the other: each is a dozen processes. Returns what was wrong, and which calls took too long. */
async function struckSideBySide(
  set: FeatureSet,
  strikes: readonly (readonly [RoundVerb, Strike])[],
): Promise<readonly string[]> {
  const late: string[] = []
  const [ready, ended] = [meeting(strikes.length), meeting(strikes.length)]
  let opened: Promise<unknown> = Promise.resolve()
  const played = strikes.map(async ([verb, strike]) => {
    const tell = (ms: number) => late.push(`${verb}, ${strike.what}: took ${ms} ms`)
    const waiting = sideBySide(strike, { ready, ended, late: tell })
    const opening = opened.then(() => openFaultNode(set, talking))
    opened = opening
    return await onNode(opening, (node) => wrongOf(node, { verb, strikes: [waiting] }))
  })
  return [...(await Promise.all(played)).flat(), ...late]
}

/** In a short run the first and the last process of a verb. */
function few(strikes: readonly Strike[]): readonly Strike[] {
  return isLong ? strikes : strikes.filter((_, at) => at === 0 || at === strikes.length - 1)
}

/**
 * The struck calls run side by side, while this process only waits: preparing nodes and looking at them would keep it
 * from reading what the calls say. `late`: told of a call that took too long.
 */
function sideBySide(strike: Strike, of: { ready: Meeting; ended: Meeting; late: (ms: number) => void }): Strike {
  return {
    ...strike,
    run: async (node, call) => {
      await of.ready()
      const from = performance.now()
      const struck = await strike.run(node, call)
      const tookMs = Math.round(performance.now() - from)
      if (tookMs > limitMs) of.late(tookMs)
      await of.ended()
      return struck
    },
  }
}

type Meeting = () => Promise<void>

/** Resolves for everybody once `count` have come. */
function meeting(count: number): Meeting {
  const { promise, resolve } = Promise.withResolvers<void>()
  let come = 0
  return async () => {
    come += 1
    if (come === count) resolve()
    await promise
  }
}

async function onNode<T>(opening: Promise<FaultNode>, play: (node: FaultNode) => Promise<T>): Promise<T> {
  const node = await opening
  try {
    return await play(node)
  } finally {
    node.close()
  }
}
