// SPDX-License-Identifier: Apache-2.0
// What a call costs before it does anything: VERSION and STATUS against the empty executable.
import { empty, trestle } from './contenders.mjs'
import { openNode } from './node.mjs'
import { callRounds } from './rounds.mjs'
import { describe, quantile } from './statistics.mjs'
import { limits, row } from './table.mjs'

/** Rows and notes of the start-up. */
export async function start({ found, scratch, rounds }) {
  const own = openNode(trestle(found), scratch)
  const nothing = openNode(empty(found), scratch)
  await own.fill(1)
  const calls = [
    { name: 'empty executable', node: nothing, verb: 'EMPTY' },
    { name: 'VERSION', node: own, verb: 'VERSION' },
    { name: 'STATUS', node: own, verb: 'STATUS' },
  ]
  const series = await callRounds(calls, rounds * 2)
  for (const node of [own, nothing]) await node.close()
  const above = (name, at) => quantile(series.get(name), at) - quantile(series.get('empty executable'), at)
  const text = (name) => `${above(name, 0.5).toFixed(1)} ms (of the minima ${above(name, 0).toFixed(1)})`
  return {
    rows: [
      row({
        what: 'start-up above an empty executable: VERSION',
        limit: limits.start,
        value: above('VERSION', 0.5),
        unit: 'ms',
      }),
    ],
    notes: [
      ...[...series].map(([name, samples]) => `${name}: ${describe(samples)}`),
      `VERSION above empty: ${text('VERSION')}; STATUS above empty: ${text('STATUS')}`,
    ],
    series: Object.fromEntries(series),
  }
}
