// SPDX-License-Identifier: Apache-2.0
// How iproute2 reads a batch: a port of its own reader (lib/utils.c: getcmdline and makeargs).

const mostWords = 512

/** The words `ip -batch` makes of a line, or undefined where it would stop or read on into the next line. */
export function readAsIproute2(line: string): readonly string[] | undefined {
  if (/[\n\0]/.test(line)) return undefined
  const hash = line.indexOf('#')
  const kept = hash === -1 ? line : line.slice(0, hash)
  // getcmdline joins the next line after a backslash before the newline.
  if (kept.endsWith('\\')) return undefined
  const words: string[] = []
  let at = 0
  for (;;) {
    while (at < kept.length && /[ \t\r\n]/.test(kept.charAt(at))) at++
    if (at >= kept.length) return words
    if (words.length >= mostWords) return undefined
    const quote = kept.charAt(at)
    if (quote === "'" || quote === '"') {
      const end = kept.indexOf(quote, at + 1)
      if (end === -1) return undefined
      words.push(kept.slice(at + 1, end))
      at = end + 1
    } else {
      let end = at
      while (end < kept.length && !/[ \t\r\n]/.test(kept.charAt(end))) end++
      words.push(kept.slice(at, end))
      at = end
    }
  }
}
