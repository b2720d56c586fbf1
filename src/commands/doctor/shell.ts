// SPDX-License-Identifier: Apache-2.0
// Command lines that a person may paste: what others wrote may contain anything.

/** A word that a shell takes literally. */
export function shellWord(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** Whether a line is safe to paste into a shell. */
export function isPlainCommand(line: string): boolean {
  return /^[\w./:@%+=,"{} !-]+$/.test(line)
}
