// SPDX-License-Identifier: Apache-2.0
// Names in commands that people paste into a shell.

/** A word that a shell takes as it stands. */
export function shellWord(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** Whether nothing in a line does more in a shell than its words say: a comment of somebody else may hold anything. */
export function isPlainCommand(line: string): boolean {
  return /^[\w./:@%+=," !-]+$/.test(line)
}
