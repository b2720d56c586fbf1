// SPDX-License-Identifier: Apache-2.0
// `trestle explain` on what people pasted into public threads: the right explanation and no other, however the text
// was quoted; and on texts of other matters, of which it must claim nothing.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { recognise } from '../../../../src/cli/explain/recognise.ts'

function table(name: string): readonly (readonly string[])[] {
  const text = readFileSync(new URL(name, import.meta.url), 'utf8')
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return lines.map((line) => line.split('\t'))
}

const known = table('public-texts.tsv').map(([id = '', source = '', text = '']) => ({ id, source, text }))
const others = table('other-texts.tsv').map(([source = '', text = '']) => ({ source, text }))

/** A text as it stands, as an event, as a line of the journal, and quoted twice. */
function formsOf(text: string): readonly string[] {
  const log = 'E1122 10:00:01.123456     811 pod_workers.go:1298] "Error syncing pod, skipping"'
  return [
    text,
    `  Warning  FailedCreatePodSandBox  3s (x4 over 12s)  kubelet  ${text}`,
    `Nov 22 10:00:01 node kubelet[811]: ${log} err=${JSON.stringify(text)} pod="default/web"`,
    JSON.stringify({ message: JSON.stringify({ note: text }) }),
  ]
}

describe('a text from a public thread', () => {
  it('there are many, each with its thread', () => {
    expect(known.length).toBeGreaterThan(140)
    expect(known.filter(({ source }) => !/^[\w.-]+\/[\w.-]+#\d+$/.test(source))).toEqual([])
  })

  it.each(known)('$source: $id', ({ id, text }) => {
    for (const form of formsOf(text)) {
      const { errors, codes } = recognise(form)
      const causes = errors.filter(({ role }) => role === 'cause').map((each) => each.id)
      expect({ form, causes, codes }).toEqual({ form, causes: [id], codes: [] })
    }
  })

  it('wrapped by a terminal, too', () => {
    const text = 'failed to set bridge addr: "cni0" already has an IP address different from 10.244.1.1/24'
    const wrapped = text.replace('already has an', 'already has\n    an').replace('IP address', 'IP\naddress')
    expect(recognise(wrapped).errors.map(({ id }) => id)).toEqual(['bridge-other-address'])
  })
})

describe('a text of another matter', () => {
  it.each(others)('$text', ({ text }) => {
    for (const form of [text, `  Warning  Failed  3s  kubelet  ${text}`, JSON.stringify({ message: text })]) {
      const { errors, codes } = recognise(form)
      expect({ form, ids: errors.map(({ id }) => id), codes }).toEqual({ form, ids: [], codes: [] })
    }
  })
})
