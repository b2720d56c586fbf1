// SPDX-License-Identifier: Apache-2.0
// What docs/debug.md shows of `trestle explain`, from the error that the page has above it.

import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { runCli } from '../../../support/collect.ts'
import { blockBelow, masked } from '../../../support/pages/transcript.ts'

const page = readFileSync('docs/debug.md', 'utf8')

it('says the same today', async () => {
  const { steps } = blockBelow(page, '## containerd: another network comes first')
  const [failed, explained] = steps
  expect(explained?.command).toBe(`${failed?.command} 2>&1 | trestle explain -`)
  const { stdout } = await runCli(['explain', failed?.printed ?? ''])
  expect(masked(stdout)).toBe(masked(explained?.printed ?? ''))
})
