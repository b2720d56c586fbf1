// SPDX-License-Identifier: Apache-2.0
// Whether a regular expression may take more than a moment: by its form, and by trying texts made of its own words.

/** The parts of a pattern: escapes and classes whole, brackets, and what counts. */
const parts = /\\.|\[(?:\\.|[^\]\\])*\]|\(\?(?:<?[=!]|:)|\(|\)|[*+]|\{\d+(?:,\d*)?\}|[\s\S]/g

/** Whether a group that repeats without an end has a repetition without an end in it: (a+)+ */
export function hasNestedRepetition(pattern: string): boolean {
  const isEndless = (part: string | undefined) => part !== undefined && /^(?:[*+]|\{\d+,\})$/.test(part)
  const open: boolean[] = [false]
  const all = pattern.match(parts) ?? []
  for (const [at, part] of all.entries()) {
    if (part.startsWith('(')) open.push(false)
    else if (part === ')') {
      const within = open.pop() === true
      if (within && isEndless(all[at + 1])) return true
      if (within) open[open.length - 1] = true
    } else if (isEndless(part)) open[open.length - 1] = true
  }
  return false
}

/** Milliseconds of the processor that a pattern takes at most for one of its own words, said over and over. */
export function slowestMs(pattern: string): number {
  const compiled = new RegExp(pattern, 'i')
  const words = new Set(pattern.match(/[A-Za-z]{3,24}/g) ?? ['a'])
  const texts = [...words].flatMap((word) => ['', ' ', '/', '"'].map((between) => `${word}${between}`.repeat(1000)))
  return Math.max(
    ...texts.map((text) => {
      const start = process.cpuUsage()
      compiled.test(text)
      return process.cpuUsage(start).user / 1000
    }),
  )
}
