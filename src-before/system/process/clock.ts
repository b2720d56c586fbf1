// SPDX-License-Identifier: Apache-2.0
// The clocks. That of deadlines: `performance` is a global of Node too, but what comes with it (observers, histograms,
// lib/internal/perf) would be in the start-up snapshot and read back at every start: 1 % of the instructions of
// VERSION.

/** Milliseconds since this process began; monotonic, whatever the machine's clock is set to. */
export function nowMs(): number {
  return process.uptime() * 1000
}

/**
 * Milliseconds since 1970 as ISO 8601 has them in UTC. `Date` looks for the local time zone first (/etc/localtime,
 * which may be a pipe), and the start-up snapshot has no Temporal.
 */
export function timestamp(ms = Date.now()): string {
  const day = Math.floor(ms / 86_400_000)
  // Years of 400 and of 4 begin in March, so that the leap day is the last one.
  const inEra = (day + 719_468) % 146_097
  const year = Math.floor(
    (inEra - Math.floor(inEra / 1460) + Math.floor(inEra / 36_524) - Math.floor(inEra / 146_096)) / 365,
  )
  const inYear = inEra - 365 * year - Math.floor(year / 4) + Math.floor(year / 100)
  const month = Math.floor((5 * inYear + 2) / 153)
  const isNextYear = month > 9
  const years = Math.floor((day + 719_468) / 146_097) * 400 + year + (isNextYear ? 1 : 0)
  const two = (part: number, digits = 2) => String(Math.floor(part)).padStart(digits, '0')
  const inMonth = inYear - Math.floor((153 * month + 2) / 5) + 1
  const date = `${years}-${two(isNextYear ? month - 9 : month + 3)}-${two(inMonth)}`
  const clock = `${two((ms / 3_600_000) % 24)}:${two((ms / 60_000) % 60)}:${two((ms / 1000) % 60)}.${two(ms % 1000, 3)}`
  return `${date}T${clock}Z`
}
