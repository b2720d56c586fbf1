// SPDX-License-Identifier: Apache-2.0
// The agent's log: one JSON object a line on standard output.

import { writeAll } from '../../system/process/stdio.ts'

type Level = 'info' | 'warning' | 'error'

/** Writes a line: time, level, message and then `fields`. */
export type Log = (level: Level, message: string, fields?: Readonly<Record<string, unknown>>) => void

/** A log on standard output. A closed pipe does not end the agent. */
export function openLog(write: (text: string) => void = (text) => writeAll(1, text)): Log {
  return (level, message, fields = {}) => {
    try {
      write(`${JSON.stringify({ time: new Date().toISOString(), level, message, ...fields })}\n`)
    } catch {
      // The reader is gone.
    }
  }
}
