// SPDX-License-Identifier: Apache-2.0
// Medians as bars of text, for a terminal and for docs/benchmarks.md.
import { quantile } from './statistics.mjs'

const widthOfLongest = 48

/**
 * Bars of one verb. `groups`: name of a group to {contender: {add, del}} with series in ms. One scale for all, so that
 * groups can be compared.
 */
export function plot(title, verb, groups) {
  const lines = Object.entries(groups).flatMap(([group, series]) =>
    Object.entries(series).map(([name, measured]) => ({ group, name, ms: quantile(measured[verb], 0.5) })),
  )
  const longest = Math.max(...lines.map(({ ms }) => ms))
  const width = (key) => Math.max(...lines.map((line) => line[key].length))
  const [groupWidth, nameWidth] = [width('group'), width('name')]
  const text = lines.map(({ group, name, ms }, at) => {
    const shown = group === lines[at - 1]?.group ? '' : group
    const bar = '#'.repeat(Math.max(1, Math.round((ms / longest) * widthOfLongest)))
    return `  ${shown.padEnd(groupWidth)}  ${name.padEnd(nameWidth)}  ${bar} ${ms.toFixed(0)}`
  })
  return [title, ...text].join('\n')
}
