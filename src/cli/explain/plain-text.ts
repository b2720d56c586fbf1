// SPDX-License-Identifier: Apache-2.0
// Restores a pasted text that events, journals and JSON have quoted.

/** The bound on a text, far above an event or a log line. */
const longest = 64 * 1024

/**
 * The text with plain quotes and without escapes of up to five nested quotations: \n and \t become characters, and two
 * single quotes become one, since YAML doubles them.
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
