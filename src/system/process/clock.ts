// SPDX-License-Identifier: Apache-2.0
// The clocks. That of deadlines: `performance` is a global of Node too, but what comes with it (observers, histograms,
// lib/internal/perf) would be in the start-up snapshot and read back at every start: 1 % of the instructions of
// VERSION.

/** Milliseconds since this process began; monotonic, whatever the machine's clock is set to. */
export function nowMs(): number {
  return process.uptime() * 1000
}

/** Now, as ISO 8601 has it in UTC. `Date` looks for the local time zone first (/etc/localtime and what it may be). */
export function timestamp(): string {
  return Temporal.Now.instant().toString({ smallestUnit: 'millisecond' })
}
