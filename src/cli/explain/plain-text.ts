// SPDX-License-Identifier: Apache-2.0
// A pasted text as it was before events, journals and JSON quoted it.

/** Longer texts are cut: an event or a log line is far below. */
const longest = 64 * 1024

/**
 * The text with plain quotes and without backslashes before quotes, for up to five quotations one in another; \n and
 * \t are what they stand for, and two single quotes are one, as YAML doubles them.
 */
export function plainText(text: string): string {
  return text
    .slice(0, longest)
    .replace(/\\u([\da-fA-F]{4})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)))
    .replace(/\\{1,31}(["'`/])/g, '$1')
    .replace(/\\{1,31}n(?![a-z])/g, '\n')
    .replace(/\\{1,31}[rt](?![a-z])/g, ' ')
    .replace(/[\u201c\u201d\u201e]/g, '"')
    .replace(/[\u2018\u2019]/g, "'")
    .replace(/\uff1a/g, ': ')
    .replace(/\uff0c/g, ', ')
    .replace(/\uff08/g, ' (')
    .replace(/\uff09/g, ') ')
    .replace(/''/g, "'")
    .replace(/[^\S\n]/g, ' ')
}

/** The pattern with each blank standing for any white space: pasted texts are wrapped, and columns aligned. */
export function anySpace(pattern: RegExp): RegExp {
  return new RegExp(pattern.source.replace(/ (?![?*+{])/g, '\\s+'), pattern.flags)
}

/** The text without the marks of Markdown within it: asterisks for bold words, and backticks, which are quotes then. */
export function withoutMarkup(text: string): string {
  return text.replaceAll('**', '').replaceAll('`', '"')
}
