// SPDX-License-Identifier: Apache-2.0
// What docs/debug.md shows of `trestle explain`, from the error that the page has above it. The e2e tests of the page run
// all its commands on a real node; they have another error each time, and come late to tell of a word that changed.

import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { runCli } from '../../../support/collect.ts'
import { blockBelow, masked } from '../../../support/pages/transcript.ts'

const page = readFileSync('docs/debug.md', 'utf8')
const pipe = / (?:2>&1 )?\| trestle explain -$/
const explained = [...page.matchAll(/^### (.+)$/gm)].flatMap(([heading]) => {
  const { steps } = blockBelow(page, heading)
  return steps.flatMap(({ command, printed }) => {
    const error = steps.find((step) => pipe.test(command) && step.command === command.replace(pipe, ''))
    return error === undefined ? [] : [{ heading, error: error.printed, printed }]
  })
})

it('explains four errors', () => expect(explained).toHaveLength(4))

it.each(explained)('$heading: says the same today', async ({ error, printed }) => {
  const { stdout } = await runCli(['explain', error])
  expect(masked(stdout)).toBe(masked(printed))
})
