// SPDX-License-Identifier: Apache-2.0
// npm run soak -- --minutes 20: random calls, faults and damages, and after each step what must hold. Enters
// private namespaces by itself; needs root and dist/trestle.
//   --minutes N   how long (default 20)
//   --seed N      repeats the steps of a soak; interleavings of calls at the same time aside
//   --steps N     ends after so many steps
// Exit code 1 when an invariant is broken, with the seed, the step and what is wrong.

import { spawnSync } from 'node:child_process'
import { readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Soaked, soak } from './run.ts'

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '20' }, seed: { type: 'string' }, steps: { type: 'string' } },
})

if (process.env['TRESTLE_TEST_NETNS'] === readlinkSync('/proc/self/ns/net')) process.exitCode = await run()
else {
  const enter = join(import.meta.dirname, '../../scripts/in-netns.sh')
  const { status } = spawnSync(enter, [process.execPath, ...process.argv.slice(1)], { stdio: 'inherit' })
  process.exitCode = status ?? 1
}

async function run(): Promise<number> {
  const seed = values.seed === undefined ? Date.now() % 2 ** 32 : numberOf('seed', values.seed)
  const minutes = numberOf('minutes', values.minutes)
  const steps = values.steps === undefined ? undefined : numberOf('steps', values.steps)
  console.log(`soak: seed ${seed}`)
  const soaked = await soak({ seed, minutes, steps }, (line) => console.log(`soak: ${line}`))
  if (soaked.wrong.length > 0) {
    console.log(
      `soak: seed ${seed}, step ${soaked.steps}: broken\n${indented(soaked.wrong)}\nlast steps:\n${indented(soaked.lastSteps)}`,
    )
  }
  console.log(`soak: seed ${seed}: ${closingLine(soaked)}`)
  return soaked.wrong.length === 0 ? 0 : 1
}

function closingLine({ steps, counts, wrong }: Soaked): string {
  const told = [...counts].sort(([a], [b]) => a.localeCompare(b)).map(([what, times]) => `${what} ${times}`)
  return `${steps} steps; ${told.join(', ')}; ${wrong.length === 0 ? 'every invariant held' : `${wrong.length} broken`}`
}

function indented(lines: readonly string[]): string {
  return lines.map((line) => `  ${line}`).join('\n')
}

function numberOf(name: string, text: string): number {
  const value = Number(text)
  if (!(value >= 0)) throw new Error(`soak: --${name} takes a number of 0 or more`)
  return value
}
