// SPDX-License-Identifier: Apache-2.0
// A bare attachment (bridge, address, default route) and one with masquerade, against the upstream bridge.
import { empty, trestle, upstreamChain } from './contenders.mjs'
import { attachRounds, notesOf } from './rounds.mjs'
import { describeRatio, quantile, ratio } from './statistics.mjs'
import { leftOut, limits, row } from './table.mjs'

const ownWork = 'our own work above an empty executable, bare ADD / upstream bridge + host-local'

/** Rows and notes of a bare attachment. */
export async function bare(bench) {
  const { found } = bench
  const name = 'upstream bridge'
  const upstream = found.has('bridge') && found.has('host-local') ? [upstreamChain(found, name)] : []
  const { series, failed } = await attachRounds([empty(found), trestle(found), ...upstream], bench)
  const [own, nothing, theirs] = [series.get('trestle'), series.get('empty'), series.get(name)]
  if (!own) throw new Error(failed.get('trestle'))
  const above = (at) => quantile(own.add, at) - quantile(nothing.add, at)
  const notes = [
    ...notesOf(series),
    `own work of a bare ADD: ${above(0.5).toFixed(1)} ms (minima ${above(0).toFixed(1)})`,
  ]
  if (!theirs) return { rows: [leftOut(ownWork, failed.get(name) ?? found.missing.get('bridge'))], notes, series }
  const value = above(0.5) / quantile(theirs.add, 0.5)
  const detail = `minima ${(above(0) / quantile(theirs.add, 0)).toFixed(2)}`
  notes.push(...compare(own, theirs, 'upstream bridge'))
  return {
    rows: [row({ what: ownWork, limit: limits.ownWork, value, detail })],
    notes,
    series: Object.fromEntries(series),
  }
}

/** Notes and series of one with masquerade. */
export async function masquerade(bench) {
  const { found } = bench
  const backends = found.has('bridge') && found.has('host-local') ? ['iptables', 'nftables'] : []
  const references = backends.map((backend) =>
    upstreamChain(found, `upstream bridge, ${backend}`, { keys: { ipMasq: true, ipMasqBackend: backend } }),
  )
  const contenders = [empty(found), trestle(found, { ipMasq: true }), ...references]
  const { series, failed } = await attachRounds(contenders, bench)
  const own = series.get('trestle')
  if (!own) throw new Error(failed.get('trestle'))
  const notes = [...notesOf(series), ...[...failed].map(([name, reason]) => `${name} left out: ${reason}`)]
  for (const { name } of references) if (series.has(name)) notes.push(...compare(own, series.get(name), name))
  return { rows: [], notes, series: Object.fromEntries(series) }
}

function compare(own, theirs, name) {
  return ['add', 'del'].map(
    (verb) => `${verb.toUpperCase()} / ${name}: ${describeRatio(ratio(own[verb], theirs[verb]))}`,
  )
}
