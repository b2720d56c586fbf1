// SPDX-License-Identifier: Apache-2.0
// Every step of ADD, DEL and GC fails, or ends with its process, once before and once after the tool
// has done its work. Afterwards the next ADD works, and DEL of all pods leaves what was there before.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { addRound, callsOf, type Round, removeRound } from '../support/fault-rounds.ts'
import { faultsAt, openFaults, type ToolCall } from '../support/faults.ts'

const minutes = 60_000

describe('a tool that fails or takes its caller along', () => {
  let faults: ReturnType<typeof openFaults>
  beforeAll(() => {
    faults = openFaults()
  })
  afterAll(() => faults.close())

  const wrongIn = (calls: readonly ToolCall[], play: (round: Round) => readonly string[]): readonly string[] =>
    calls.flatMap((at) => faultsAt(at).flatMap((fault) => play({ faults, at, fault })))

  it.each(['first', 'steady'] as const)(
    'at any step of the %s ADD (pain 6: an ADD cut short leaves half a network)',
    (situation) => {
      const calls = callsOf(faults, situation, 'ADD')
      expect(calls.map(({ tool }) => tool)).toEqual(expect.arrayContaining(['ip', 'nft', 'nsenter']))
      expect(wrongIn(calls, (round) => addRound(situation, round)).join('\n')).toBe('')
    },
    3 * minutes,
  )

  it.each(['DEL', 'GC'] as const)(
    'at any step of %s',
    (verb) => {
      const calls = callsOf(faults, 'steady', verb)
      expect(calls.map(({ tool }) => tool)).toContain('ip')
      expect(wrongIn(calls, (round) => removeRound(verb, round)).join('\n')).toBe('')
    },
    3 * minutes,
  )
})
