// SPDX-License-Identifier: Apache-2.0
// What `npm run bench -- --report` draws, and that docs/benchmarks.md has a place for it: a run takes minutes.

import { describe, expect, it } from 'vitest'

interface Report {
  podsChart(fills: Readonly<Record<string, readonly number[]>>): string
  timelineChart(timelines: readonly object[]): string
  requirePage(): { readonly before: string; readonly after: string }
}

const files = ['pods-chart', 'timeline-chart', 'page'].map((name) => `../../scripts/bench/report/${name}.mjs`)
const parts = await Promise.all(files.map((file) => import(file) as Promise<Partial<Report>>))
const { podsChart, timelineChart, requirePage } = Object.assign({}, ...parts) as Report

/** A call of 20 ms whose tool starts at 8, gets its input at 10 and ends at 15. */
function timeline(name: string, args: object) {
  const tool = { name, cat: 'tool', ph: 'X', pid: 1, tid: 7, ts: 8000, dur: 7000, args }
  return {
    verb: 'ADD',
    ms: 20,
    startUs: 0,
    events: [
      { name: 'start', cat: 'phase', ph: 'X', pid: 1, tid: 0, ts: 1000, dur: 5000 },
      { name: 'usual', cat: 'phase', ph: 'X', pid: 1, tid: 0, ts: 6000, dur: 13000 },
      { name: 'fork', cat: 'fork', ph: 'X', pid: 1, tid: 0, ts: 8000, dur: 1000 },
      { name: 'input written', cat: 'tool', ph: 'i', pid: 1, tid: 7, ts: 10000 },
      tool,
    ],
  }
}

/** Fails unless every tag is closed, nothing was left uncounted, and both themes have every colour. */
function expectPicture(svg: string): void {
  expect(svg).not.toMatch(/NaN|undefined|Infinity/)
  const open: string[] = []
  for (const [, end, name = '', self] of svg.matchAll(/<(\/?)(\w+)[^>]*?(\/?)>/g)) {
    if (end) expect(open.pop()).toBe(name)
    else if (!self) open.push(name)
  }
  expect(open).toEqual([])
  const [light = '', dark = ''] = svg.split('@media(prefers-color-scheme:dark)')
  for (const [, colour] of svg.matchAll(/class="([\w-]+)"/g)) {
    expect(light).toContain(`.${colour}{`)
    expect(dark).toContain(`.${colour}{`)
  }
}

describe('the report of the bench', () => {
  it('draws a call: its phases, forks and tools, on an axis in ms', () => {
    const svg = timelineChart([timeline('nsenter --net=/proc/self/fd/3 -- ip -j -batch -', { code: 0 })])
    expectPicture(svg)
    for (const text of ['ADD, 20.0 ms', 'ms since the runtime started the call', 'ip, in the pod', 'usual', '>20<'])
      expect(svg).toContain(text)
    expect(svg).toContain('starts, waits for its input, 2.0 ms')
    expect(svg).toContain('works, until its end is seen, 5.0 ms')
  })

  it('says of a tool that goes on after the answer that it does, and writes its name as text', () => {
    const svg = timelineChart([timeline('<i>&"', { end: 'not waited for' })])
    expectPicture(svg)
    expect(svg).toContain('>&#60;i&#62;&#38;&#34;<')
    expect(svg).toContain('works on after the answer')
    expect(svg).toContain('>…<')
  })

  it('draws a line for each contender, with names that do not lie on each other', () => {
    const flat = (ms: number) => Array.from({ length: 300 }, () => ms)
    const svg = podsChart({ trestle: flat(50), 'upstream chain, iptables': flat(51), 'cni-kindnet': flat(51) })
    expectPicture(svg)
    expect([...svg.matchAll(/<polyline /g)].length).toBe(3)
    for (const text of ['pods on the node', 'ADD, ms (median of 20)', 'trestle, 50 ms', 'cni-kindnet, 51 ms'])
      expect(svg).toContain(text)
    const heights = [...svg.matchAll(/ y="([\d.]+)"[^>]*>[^<]*, \d+ ms</g)]
      .map(([, y]) => Number(y))
      .sort((a, b) => a - b)
    expect(heights.length).toBe(3)
    for (const [at, y] of heights.entries()) if (at > 0) expect(y - (heights[at - 1] ?? y)).toBeGreaterThanOrEqual(15)
  })

  it('has its place on the page, with what people wrote before and after', () => {
    const { before, after } = requirePage()
    expect(before).toMatch(/^# Benchmarks\n/)
    expect(after).toContain('## Limits')
  })
})
