// SPDX-License-Identifier: Apache-2.0
// The only way text gets into an `ip -batch` or `tc -batch`. The reader (iproute2 lib/utils.c,
// getcmdline and makeargs) cuts a line at `#` even inside quotes, joins lines at a backslash, and
// has no escape: a word it can't carry is refused, never altered.

import { CniError, printable } from '../cni/error.ts'

const plainWord = /^[A-Za-z0-9_.:/@%+,=~^*?!-]+$/
const unbearable = /[#\\\n\r\0]|[^\x20-\x7e]/

/**
 * One batch line from an argument list. Throws CniError 4 for a word that the batch format cannot
 * carry; the protocol edge refuses those earlier, this is the second wall.
 */
export function toBatchLine(words: readonly string[]): string {
  return words.map(toWord).join(' ')
}

function toWord(word: string): string {
  if (plainWord.test(word)) return word
  if (word === '' || unbearable.test(word)) throw refused(word)
  // makeargs (iproute2 lib/utils.c): a quote counts at the start of a word only and ends at its like.
  if (!word.includes('"')) return `"${word}"`
  if (!word.includes("'")) return `'${word}'`
  throw refused(word)
}

function refused(word: string): CniError {
  return new CniError('word-unsafe', `"${printable(word)}" cannot be passed to ip -batch`, {
    details: 'names and paths must be printable ASCII without #, backslash, or both kinds of quotes',
  })
}
