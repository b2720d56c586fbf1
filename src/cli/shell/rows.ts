// SPDX-License-Identifier: Apache-2.0
// Long texts on a screen.

/** Rows of fewer than `most` columns, broken between words. */
export function rowsOf(text: string, most: number): readonly string[] {
  const rows: string[] = []
  for (const word of text.split(' ')) {
    const last = rows.at(-1)
    if (last === undefined || last.length + word.length >= most - 1) rows.push(word)
    else rows[rows.length - 1] = `${last} ${word}`
  }
  return rows
}
