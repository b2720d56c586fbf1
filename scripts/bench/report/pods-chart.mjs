// SPDX-License-Identifier: Apache-2.0
// ADD against the number of pods on the node, a line for each contender.
import { quantile } from '../statistics.mjs'
import { line, polyline, sheet, text, ticks } from './svg.mjs'

const size = { width: 860, height: 400 }
const frame = { left: 64, right: 620, top: 48, bottom: 340 }
const colours = ['first', 'second', 'third', 'fourth', 'fifth']
/** ADDs that make one point: their median. */
const each = 20

/** `fills`: what each ADD took, in ms, by contender, in the order of the pods. */
export function podsChart(fills) {
  const lines = Object.entries(fills).map(([name, times]) => ({ name, points: pointsOf(times) }))
  const all = lines.flatMap(({ points }) => points)
  const [pods, ms] = ['pods', 'ms'].map((key) => ticks(Math.max(...all.map((point) => point[key]))))
  const x = (value) => frame.left + (value / pods.at(-1)) * (frame.right - frame.left)
  const y = (value) => frame.bottom - (value / ms.at(-1)) * (frame.bottom - frame.top)
  const title = 'ADD of a whole pod network against the number of pods on the node'
  const labels = apart(lines.map(({ points }) => y(points.at(-1).ms)))
  return sheet({ ...size, title }, [
    text(title, { x: frame.left, y: 24, bold: true }),
    ...ms.flatMap((value) => [
      line({ x1: frame.left, x2: frame.right, y1: y(value), y2: y(value) }),
      text(`${value}`, { x: frame.left - 8, y: y(value) + 4, anchor: 'end', colour: 'dim' }),
    ]),
    ...pods.map((value) => text(`${value}`, { x: x(value), y: frame.bottom + 18, anchor: 'middle', colour: 'dim' })),
    text('pods on the node', {
      x: (frame.left + frame.right) / 2,
      y: frame.bottom + 42,
      anchor: 'middle',
      colour: 'dim',
    }),
    text(`ADD, ms (median of ${each})`, {
      x: 18,
      y: (frame.top + frame.bottom) / 2,
      anchor: 'middle',
      colour: 'dim',
      turned: true,
    }),
    ...lines.flatMap(({ name, points }, at) => [
      polyline(
        points.map((point) => ({ x: x(point.pods), y: y(point.ms) })),
        colours[at % colours.length],
      ),
      text(`${name}, ${points.at(-1).ms.toFixed(0)} ms`, {
        x: x(points.at(-1).pods) + 8,
        y: labels[at] + 4,
        colour: colours[at % colours.length],
      }),
    ]),
  ])
}

function pointsOf(times) {
  const count = Math.max(1, Math.floor(times.length / each))
  return Array.from({ length: count }, (_, at) => {
    const some = times.slice(at * each, (at + 1) * each)
    return { pods: at * each + some.length / 2, ms: quantile(some, 0.5) }
  })
}

/** The same heights, in the same order, a line of text apart. */
function apart(heights) {
  const order = heights.map((height, at) => ({ height, at })).toSorted((a, b) => a.height - b.height)
  for (const [at, one] of order.entries()) if (at > 0) one.height = Math.max(one.height, order[at - 1].height + 16)
  return order.toSorted((a, b) => a.at - b.at).map(({ height }) => height)
}
