// SPDX-License-Identifier: Apache-2.0
// A pasted text as it was before events, journals and JSON quoted it.

import { withoutTypesetting } from './typeset.ts'

/** Longer texts are cut: an event or a log line is far below. */
const longest = 64 * 1024

/**
 * The text with plain quotes and without backslashes before quotes, for up to five quotations one in another; \n and
 * \t are what they stand for, and two single quotes are one, as YAML doubles them.
 */
export function plainText(text: string): string {
  const decoded = text
    .slice(0, longest)
    .replace(/\\(?:u([\da-fA-F]{4})|x([2-7][\da-fA-F]))/g, (_, four?: string, two?: string) =>
      String.fromCharCode(Number.parseInt(four ?? two ?? '', 16)),
    )
  return withoutTypesetting(decoded)
    .replace(/\\{1,31}(["'`/])/g, '$1')
    .replace(/\\([_*[\]<>#-])/g, '$1')
    .replace(/\*\*(?=\w)|(?<=[\w.:"'])\*\*/g, '')
    .replace(/(?<![\w"'`])`{1,2}([^`'"\n]{1,200})`{1,2}(?!\w)/g, '"$1"')
    .replace(/^[ \t]*(?:> ?){1,9}(?=\S)/gm, '')
    .replace(/\\{1,31}n(?![a-z])/g, '\n')
    .replace(/\\{1,31}[rt](?![a-z])/g, ' ')
    .replace(/''/g, "'")
    .replace(/[^\S\n]/g, ' ')
}

/** Escapes and classes of a pattern, a blank in it, and one behind a colon or comma. */
const blanks = /\\.|\[(?:\\.|[^\]\\])*\]|\(\?[:=!<]|([:,])? (?![?*+{])/g

/**
 * The pattern with each blank standing for any white space: pasted texts are wrapped, and columns aligned. Beside a
 * colon or a comma, and before a bracket, there may be none, or some more: languages differ.
 */
export function anySpace(pattern: RegExp): RegExp {
  const source = pattern.source.replace(blanks, (part: string, mark: string | undefined, at: number) => {
    if (part.startsWith('[')) return part.replaceAll(' ', '\\s')
    if (!/^[:,]? $/.test(part)) return part
    // A blank that may be none would let a refusal behind it look at the blank itself.
    const isRefused = pattern.source.startsWith('(?!', at + part.length)
    if (/^\\[([]/.test(pattern.source.slice(at + part.length))) return `${mark ?? ''}\\s*`
    return mark === undefined ? '\\s+' : `\\s?${mark}\\s${isRefused ? '+' : '*'}`
  })
  return new RegExp(source, pattern.flags)
}

/**
 * The text without the marks of Markdown within it: asterisks for bold words, and backticks, which are quotes then;
 * with one kind of quotes; and with words in one piece where a terminal broke lines within them.
 */
export function repaired(text: string): readonly string[] {
  const folded = text.replace(/\s+/g, ' ')
  const plain = withoutMarkup(folded)
  const all = [folded, plain, plain.replaceAll("'", '"'), text.replace(/(?<=\S)\n(?=\S)/g, '').replace(/\s+/g, ' ')]
  return [...new Set(all)].filter((other) => other !== text)
}

function withoutMarkup(text: string): string {
  return text.replaceAll('**', '').replaceAll('`', '"')
}
