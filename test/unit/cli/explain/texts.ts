// SPDX-License-Identifier: Apache-2.0
// Tables of pasted texts, and the forms in which people paste one.

import { readFileSync } from 'node:fs'
import { recognise } from '../../../../src/commands/explain/recognise.ts'

/** The rows of a table beside this file, by their columns; # begins a remark. */
export function table(name: string): readonly (readonly string[])[] {
  const text = readFileSync(new URL(name, import.meta.url), 'utf8')
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return lines.map((line) => line.split('\t'))
}

/** A text as it stands, as an event, as a line of the journal, and quoted twice. */
export function formsOf(text: string): readonly string[] {
  const log = 'E1122 10:00:01.123456     811 pod_workers.go:1298] "Error syncing pod, skipping"'
  return [
    text,
    `  Warning  FailedCreatePodSandBox  3s (x4 over 12s)  kubelet  ${text}`,
    `Nov 22 10:00:01 node kubelet[811]: ${log} err=${JSON.stringify(text)} pod="default/web"`,
    JSON.stringify({ message: JSON.stringify({ note: text }) }),
  ]
}

/** What `trestle explain` takes for the cause: ids of known errors, and codes of ours. */
export function causesOf(text: string): readonly string[] {
  const { errors, codes } = recognise(text)
  const causes = errors.filter(({ role }) => role === 'cause').map(({ id }) => id)
  return [...causes, ...codes.map(({ code }) => String(code))]
}

/** The ids and codes that are named at all, as cause or around one. */
export function namedIn(text: string): readonly string[] {
  const { errors, codes } = recognise(text)
  return [...errors.map(({ id }) => id), ...codes.map(({ code }) => String(code))]
}
