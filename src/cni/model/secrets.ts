// SPDX-License-Identifier: Apache-2.0
// Values that are nobody's business, taken out of text of others before it goes into an error.

/**
 * `text` with `***` for the value of each key that sounds like a secret, as JSON (`"token": "x"`) or as a pair
 * (`TOKEN=x`). For errors only: the expressions are compiled when it is called.
 */
export function masked(text: string): string {
  const key = '[\\w.-]*(?:token|secret|passw|credential|api[_-]?key|private[_-]?key|auth)[\\w.-]*'
  return text
    .replace(new RegExp(`("${key}"\\s*:\\s*)"(?:[^"\\\\]|\\\\.)*"?`, 'gi'), '$1"***"')
    .replace(new RegExp(`(\\b${key}=)[^\\s;,"']+`, 'gi'), '$1***')
}
