// SPDX-License-Identifier: Apache-2.0
// Interleaved rounds of ADD and DEL: every contender in each round, so that a slow moment hits all of them.
import { openNode } from './node.mjs'
import { describe, mean } from './statistics.mjs'

const unmeasured = 3

/**
 * Fills a node per contender with `pods` pods, then adds one more pod and removes it, `rounds` times, in turns.
 * `prepare` gets each node after that. Returns `series`, a Map from the contender's name to {add, del, addCpu, delCpu,
 * delGone} in ms; the empty executable is run in place of a verb. A contender that fails is left out: `failed` maps its
 * name to the reason.
 */
export async function attachRounds(contenders, { pods = 1, ...bench }) {
  const { series, failed } = await attachSizes(contenders, { ...bench, sizes: [pods] })
  return { series: series.get(pods), failed }
}

/**
 * The same with each of `sizes` pods, one after the other, on the same nodes. Returns `series` by size, and `fills`: what
 * each ADD on the way took, by contender, in turns as well.
 */
export async function attachSizes(contenders, { scratch, rounds, sizes, prepare = () => {} }) {
  const open = { nodes: contenders.map((each) => openNode(each, scratch)), failed: new Map(), fills: new Map() }
  const series = new Map()
  try {
    for (const size of sizes.toSorted((a, b) => a - b)) {
      await fillTo(open, size)
      await eachOrOut(open, prepare)
      series.set(size, new Map(open.nodes.map(({ contender }) => [contender.name, emptySeries()])))
      for (let round = -unmeasured; round < rounds; round++) await oneRound(open, series.get(size), round)
    }
  } finally {
    for (const node of open.nodes) await node.close()
  }
  return { series, failed: open.failed, fills: open.fills }
}

function emptySeries() {
  return { add: [], del: [], addCpu: [], delCpu: [], delGone: [] }
}

async function fillTo(open, size) {
  const longest = Math.max(0, ...[...open.fills.values()].map(({ length }) => length))
  for (let pod = longest; pod < size; pod++) {
    await eachOrOut(open, async (node) => {
      if (node.contender.name === 'empty') return
      const { ms } = await node.call('ADD', { pod: node.pod() })
      open.fills.set(node.contender.name, [...(open.fills.get(node.contender.name) ?? []), ms])
    })
  }
}

/** Does it with each node in turn. What fails is out of the comparison from then on, with its reason. */
async function eachOrOut(open, body, turns = open.nodes) {
  for (const node of turns.filter(({ contender }) => !open.failed.has(contender.name))) {
    try {
      await body(node)
    } catch (error) {
      open.failed.set(node.contender.name, error.message)
      open.nodes = open.nodes.filter((other) => other !== node)
      await node.close()
    }
  }
}

async function oneRound(open, series, round) {
  const turns = rotate(open.nodes, round + unmeasured)
  const added = new Map(turns.map((node) => [node, node.contender.name === 'empty' ? undefined : node.pod()]))
  for (const verb of ['ADD', 'DEL']) {
    const one = async (node) => {
      const pod = added.get(node)
      const { ms, cpuMs, goneMs, result } = await node.call(pod ? verb : 'EMPTY', { pod, prevResult: pod?.result })
      if (pod && verb === 'ADD') pod.result = result
      if (round < 0) return
      const own = series.get(node.contender.name)
      own[verb.toLowerCase()].push(ms)
      if (cpuMs !== undefined) own[`${verb.toLowerCase()}Cpu`].push(cpuMs)
      if (verb === 'DEL') own.delGone.push(goneMs)
    }
    await eachOrOut(open, one, turns)
  }
  for (const name of open.failed.keys()) series.delete(name)
}

/** The first is not always the same one. */
export function rotate(list, by) {
  const at = by % list.length
  return [...list.slice(at), ...list.slice(0, at)]
}

/** The series of `attachRounds` in words, one line per contender. */
export function notesOf(series) {
  return [...series].map(([name, { add, del, addCpu, delCpu }]) => {
    if (name === 'empty') return `empty executable: ${describe(add)}`
    const cpu = (samples) => (samples.length === 0 ? 'not measured' : mean(samples))
    return `${name}: ADD ${describe(add)}, CPU ${cpu(addCpu)}; DEL ${describe(del)}, CPU ${cpu(delCpu)}`
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
