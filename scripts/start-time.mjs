// SPDX-License-Identifier: Apache-2.0
// Start-up time of executables, run in turns so that a slow moment of the machine hits all of them.
import { spawnSync } from 'node:child_process'

/**
 * Runs each of `commands` ({name, file, args, env, input}) `rounds` times, interleaved, after three unmeasured
 * rounds. Returns per command {name, minMs, medianMs}. Throws if one exits non-zero.
 */
export function startTimes(commands, rounds) {
  const samples = commands.map(() => [])
  for (let round = -3; round < rounds; round++) {
    commands.forEach((command, index) => {
      const ms = timeOne(command)
      if (round >= 0) samples[index].push(ms)
    })
  }
  return commands.map(({ name }, index) => {
    const sorted = samples[index].toSorted((a, b) => a - b)
    return { name, minMs: sorted[0], medianMs: sorted[sorted.length >> 1] }
  })
}

function timeOne({ name, file, args = [], env = {}, input = '' }) {
  const start = process.hrtime.bigint()
  const run = spawnSync(file, args, { env: { PATH: process.env.PATH, ...env }, input })
  const ms = Number(process.hrtime.bigint() - start) / 1e6
  if (run.status !== 0) throw new Error(`${name}: exit ${run.status ?? run.signal}: ${run.stderr}`)
  return ms
}
