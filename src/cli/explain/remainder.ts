// SPDX-License-Identifier: Apache-2.0
// The unrecognised fragments of a text, without the frame of log lines.

import type { Span } from './layers.ts'

/** Times, log headers and ids, which say nothing about the error. */
const frame =
  /\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d\S*|\b[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d\b|\b[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]{1,99}\.go:\d+\]|[\w./-]{1,99}\.go:\d+\]?|\b\w+\[\d+\]:|\b[\da-f]{8}-[\da-f]{4}-[\da-f-]{14,}|\b[\da-f]{8,}\b|\b(?:level|time|msg|err|error)=/g

const letters = /[a-zA-Z]{2}/

/** The fragments outside the spans, in order, each on one line. */
export function remainderOf(text: string, spans: readonly Span[]): readonly string[] {
  const ordered = spans.toSorted((a, b) => a.from - b.from)
  let at = 0
  const between: string[] = []
  for (const { from, to } of ordered) {
    if (from > at) between.push(text.slice(at, from))
    at = Math.max(at, to)
  }
  between.push(text.slice(at))
  return between
    .flatMap((part) => part.replace(frame, '\n').split('\n'))
    .map((part) => withoutEnds(part.replace(/\s+/g, ' ')))
    .filter(isWorthReporting)
}

/**
 * True for two words with some letters; shorter fragments are punctuation, a verb before a path, or the rest of a word.
 * One expression for both words took seconds for 64 KB without a blank.
 */
function isWorthReporting(part: string): boolean {
  const first = part.search(letters)
  const blank = first < 0 ? -1 : part.indexOf(' ', first)
  return blank >= 0 && letters.test(part.slice(blank))
}

/** The fragment without punctuation at its ends. */
function withoutEnds(part: string): string {
  let end = part.length
  while (end > 0 && ' ([{:;,"\'`=-'.includes(part.charAt(end - 1))) end--
  return part.slice(0, end).replace(/^[\s\W_]+/, '')
}
