// SPDX-License-Identifier: Apache-2.0
// Parts of a template that come and go, and so keep a text from being JSON or YAML before it is filled in.

import { printable } from '../../../cni/model/error.ts'
import type { Found } from '../checks/finding.ts'

/** Parts that come and go, which are no values: {{if}} and {{end}} of Go and helm, {% %} and {# #} of Jinja. */
const directives =
  /\{\{-?\s*(?:(?:if|else|end|range|with|define|template|block|include|toYaml)\b[^{}]*|\$\w+\s*:?=[^{}]*|\/\*[^{}]*)\}\}|\{[%#][^\n]*?[%#]\}/

/** One of these, and where it is. */
export interface Directive {
  readonly what: string
  readonly offset: number
}

/** The first part of a template in a text that comes or goes. */
function directiveIn(text: string): Directive | undefined {
  const found = directives.exec(text)
  return found === null ? undefined : { what: found[0], offset: found.index }
}

/** What of a template keeps a text from being YAML: such a part, or a value without quotes. */
export function directiveInYaml(text: string): Directive | undefined {
  const bare = /(?<=^[ \t]*(?:[\w./-]+:[ \t]+|-[ \t]+)?)\{\{[^{}\n]*\}\}/m.exec(text)
  return directiveIn(text) ?? (bare === null ? undefined : { what: bare[0], offset: bare.index })
}

/** Such a part that a problem with the text is at: of {{ the first sign opens an object, and the second is the problem. */
export function directiveAt(text: string, offset: number): Directive | undefined {
  const from = text.startsWith('{', offset - 1) && /[{%#]/.test(text[offset] ?? '') ? offset - 1 : offset
  const found = directiveIn(text.slice(from, from + longest))
  return found?.offset === 0 ? { what: found.what, offset: from } : aroundOf(text, offset)
}

/** The pair of signs that an offset is in the middle of: "{{ getenv "DIR" }}" is two texts, and a word between them. */
function aroundOf(text: string, offset: number): Directive | undefined {
  const from = text.lastIndexOf('{{', offset)
  const what = from < 0 ? undefined : /^\{\{[^{}\n]*\}\}/.exec(text.slice(from, from + longest))?.[0]
  return what !== undefined && offset > from + 1 && offset < from + what.length ? { what, offset: from } : undefined
}

/** Longer than what a template has in one pair of signs. */
const longest = 200

/** A text that cannot be judged before the template is filled in. */
export function unrendered({ what, offset }: Directive): Found & { readonly offset: number } {
  const message = `the file is a template, and was not filled in: ${printable(what)}`
  const cure = 'fill it in first (helm template, or what its project does), and look at the result'
  return { id: 'placeholder', message, cure, offset }
}
