// SPDX-License-Identifier: Apache-2.0
// Series of measurements to the few numbers that are told of them. Times are in ms.

/** The value below which the fraction `at` (0 to 1) of `samples` lies. */
export function quantile(samples, at) {
  const sorted = samples.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * at))]
}

/** {count, min, p25, median, p75, p99} of a series. Throws when it is empty. */
export function summary(samples) {
  if (samples.length === 0) throw new Error('bench: an empty series')
  const [p25, median, p75, p99] = [0.25, 0.5, 0.75, 0.99].map((at) => quantile(samples, at))
  return { count: samples.length, min: Math.min(...samples), p25, median, p75, p99 }
}

/**
 * a / b of two interleaved series: of the medians and of the minima, and the spread (p25-p75) of the ratio within
 * each round, where a slow moment of the machine hits both.
 */
export function ratio(a, b) {
  const rounds = a.map((value, at) => value / b[at]).filter(Number.isFinite)
  return {
    median: quantile(a, 0.5) / quantile(b, 0.5),
    min: Math.min(...a) / Math.min(...b),
    p25: quantile(rounds, 0.25),
    p75: quantile(rounds, 0.75),
  }
}

/** A series in one phrase: median, minimum, spread, and what one call in a hundred takes. */
export function describe(samples, unit = 'ms') {
  const { min, p25, median, p75, p99 } = summary(samples)
  const spread = `min ${min.toFixed(1)}, ${p25.toFixed(1)}-${p75.toFixed(1)}, p99 ${p99.toFixed(1)}`
  return `${median.toFixed(1)} ${unit} (${spread})`
}

/** A ratio in one phrase. */
export function describeRatio({ median, min, p25, p75 }) {
  return `${median.toFixed(2)} (min ${min.toFixed(2)}, ${p25.toFixed(2)}-${p75.toFixed(2)})`
}

/** Medians and p99 of two series beside each other, in one phrase. */
export function beside(a, b, unit = 'ms') {
  const at = (fraction) => [a, b].map((series) => quantile(series, fraction).toFixed(0)).join(' / ')
  return `${at(0.5)} ${unit}, p99 ${at(0.99)}`
}

/** How far a ratio's rounds are apart, in one phrase. */
export function spread({ min, p25, p75 }) {
  return `minima ${min.toFixed(2)}, rounds ${p25.toFixed(2)}-${p75.toFixed(2)}`
}

/** The mean in one phrase. */
export function mean(samples) {
  return `${(samples.reduce((sum, each) => sum + each, 0) / samples.length).toFixed(1)} ms`
}

/** Processes in strace's log but the first; one that executes twice (nsenter, then ip) is one process. */
export function started(log) {
  const lines = log.split('\n')
  const byPid = new Map()
  for (const line of lines) {
    const [, pid, file] = /^(\d+) +execve\("([^"]+)".* = 0$/.exec(line) ?? []
    if (pid) byPid.set(pid, [...(byPid.get(pid) ?? []), file.slice(file.lastIndexOf('/') + 1)])
  }
  return [...byPid.values()].slice(1).map((files) => files.join('+'))
}
