// SPDX-License-Identifier: Apache-2.0
// A short soak: the same steps in every run, however fast the machine is. A search with other seeds is `npm run soak`.

import { expect, it } from 'vitest'
import { soak } from '../../soak/run.ts'

it('a soak of 40 steps breaks nothing', async () => {
  const seed = Number(process.env['SOAK_SEED'] ?? 7359648)
  const length = { seed, minutes: 4, steps: 40 }
  const { wrong, lastSteps, steps, counts } = await soak(length, () => undefined)
  expect(wrong, `npm run soak -- --seed ${seed} --steps ${steps}\n${lastSteps.join('\n')}`).toEqual([])
  expect(steps).toBe(length.steps)
  const done = [...counts.keys()].join('\n')
  const kinds = ['ADD', 'DEL', 'CHECK', 'GC', 'STATUS', 'restore', 'gc --apply', 'damage: .*', 'fault .*']
  expect(kinds.filter((kind) => !new RegExp(`^${kind}$`, 'm').test(done))).toEqual([])
}, 300_000)
