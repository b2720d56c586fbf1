// SPDX-License-Identifier: Apache-2.0
// The whole network of a pod (masquerade, one host port, firewall, bandwidth, a sysctl) against the upstream chain
// and kindnet's plugin, with 1, 100 and 300 pods on the node.
import { kindnet, wholeReference, wholeTrestle } from './contenders.mjs'
import { attachRounds, notesOf } from './rounds.mjs'
import { describeRatio, mean, quantile, ratio } from './statistics.mjs'
import { leftOut, row } from './table.mjs'
import { notInEffect } from './whole-in-effect.mjs'

/** What docs/benchmarks.md, "Limits" allows, by number of pods: against the upstream chain, and against kindnet. */
const limits = { 1: { add: [0.4, 1], del: [0.2, 1] }, 300: { add: [0.2, 0.6], del: [0.2, 1] } }

/** Rows, notes and series, for each of the sizes. */
export async function whole(bench) {
  const lacks = await notInEffect(bench)
  if (lacks) return { rows: [leftOut('whole network', lacks)], notes: [] }
  const parts = []
  for (const pods of bench.sizes) parts.push(await wholeWith({ ...bench, pods }))
  return {
    rows: parts.flatMap(({ rows }) => rows),
    notes: parts.flatMap(({ notes }) => notes),
    series: Object.assign({}, ...parts.map(({ series }) => series)),
  }
}

async function wholeWith(bench) {
  const { found, pods } = bench
  const hasChain = ['bridge', 'portmap', 'firewall', 'bandwidth', 'tuning'].every(found.has)
  const chains = hasChain ? ['iptables', 'nftables'].map((backend) => wholeReference(found, backend)) : []
  const peers = found.has('cni-kindnet') ? [kindnet(found)] : []
  const { series, failed } = await attachRounds([wholeTrestle(found), ...chains, ...peers], bench)
  const own = series.get('trestle')
  if (!own) throw new Error(failed.get('trestle'))
  const against = (name, at) => {
    if (!series.has(name)) return [leftOut(`whole network, ${pods} pods / ${name}`, failed.get(name) ?? 'not found')]
    return ['add', 'del'].map((verb) => {
      const value = ratio(own[verb], series.get(name)[verb])
      const limit = limits[pods]?.[verb][at]
      return row({
        what: `whole ${verb.toUpperCase()}, ${pods} pods / ${name}`,
        limit,
        value: value.median,
        detail: describeRatio(value),
      })
    })
  }
  const rows = [
    ...['iptables', 'nftables'].flatMap((backend) => [
      ...against(`upstream chain, ${backend}`, 0),
      ...cpuRow(series, `upstream chain, ${backend}`, pods),
    ]),
    ...against('cni-kindnet', 1),
  ]
  const notes = notesOf(series).map((note) => `${pods} pods: ${note}`)
  return { rows, notes, series: { [`${pods} pods`]: Object.fromEntries(series) } }
}

function cpuRow(series, name, pods) {
  const [own, theirs] = [series.get('trestle'), series.get(name)]
  if (!theirs) return []
  const sum = (samples) => samples.reduce((total, each) => total + each, 0)
  const detail = `${mean(own.addCpu)} / ${mean(theirs.addCpu)}, wall ${quantile(own.add, 0.5).toFixed(1)} ms`
  return [
    row({
      what: `CPU of the tree, whole ADD, ${pods} pods / ${name}`,
      limit: 0.6,
      value: sum(own.addCpu) / sum(theirs.addCpu),
      detail,
    }),
  ]
}
