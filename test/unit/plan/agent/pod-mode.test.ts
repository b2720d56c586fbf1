// SPDX-License-Identifier: Apache-2.0
// A node keeps the mode of its pods until none of them is left.

import { expect, it } from 'vitest'
import { chooseMode } from '../../../../src-before/plan/agent/new-pods.ts'

it('takes the mode that is asked for where no pod has another one', () => {
  expect(chooseMode('self', 'ptp', [])).toEqual({ mode: 'ptp', problems: [] })
  expect(chooseMode('self', 'ptp', ['ptp', 'ptp'])).toEqual({ mode: 'ptp', problems: [] })
})

it('keeps the mode of the pods that are there, and says what to do', () => {
  for (const [asked, there] of [
    ['ptp', 'bridge'],
    ['bridge', 'ptp'],
  ] as const) {
    const { mode, problems } = chooseMode('self', asked, [there, there])
    expect(mode).toBe(there)
    expect(problems).toEqual([
      {
        id: 'ModeChanged',
        node: 'self',
        text: `pods here are of mode ${there}, and so are new ones: drain the node for ${asked}`,
      },
    ])
  }
})

it('names pods of both modes, which an earlier release has made, and goes on with the newest pod’s', () => {
  const { mode, problems } = chooseMode('self', 'ptp', ['ptp', 'bridge'])
  expect(mode).toBe('ptp')
  expect(problems).toMatchObject([{ id: 'ModeChanged', text: expect.stringContaining('drain the node') }])
})
