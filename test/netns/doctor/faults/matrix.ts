// SPDX-License-Identifier: Apache-2.0
// Which findings each fault had, as a table: a line for each fault, a column for each command.

import type { Row } from './examine.ts'

/** The table. `–`: nothing above a note; of explain: nothing prints an error in that state. */
export function matrixText(rows: readonly Row[]): string {
  const head = ['fault', 'doctor', 'lint', 'explain']
  const lines = rows.map(({ what, doctor, lint, explain }) => [what, ...[doctor, lint, explain ?? []].map(wordsOf)])
  const widths = head.map((title, at) => Math.max(title.length, ...lines.map((line) => line[at]?.length ?? 0)))
  return [head, ...lines]
    .map((line) =>
      line
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

function wordsOf(ids: readonly string[]): string {
  return ids.length === 0 ? '–' : ids.join(' ')
}
