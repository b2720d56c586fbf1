// SPDX-License-Identifier: Apache-2.0
// Pages of docs/ whose blocks are what commands print: a test runs each command and compares, or with UPDATE_DOCS=1 writes
// what was printed into the page.

import { readFileSync, writeFileSync } from 'node:fs'
import { expect, vi } from 'vitest'

/** What a shell says to one line of a page: both of its outputs, as an operator sees them. */
export type Shell = (command: string) => Promise<string>

interface Step {
  readonly command: string
  readonly printed: string
}

const isUpdate = process.env['UPDATE_DOCS'] === '1'

/** A runtime and kubelet do things when they like. */
const patient = { timeout: 60_000, interval: 500 }

/**
 * Runs the commands of a page's only block below `heading`, in their order. What is printed has to be what the page has,
 * at once or within a minute; with UPDATE_DOCS=1 it becomes what the page has.
 */
export async function followPage(page: string, heading: string, shell: Shell): Promise<void> {
  const { before, steps, after } = blockBelow(readFileSync(page, 'utf8'), heading)
  expect(steps.length, `commands below ${heading}`).toBeGreaterThan(2)
  const shown: Step[] = []
  for (const { command, printed } of steps) {
    let now = ''
    const compare = async () => {
      now = publicForm(await shell(command))
      if (!isUpdate) expect(masked(now), command).toBe(masked(printed))
    }
    await vi.waitFor(compare, patient)
    shown.push({ command, printed: masked(now) === masked(printed) ? printed : now })
  }
  if (isUpdate) writeFileSync(page, `${before}${shown.map(textOf).join('')}${after}`)
}

const textOf = ({ command, printed }: Step) => `$ ${command}\n${printed === '' ? '' : `${printed}\n`}`

/** The first block below a heading, and what is around it. */
export function blockBelow(text: string, heading: string) {
  const start = text.indexOf(`\n${heading}\n`)
  const open = text.indexOf('\n```\n$ ', start)
  const close = text.indexOf('\n```\n', open + 1)
  const next = text.indexOf('\n#', start + 1)
  if (start < 0 || open < 0 || close < 0 || (next >= 0 && next < open)) throw new Error(`no block below "${heading}"`)
  const [from, to] = [open + '\n```\n'.length, close + 1]
  const steps = text
    .slice(from, to)
    .split(/^\$ /m)
    .slice(1)
    .map((part): Step => {
      const [command = '', ...lines] = part.split('\n')
      return { command, printed: lines.join('\n').trimEnd() }
    })
  return { before: text.slice(0, from), steps, after: text.slice(to) }
}

/** Without what says nothing of the node: the suffix of a kernel's version, and blanks at the end. */
function publicForm(text: string): string {
  return text
    .replace('-dirty), Linux', '), Linux')
    .replace(/(Linux \d+\.\d+\.\d+)[^;,\s]*/g, '$1')
    .replace(/[ \t]+$/gm, '')
    .trimEnd()
}

/** What is another in each run, in the order in which it is replaced. */
const volatile: readonly (readonly [RegExp, string])[] = [
  [/\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)/g, 'TIME'],
  [/\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]+ \+\d{4}/g, 'TIME'],
  [/\(process \d+\)/g, '(process N)'],
  [/\d+ times? in the last hour/g, 'N times in the last hour'],
  [/\b[0-9a-f]{60,64}(?:…|\b)/g, 'ID'],
  [/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, 'UUID'],
  [/\b\d{8}-\d{6}-\d{3}-\d+\b/g, 'RECORD'],
  [/\b\d+(?:\.\d+)? ms\b/g, 'N ms'],
  [/\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b/g, 'MAC'],
  [/\bfe80::[0-9a-f:]+/g, 'LINK-LOCAL'],
  [/\bveth[0-9a-f]{6,}\b/g, 'VETH'],
  [/trestle \d\S* \([^)]*\), Linux [^;]+;/g, 'trestle VERSION;'],
  // kubectl: how long ago, and how often since.
  [/\b(?:\d+[smh])+(?: \(x\d+ over (?:\d+[smh])+\))?/g, 'AGO'],
  [/, and \d+ more$/gm, ', and MORE'],
  [/\s+/g, ' '],
]

/** A text without what is another in each run. */
export function masked(text: string): string {
  return volatile.reduce((now, [what, mask]) => now.replace(what, mask), text).trim()
}
