// SPDX-License-Identifier: Apache-2.0
// The whole network of a pod (masquerade, one host port, firewall, bandwidth, a sysctl) against the upstream chain
// and kindnet's plugin, with 1 and 300 pods on the node; on a bridge, and as the agent writes mode ptp.
import { kindnet, wholeReference, wholeRouted, wholeTrestle } from './contenders.mjs'
import { attachSizes, notesOf } from './rounds.mjs'
import { beside, describe, quantile, ratio, spread } from './statistics.mjs'
import { leftOut, limits, row } from './table.mjs'
import { notInEffect } from './whole-in-effect.mjs'

/** Who is compared with, and what table.mjs calls them. */
const peers = { 'upstream chain, iptables': 'chain', 'upstream chain, nftables': undefined, 'cni-kindnet': 'kindnet' }

/** The executable without which a peer is left out. */
const executables = {
  'upstream chain, iptables': 'portmap',
  'upstream chain, nftables': 'portmap',
  'cni-kindnet': 'cni-kindnet',
}

/** All who can be measured: trestle first. */
export function wholeContenders(found) {
  const hasChain = ['bridge', 'portmap', 'firewall', 'bandwidth', 'tuning'].every(found.has)
  const chains = hasChain ? ['iptables', 'nftables'].map((backend) => wholeReference(found, backend)) : []
  return [wholeTrestle(found), ...chains, ...(found.has('cni-kindnet') ? [kindnet(found)] : [])]
}

/** Rows, notes and series for each of the sizes; `fills`: the time of each ADD by the number of pods before it. */
export async function whole(bench) {
  const lacks = await notInEffect(bench)
  if (lacks) return { rows: [leftOut('whole network', lacks)], notes: [] }
  const routed = wholeRouted(bench.found)
  const lacksRouted = await notInEffect(bench, routed)
  const [own, ...others] = wholeContenders(bench.found)
  const { series, failed, fills } = await attachSizes([own, ...(lacksRouted ? [] : [routed]), ...others], bench)
  if (failed.has('trestle')) throw new Error(failed.get('trestle'))
  if (lacksRouted) failed.set(routed.name, lacksRouted)
  for (const [name, executable] of Object.entries(executables))
    if (!failed.has(name)) failed.set(name, bench.found.missing.get(executable))
  const parts = [...series].map(([pods, measured]) => wholeWith({ pods, series: measured, failed }))
  const times = [...fills].map(([name, each]) => `one at a time, ${name}: ${each.length} ADDs, ${describe(each)}`)
  return {
    rows: [...parts.flatMap(({ rows }) => rows), ...p99Rows(fills)],
    notes: [...parts.flatMap(({ notes }) => notes), ...times],
    series: Object.fromEntries([...series].map(([pods, each]) => [`${pods} pods`, Object.fromEntries(each)])),
    fills: Object.fromEntries(fills),
  }
}

function wholeWith({ pods, series, failed }) {
  const [own, routed] = [series.get('trestle'), series.get('trestle, ptp')]
  const against = ([name, peer]) => {
    const theirs = series.get(name)
    if (!theirs) return [leftOut(`whole network, ${podsOf(pods)} / ${name}`, failed.get(name))]
    return ['add', 'del'].map((verb) => {
      const value = ratio(own[verb], theirs[verb])
      const limit = peer && limits.whole(pods, verb, peer)
      const detail = `${beside(own[verb], theirs[verb])}; ${spread(value)}`
      return row({ what: `whole ${verb.toUpperCase()}, ${podsOf(pods)} / ${name}`, limit, value: value.median, detail })
    })
  }
  const routedAgainst = (name) => {
    const theirs = series.get(name)
    if (!theirs) return []
    if (!routed) return [leftOut(`whole network in mode ptp, ${podsOf(pods)} / ${name}`, failed.get('trestle, ptp'))]
    return ['add', 'del'].map((verb) => {
      const value = ratio(routed[verb], theirs[verb])
      const what = `whole ${verb.toUpperCase()} in mode ptp, ${podsOf(pods)} / ${name}`
      return row({ what, value: value.median, detail: `${beside(routed[verb], theirs[verb])}; ${spread(value)}` })
    })
  }
  const rows = [
    ...Object.entries(peers).flatMap(against),
    ...['trestle', 'upstream chain, iptables', 'cni-kindnet'].flatMap(routedAgainst),
    ...Object.keys(peers).flatMap((name) => (peers[name] === undefined ? [] : cpuRows(series, name, pods))),
  ]
  const gone = [...series].map(
    ([name, { delGone }]) => `${podsOf(pods)}: ${name}: the last process of a DEL is gone after ${describe(delGone)}`,
  )
  return { rows, notes: [...notesOf(series).map((note) => `${podsOf(pods)}: ${note}`), ...gone] }
}

/** Of all ADDs that filled the nodes, one at a time. */
function p99Rows(fills) {
  const own = fills.get('trestle')
  return [...fills].slice(1).map(([name, theirs]) => {
    const what = `whole ADD, one at a time, p99 of ${own.length} / ${name}`
    return row({ what, value: quantile(own, 0.99) / quantile(theirs, 0.99), detail: beside(own, theirs) })
  })
}

function podsOf(count) {
  return count === 1 ? '1 pod' : `${count} pods`
}

/** Until the last process of the tree is gone: what an early answer leaves at work counts. */
function cpuRows(series, name, pods) {
  const [own, theirs] = [series.get('trestle'), series.get(name)]
  if (!theirs) return []
  return ['add', 'del'].map((verb) => {
    const what = `CPU of the tree, whole ${verb.toUpperCase()}, ${podsOf(pods)} / ${name}`
    const [mine, other] = [own[`${verb}Cpu`], theirs[`${verb}Cpu`]]
    if (mine.length === 0) return leftOut(what, 'no control groups here')
    const limit = verb === 'add' && peers[name] === 'chain' ? limits.cpu : undefined
    const value = quantile(mine, 0.5) / quantile(other, 0.5)
    return row({ what, limit, value, detail: beside(mine, other) })
  })
}
