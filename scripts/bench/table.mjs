// SPDX-License-Identifier: Apache-2.0
// The result for people: a line a promise of speed with its limit.

/** By number of pods on the node, verb, and contender. */
const whole = {
  1: { add: { chain: 0.53, kindnet: 1.2 }, del: { chain: 0.17, kindnet: 0.9 } },
  300: { add: { chain: 0.33, kindnet: 0.85 }, del: { chain: 0.17, kindnet: 0.9 } },
}

/** Limits of the rows, as ratios within one run. `chain`: the upstream plugins with iptables. */
export const limits = {
  whole: (pods, verb, peer) => whole[pods]?.[verb][peer],
  cpu: 0.6,
  manyPods: 1.1,
  foreignRules: 1.1,
  ownWork: 1,
  start: 2.2,
  storm: 0.25,
  containerd: 0.42,
}

/** One line. `limit` undefined: told, not judged. `detail` stands behind the figure. */
export function row({ what, limit, value, unit = '', digits = 2, detail = '' }) {
  const state = limit === undefined ? '' : value <= limit ? 'ok' : 'over'
  return { what, limit, value, unit, digits, detail, state }
}

/** A line without a figure, with the reason. */
export function leftOut(what, reason) {
  return { what, state: 'left out', detail: reason ?? 'unknown', unit: '', digits: 0 }
}

/** The lines as text in columns. */
export function renderTable(rows) {
  const cells = rows.map(({ what, limit, value, unit, digits, detail, state }) => [
    what,
    limit === undefined ? '' : `${limit} ${unit}`.trim(),
    value === undefined ? '' : `${value.toFixed(digits)} ${unit}`.trim(),
    state,
    detail,
  ])
  const all = [['what', 'at most', 'measured', '', ''], ...cells]
  const widths = [0, 1, 2, 3].map((column) => Math.max(...all.map((line) => line[column].length)))
  return all
    .map((line) =>
      line
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
