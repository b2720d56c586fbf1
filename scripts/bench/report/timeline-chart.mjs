// SPDX-License-Identifier: Apache-2.0
// Where the time of an ADD and of a DEL goes: the main thread above, the tools that it starts below, on one scale.
import { line, rect, sheet, text, ticks, widthOf } from './svg.mjs'

const width = 860
const frame = { left: 150, right: 840 }
const laneHeight = 24
const barHeight = 14

/** `timelines`: of case-timeline.mjs, one below the other. */
export function timelineChart(timelines) {
  const longest = Math.max(...timelines.map(({ ms }) => ms))
  const scale = ticks(longest, 10).filter((ms) => ms <= longest)
  const x = (ms) => frame.left + (ms / longest) * (frame.right - frame.left)
  const parts = []
  let y = 24
  const title = 'Where the time of a call goes: the whole network of a pod, the fastest of some calls'
  parts.push(text(title, { x: 16, y, bold: true }))
  y += 20
  for (const timeline of timelines) {
    const lanes = lanesOf(timeline)
    const bottom = y + 22 + lanes.length * laneHeight
    parts.push(
      text(`${timeline.verb}, ${timeline.ms.toFixed(1)} ms`, { x: 16, y: y + 14, bold: true }),
      ...scale.map((ms) => line({ x1: x(ms), x2: x(ms), y1: y + 20, y2: bottom })),
      ...lanes.flatMap((lane, at) => drawn(lane, { x, y: y + 22 + at * laneHeight + 4 })),
      line({ x1: x(timeline.ms), x2: x(timeline.ms), y1: y + 20, y2: bottom, colour: 'text', dash: '3 3' }),
      ...scale.map((ms) => text(`${ms}`, { x: x(ms), y: bottom + 14, anchor: 'middle', colour: 'dim' })),
    )
    y = bottom + 24
  }
  parts.push(
    text('ms since the runtime started the call', {
      x: (frame.left + frame.right) / 2,
      y: y + 8,
      anchor: 'middle',
      colour: 'dim',
    }),
    ...legend(y + 34),
  )
  return sheet({ width, height: y + 68, title }, parts)
}

/** {name, bars: [{from, to, fill, label, title}]}, from and to in ms since the runtime started the call. */
function lanesOf({ startUs, ms, events }) {
  const at = (us) => (us - startUs) / 1000
  const bar = ({ ts, dur, name }, fill, more) => ({ from: at(ts), to: at(ts + dur), fill, title: name, ...more })
  const phases = events.filter(({ cat }) => cat === 'phase')
  const forks = events.filter(({ cat }) => cat === 'fork')
  const load = { from: 0, to: at(phases[0].ts), fill: 'start', title: 'exec' }
  const end = at(phases.at(-1).ts + phases.at(-1).dur)
  const main = {
    name: 'main thread',
    bars: [
      load,
      ...phases.map((phase, index) =>
        bar(phase, index === 0 ? 'start' : index % 2 ? 'own' : 'next', {
          label: index === 0 ? 'exec, Node starts' : phase.name,
        }),
      ),
      { from: end, to: Math.max(end, ms), fill: 'start', title: 'the process ends' },
      ...forks.map((fork) => bar(fork, 'fork', { isLow: true })),
    ],
  }
  const tools = events.filter(({ cat, ph }) => cat === 'tool' && ph === 'X').toSorted((a, b) => a.ts - b.ts)
  return [main, ...tools.map((tool) => ({ name: nameOf(tool), bars: toolBars(tool, events, at) }))]
}

function toolBars(tool, events, at) {
  const written = events.find(({ ph, tid }) => ph === 'i' && tid === tool.tid)?.ts ?? tool.ts
  const [from, input, to] = [at(tool.ts), at(written), at(tool.ts + tool.dur)]
  return [
    { from, to: input, fill: 'waits', title: 'starts, waits for its input' },
    tool.args?.end === undefined
      ? { from: input, to, fill: 'works', title: 'works, until its end is seen' }
      : { from: input, to, fill: 'works', title: 'works on after the answer', isOpen: true },
  ]
}

/** `nsenter --net=… -- ip -j -batch -` is ip in the pod. */
function nameOf({ name }) {
  const [, inPod] = /^nsenter --net=\S+ -- (.*)$/.exec(name) ?? []
  const [tool] = (inPod ?? name).split(' ')
  const file = tool.slice(tool.lastIndexOf('/') + 1)
  return inPod === undefined ? file : `${file}, in the pod`
}

function drawn({ name, bars }, { x, y }) {
  return [
    text(name, { x: frame.left - 10, y: y + 12, anchor: 'end' }),
    ...bars.flatMap(({ from, to, fill, label, title, isLow, isOpen }) => {
      const [left, right] = [x(from), x(to)]
      const shape = isLow ? { y: y + barHeight, height: 4 } : { y, height: barHeight }
      const box = rect({
        x: left,
        width: right - left,
        ...shape,
        fill,
        title: `${title}, ${(to - from).toFixed(1)} ms`,
      })
      const fits = label !== undefined && widthOf(label) + 6 < right - left
      const words = [
        ...(fits ? [text(label, { x: left + 4, y: y + 11 })] : []),
        ...(isOpen ? [text('…', { x: right + 3, y: y + 11 })] : []),
      ]
      return [box, ...words]
    }),
  ]
}

/** Two lines of what the colours mean. */
function legend(y) {
  const lines = [
    [
      ['start', 'exec, start and end of Node'],
      ['own', 'phases of the main thread'],
      ['fork', 'in these it stands still for a fork'],
    ],
    [
      ['waits', 'a tool starts and waits for its input'],
      ['works', 'it works, until its end is seen'],
    ],
  ]
  return lines.flatMap((entries, row) =>
    entries.flatMap(([fill, words], column) => {
      const [x, at] = [frame.left + column * 235, y + row * 18]
      return [rect({ x, y: at - 9, width: 10, height: 10, fill }), text(words, { x: x + 15, y: at, colour: 'dim' })]
    }),
  )
}
