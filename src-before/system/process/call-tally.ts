// SPDX-License-Identifier: Apache-2.0
// A line for each call, for whoever counts them: `trestle agent` begins the file and reads it. Where nobody has begun
// one nothing is written, and it never grows past its limit: a call costs one look at a name.

import { closeSync, constants, existsSync, fstatSync, openSync, writeSync } from 'node:fs'
import { stateRoot } from '../files/state.ts'

/** What a line says. `code`: of the error, 0 for none. */
export interface TalliedCall {
  readonly verb: string
  readonly code: number
  readonly ms: number
}

const verbs = ['ADD', 'DEL', 'CHECK', 'GC', 'STATUS', 'VERSION']
const mostBytes = 1024 * 1024

export function tallyFile(): string {
  return `${stateRoot()}/calls`
}

/** Adds a call. Never throws: nobody's network depends on it. `code`: asked for where the calls are counted. */
export function tallyCall({ verb, code, ms }: Omit<TalliedCall, 'code'> & { readonly code: () => number }): void {
  try {
    const file = tallyFile()
    if (!verbs.includes(verb) || !existsSync(file)) return
    const fd = openSync(file, constants.O_WRONLY | constants.O_APPEND | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    try {
      const stat = fstatSync(fd)
      // One write of a line is whole, also beside others' (open(2), O_APPEND).
      if (stat.isFile() && stat.size < mostBytes) writeSync(fd, `${verb} ${code()} ${ms.toFixed(1)}\n`)
    } finally {
      closeSync(fd)
    }
  } catch {
    // Full or read-only.
  }
}

/** The calls of lines; what is none is left out. */
export function readTally(text: string): readonly TalliedCall[] {
  return text.split('\n').flatMap((line) => {
    const [, verb = '', code, ms] = /^([A-Z]+) (\d{1,4}) (\d{1,9}\.\d)$/.exec(line) ?? []
    return verbs.includes(verb) ? [{ verb, code: Number(code), ms: Number(ms) }] : []
  })
}
