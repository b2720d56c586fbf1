// SPDX-License-Identifier: Apache-2.0
// A pod that comes, goes and comes again with the same names, without a pause: what a DEL leaves at work after its
// answer is in the way of the ADD behind it.

import { wholeContenders } from './case-whole.mjs'
import { openNode } from './node.mjs'
import { rotate } from './rounds.mjs'
import { beside, describe, ratio, spread } from './statistics.mjs'
import { leftOut, row } from './table.mjs'

const pods = 10

/** Rows of ADD, DEL, ADD of the whole network. */
export async function churn({ found, scratch, rounds }) {
  const nodes = wholeContenders(found).map((contender) => openNode(contender, scratch))
  const series = new Map(nodes.map(({ contender }) => [contender.name, []]))
  const failed = new Map()
  try {
    for (let round = 0; round < rounds; round++) {
      for (const node of rotate(nodes, round)) {
        const { name } = node.contender
        if (!failed.has(name)) await oneChurn(node, series.get(name)).catch((error) => failed.set(name, error.message))
      }
    }
  } finally {
    for (const node of nodes) await node.close()
  }
  if (failed.has('trestle')) throw new Error(failed.get('trestle'))
  const own = series.get('trestle')
  const rows = [...series.keys()].slice(1).map((name) => {
    const what = `ADD, DEL, ADD of the same names without a pause / ${name}`
    if (failed.has(name)) return leftOut(what, failed.get(name))
    const value = ratio(own, series.get(name))
    return row({ what, value: value.median, detail: `${beside(own, series.get(name))}; ${spread(value)}` })
  })
  return { rows, notes: [...series].map(([name, each]) => `${name}: ${each.length > 0 ? describe(each) : 'failed'}`) }
}

async function oneChurn(node, times) {
  await node.fill(pods)
  const pod = node.pod()
  const { ms, result } = await node.call('CHURN', { pod })
  times.push(ms)
  await node.call('DEL', { pod, prevResult: result })
}
