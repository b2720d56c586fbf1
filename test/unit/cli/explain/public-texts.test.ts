// SPDX-License-Identifier: Apache-2.0
// `trestle explain` on what people pasted into public threads: the right explanation and no other, however the text
// was quoted; and on texts of other matters, of which it must claim nothing. The causes in threads.tsv were written
// down before explain was asked; those in the files that end in held-out.tsv were counted before any pattern was
// written for them, as the first lines of each file tell.

import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { recognise } from '../../../../src/cli/explain/recognise.ts'
import { causesOf, formsOf, namedIn, table } from './texts.ts'

/** `a|b`: both are right. */
const asThread = ([id = '', source = '', , text = '']: readonly string[]) => ({ id, source, text, ids: id.split('|') })
const earlier = table('public-texts.tsv').map(([id = '', source = '', text = '']) => ({ id, source, text, ids: [id] }))
/** Development material alone: nothing of these searches was set aside. */
const development = ['-7', '-8', '-9'].flatMap((set) => table(`threads${set}.tsv`).map(asThread))
const heldOutSets = ['', '-2', '-3', '-4', '-5', '-6', '-10', '-11', '-12', '-13', '-15']
const threads = heldOutSets.flatMap((set) => table(`threads${set}.tsv`).map(asThread))
const heldOut = heldOutSets.flatMap((set) => table(`threads${set}-held-out.tsv`).map(asThread))
const others = ['other-texts.tsv', 'other-threads.tsv', 'other-threads-2.tsv', 'other-threads-3.tsv'].flatMap((name) =>
  table(name).map(([, text = '']) => text),
)

/** Whether a text was drawn for the held-out part, by the name of its thread. */
function isHeldOut(source: string): boolean {
  const digest = createHash('sha256').update(source).digest('hex')
  return BigInt(`0x${digest}`) % 5n === 0n
}

describe('a text from a public thread', () => {
  it('there are many, each with its thread', () => {
    expect(earlier.length).toBeGreaterThan(140)
    expect(threads.length + heldOut.length).toBeGreaterThan(370)
    const all = [...earlier, ...threads, ...heldOut, ...development]
    expect(all.filter(({ source }) => !/^(?:[\w.-]+\/[\w.-]+#\d+|https?:\/\/\S+)$/.test(source))).toEqual([])
  })

  it('a fifth of the threads is set aside, by their names alone', () => {
    expect(threads.filter(({ source }) => isHeldOut(source))).toEqual([])
    expect(heldOut.filter(({ source }) => !isHeldOut(source))).toEqual([])
  })

  it.each([...earlier, ...threads, ...development])('$source: $id', ({ ids, text }) => {
    for (const form of formsOf(text)) {
      const causes = causesOf(form)
      const [right = ids[0]] = ids.filter((id) => id === causes[0])
      expect({ form, causes }).toEqual({ form, causes: [right] })
    }
  })

  it('wrapped by a terminal, too', () => {
    const text = 'failed to set bridge addr: "cni0" already has an IP address different from 10.244.1.1/24'
    const wrapped = text.replace('already has an', 'already has\n    an').replace('IP address', 'IP\naddress')
    expect(recognise(wrapped).errors.map(({ id }) => id)).toEqual(['bridge-other-address'])
  })
})

it.each([
  'NetworkPlugin cni failed: **failed to find plugin** "loopback" in path [/opt/cni/bin]',
  'NetworkPlugin cni failed: failed to find plugin `loopback` in path [/opt/cni/bin]',
  '**NetworkPlugin cni failed**: `failed to find plugin "loopback" in path [/opt/cni/bin]`',
])('marks of Markdown hide nothing: %s', (text) => {
  expect(causesOf(text)).toEqual(['plugin-not-found'])
})

describe('what a plugin or a runtime prints, by its source', () => {
  it.each(table('printed.tsv').map(([id = '', source = '', text = '']) => ({ id, source, text })))(
    '$source: $text',
    ({ id, text }) => {
      for (const form of formsOf(text)) expect({ form, causes: causesOf(form) }).toEqual({ form, causes: [id] })
    },
  )
})

describe('the texts that were set aside', () => {
  // Counted once each, when the patterns were done: of 27, 22, 9, 5, 7, 41, 54, 91, 36, 47, 50, 35 and 53. Once a later search took
  // their place they were learned from as well. What they have now may become better, not worse.
  it.each([
    { name: 'threads-held-out.tsv', right: 27, unknown: 0, wrong: 0 },
    { name: 'threads-2-held-out.tsv', right: 22, unknown: 0, wrong: 0 },
    { name: 'threads-3-held-out.tsv', right: 8, unknown: 0, wrong: 1 },
    { name: 'threads-4-held-out.tsv', right: 5, unknown: 0, wrong: 0 },
    { name: 'threads-5-held-out.tsv', right: 7, unknown: 0, wrong: 0 },
    { name: 'threads-6-held-out.tsv', right: 41, unknown: 0, wrong: 0 },
    { name: 'threads-last-held-out.tsv', right: 45, unknown: 9, wrong: 0 },
    { name: 'threads-10-held-out.tsv', right: 65, unknown: 15, wrong: 11 },
    { name: 'threads-11-held-out.tsv', right: 34, unknown: 1, wrong: 1 },
    { name: 'threads-12-held-out.tsv', right: 45, unknown: 1, wrong: 1 },
    { name: 'threads-13-held-out.tsv', right: 46, unknown: 2, wrong: 2 },
    { name: 'threads-14-held-out.tsv', right: 33, unknown: 1, wrong: 1 },
    { name: 'threads-15-held-out.tsv', right: 39, unknown: 12, wrong: 2 },
  ])('$name: as well explained as when they were counted', (counted) => {
    const texts = table(counted.name).map(asThread)
    const answers = texts.map(({ ids, text }) => ({ ids, causes: formsOf(text).map((form) => causesOf(form).join()) }))
    const right = answers.filter(({ ids, causes }) => causes.every((cause) => ids.includes(cause))).length
    const unknown = answers.filter(({ causes }) => causes.every((cause) => cause === '')).length
    expect(answers).toHaveLength(counted.right + counted.unknown + counted.wrong)
    expect(right).toBeGreaterThanOrEqual(counted.right)
    expect(answers.length - right - unknown).toBeLessThanOrEqual(counted.wrong)
  })
})

describe('a text of another matter', () => {
  it('there are more than 160', () => {
    expect(others.length).toBeGreaterThan(160)
  })

  it.each(others)('%s', (text) => {
    for (const form of [text, `  Warning  Failed  3s  kubelet  ${text}`, JSON.stringify({ message: text })]) {
      expect({ form, named: namedIn(form) }).toEqual({ form, named: [] })
    }
  })
})
