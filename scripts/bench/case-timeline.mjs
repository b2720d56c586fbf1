// SPDX-License-Identifier: Apache-2.0
// Where the time of an ADD and of a DEL of the whole network goes: the timelines that trestle writes of itself.
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { wholeTrestle } from './contenders.mjs'
import { openNode } from './node.mjs'

const pods = 10
const rounds = 15

/** No rows: `timelines` has of each verb the fastest of some calls, {verb, ms, startUs, events}; times in microseconds. */
export async function timeline({ found, scratch }) {
  const file = join(scratch, 'trace')
  const contender = wholeTrestle(found)
  const at = (state) => ({ ...contender.at(state), env: { ...contender.at(state).env, TRESTLE_TRACE: file } })
  const node = openNode({ ...contender, at }, scratch)
  const calls = []
  try {
    await node.fill(pods)
    for (let round = 0; round < rounds; round++) {
      const pod = node.pod()
      let prevResult
      for (const verb of ['ADD', 'DEL']) {
        rmSync(file, { force: true })
        const { ms, startUs, result } = await node.call(verb, { pod, prevResult })
        prevResult = result
        if (!existsSync(file)) throw new Error('the executable writes no timeline: npm run build')
        calls.push({ verb, ms, startUs, events: eventsIn(readFileSync(file, 'utf8')) })
      }
    }
  } finally {
    await node.close()
  }
  const fastest = (verb) => calls.filter((call) => call.verb === verb).toSorted((a, b) => a.ms - b.ms)[0]
  const timelines = [fastest('ADD'), fastest('DEL')]
  return { rows: [], notes: timelines.map(inWords), timelines }
}

function eventsIn(text) {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

function inWords({ verb, ms, events }) {
  const sum = (kind) =>
    events.filter(({ cat, ph }) => cat === kind && ph === 'X').reduce((all, { dur }) => all + dur, 0)
  const phases = events
    .filter(({ cat }) => cat === 'phase')
    .map(({ name, dur }) => `${name} ${(dur / 1000).toFixed(1)}`)
  return `${verb}, fastest of ${rounds}: ${ms.toFixed(1)} ms; ${phases.join(', ')}; forks ${(sum('fork') / 1000).toFixed(1)}`
}
