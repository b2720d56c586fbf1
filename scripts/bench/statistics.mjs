// SPDX-License-Identifier: Apache-2.0
// Series of measurements to the few numbers that are told of them. Times are in ms.

/** The value below which the fraction `at` (0 to 1) of `samples` lies. */
export function quantile(samples, at) {
  const sorted = samples.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * at))]
}

/** {count, min, p25, median, p75} of a series. Throws when it is empty. */
export function summary(samples) {
  if (samples.length === 0) throw new Error('bench: an empty series')
  const [p25, median, p75] = [0.25, 0.5, 0.75].map((at) => quantile(samples, at))
  return { count: samples.length, min: Math.min(...samples), p25, median, p75 }
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

/** A series in one phrase: median, minimum, spread. */
export function describe(samples, unit = 'ms') {
  const { min, p25, median, p75 } = summary(samples)
  return `${median.toFixed(1)} ${unit} (min ${min.toFixed(1)}, ${p25.toFixed(1)}-${p75.toFixed(1)})`
}

/** A ratio in one phrase. */
export function describeRatio({ median, min, p25, p75 }) {
  return `${median.toFixed(2)} (min ${min.toFixed(2)}, ${p25.toFixed(2)}-${p75.toFixed(2)})`
}

/** The mean in one phrase. CPU is counted in ticks of 10 ms: only the mean of a series says something. */
export function mean(samples) {
  return `${(samples.reduce((sum, each) => sum + each, 0) / samples.length).toFixed(1)} ms`
}
