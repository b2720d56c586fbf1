// SPDX-License-Identifier: Apache-2.0
// A text that is no JSON with its first problem mended, so that what comes after it is found as well. The length stays:
// places in the mended text are places in the file.

import type { JsonProblem } from '../../../cni/json/json-problem.ts'
import { placeholderAt } from './placeholders.ts'

const typographic = '\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb'

/** As Python and Go templates print them; each as long as JSON's. */
const literals: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' }

/** A problem that can be mended. `kind`: of one kind of some only the first is worth telling. */
export interface Mend {
  readonly kind: 'comma' | 'second-comma' | 'comment' | 'quote' | 'literal' | 'template' | 'mark' | 'rest'
  readonly offset: number
  readonly text: string
  /** What stands there. */
  readonly what: string
}

/** Mends the problem at its offset; undefined for one whose cure is anybody's guess. */
export function mendAt(text: string, { offset, kind }: Pick<JsonProblem, 'offset' | 'kind'>): Mend | undefined {
  const char = text[offset] ?? ''
  const put = (mended: Mend['kind'], what: string, replacement: string, from = offset): Mend => {
    const padded = replacement.padEnd(what.length)
    return { kind: mended, offset: from, what, text: text.slice(0, from) + padded + text.slice(from + what.length) }
  }
  if (char === '\ufeff') return put('mark', char, ' ')
  const comment = /^(?:(?:\/\/|#)[^\n]*|\/\*[\s\S]*?\*\/)/.exec(text.slice(offset))?.[0]
  if (comment !== undefined) return put('comment', comment, comment.replace(/[^\n]/g, ' '))
  // Of {{ the first one opens an object, and the second one is the problem.
  const from = text.startsWith('{{', offset - 1) ? offset - 1 : offset
  const template = placeholderAt(text.slice(from, from + 80))
  if (template !== undefined) return put('template', template, '0', from)
  const quoted = new RegExp(`^[${typographic}'][^\\n${typographic}"']*[${typographic}"']`).exec(text.slice(offset))?.[0]
  if (quoted !== undefined) return put('quote', quoted, `"${quoted.slice(1, -1)}"`)
  if (kind === 'comma-too-many') return put('comma', char, ' ')
  if (char === ',' && /,\s*$/.test(text.slice(0, offset))) return put('second-comma', char, ' ')
  const literal = /^(?:True|False|None)\b/.exec(text.slice(offset))?.[0]
  if (literal !== undefined) return put('literal', literal, literals[literal] ?? 'null')
  const rest = text.slice(offset)
  // A second object is another file; brackets are one too many.
  if (kind === 'more-text' && /^[\]}\s]*$/.test(rest)) return put('rest', rest, rest.replace(/[^\n]/g, ' '))
  const isMissing = kind === 'comma-missing' && /^["{[\d-]/.test(char) && /\s/.test(text[offset - 1] ?? '')
  return isMissing ? put('comma', text[offset - 1] ?? '', ',', offset - 1) : undefined
}
