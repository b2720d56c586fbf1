// SPDX-License-Identifier: Apache-2.0
// The agent's log: one JSON object a line on standard output.

import { writeAll } from '../../../system/process/output.ts'

export type Level = 'info' | 'warning' | 'error'

/** Writes a line. `fields` follow time, level and message. */
export type Log = (level: Level, message: string, fields?: Readonly<Record<string, unknown>>) => void

/** A log on standard output. A reader that has gone ends nothing. */
export function openLog(write: (text: string) => void = (text) => writeAll(1, text)): Log {
  return (level, message, fields = {}) => {
    try {
      write(`${JSON.stringify({ time: new Date().toISOString(), level, message, ...fields })}\n`)
    } catch {
      // Nobody reads it any more.
    }
  }
}
