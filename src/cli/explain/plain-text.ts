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
    .replace(/\\(?:u([\da-fA-F]{4})|x([2-7][\da-fA-F]))/g, (_, four?: string, two?: string) =>
      String.fromCharCode(Number.parseInt(four ?? two ?? '', 16)),
    )
    .replace(/\\{1,31}(["'`/])/g, '$1')
    .replace(/\\([_*[\]<>#-])/g, '$1')
    .replace(/\*\*(?=\w)|(?<=[\w.:"'])\*\*/g, '')
    .replace(/(?<![\w"'`])`{1,2}([^`'"\n]{1,200})`{1,2}(?!\w)/g, '"$1"')
    .replace(/^[ \t]*(?:> ?){1,9}(?=\S)/gm, '')
    .replace(/\\{1,31}n(?![a-z])/g, '\n')
    .replace(/\\{1,31}[rt](?![a-z])/g, ' ')
    .replace(/''|[\u2018\u2019]/g, "'")
    .replace(/[\u201c\u201d]/g, '"')
    .replace(/[^\S\n]/g, ' ')
}
