// SPDX-License-Identifier: Apache-2.0
// Interleaved rounds of ADD and DEL: every contender in each round, so that a slow moment hits all of them.
import { openNode } from './node.mjs'
import { describe, mean } from './statistics.mjs'

const unmeasured = 3

/**
 * Fills a node per contender with `pods` pods, then adds one more pod and removes it, `rounds` times, in turns.
 * `prepare` gets each node after that. Returns `series`, a Map from the contender's name to {add, del, addCpu, delCpu}
 * in ms; the empty executable is run in place of a verb. A contender that fails at the beginning is left out: `failed`
 * maps its name to the reason.
 */
export async function attachRounds(contenders, { scratch, rounds, pods = 1, prepare = () => {} }) {
  const [nodes, failed, series] = [[], new Map(), new Map()]
  for (const contender of contenders) {
    const node = openNode(contender, scratch)
    try {
      if (contender.name !== 'empty') await node.fill(pods)
      await prepare(node)
      nodes.push(node)
      series.set(contender.name, { add: [], del: [], addCpu: [], delCpu: [] })
    } catch (error) {
      failed.set(contender.name, error.message)
      node.close()
    }
  }
  for (let round = -unmeasured; round < rounds; round++) await oneRound(nodes, series, round)
  for (const node of nodes) node.close()
  return { series, failed }
}

async function oneRound(nodes, series, round) {
  const turns = rotate(nodes, round + unmeasured)
  const added = new Map(turns.map((node) => [node, node.contender.name === 'empty' ? undefined : node.pod()]))
  for (const verb of ['ADD', 'DEL']) {
    for (const node of turns) {
      const pod = added.get(node)
      const { ms, cpuMs, result } = await node.call(pod ? verb : 'EMPTY', { pod, prevResult: pod?.result })
      if (pod && verb === 'ADD') pod.result = result
      if (round < 0) continue
      const own = series.get(node.contender.name)
      own[verb.toLowerCase()].push(ms)
      own[`${verb.toLowerCase()}Cpu`].push(cpuMs)
    }
  }
}

/** The first is not always the same one. */
function rotate(list, by) {
  const at = by % list.length
  return [...list.slice(at), ...list.slice(0, at)]
}

/** The series of `attachRounds` in words, one line per contender. */
export function notesOf(series) {
  return [...series].map(([name, { add, del, addCpu, delCpu }]) => {
    if (name === 'empty') return `empty executable: ${describe(add)}`
    return `${name}: ADD ${describe(add)}, CPU ${mean(addCpu)}; DEL ${describe(del)}, CPU ${mean(delCpu)}`
  })
}

/** Calls without a pod, in turns. `calls`: [{name, node, verb}]. Returns a Map from name to a series in ms. */
export async function callRounds(calls, rounds) {
  const series = new Map(calls.map(({ name }) => [name, []]))
  for (let round = -unmeasured; round < rounds; round++) {
    for (const { name, node, verb } of rotate(calls, round + unmeasured)) {
      const { ms } = await node.call(verb)
      if (round >= 0) series.get(name).push(ms)
    }
  }
  return series
}
