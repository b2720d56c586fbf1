// SPDX-License-Identifier: Apache-2.0
// A text that no entry knows: those that are nearest by their words, told as a guess.

import { describe, expect, it } from 'vitest'
import { knownErrors } from '../../../../src/cli/explain/catalogue/known-errors.ts'
import { nearestEntries } from '../../../../src/cli/explain/nearest.ts'
import { runCli } from '../../../support/collect.ts'

const odd = 'calico will not free a block of addresses: some of its addresses are still given out'

describe('entries that are nearest to a text', () => {
  it('are told as a guess where no error is known: exit code 1, and no finding', async () => {
    const { code, json } = await runCli(['explain', odd, '-o', 'json'])
    expect([code, json]).toMatchObject([1, { errors: [], findings: [], nearest: expect.any(Array) }])
    const ids = nearestEntries(odd).map(({ id }) => id)
    expect(ids).toContain('calico-block-not-empty')
    const { stdout } = await runCli(['explain', odd])
    expect(stdout).toContain('nearest by its words, which is a guess')
    for (const id of ids) expect(stdout).toContain(`    ${id}: `)
  })

  it('are not told where one is known, nor of another matter', async () => {
    const known = await runCli(['explain', 'open /run/flannel/subnet.env: no such file or directory', '-o', 'json'])
    expect(known.json).toMatchObject({ errors: [{ id: 'flannel-subnet-env' }], nearest: [] })
    const other = await runCli(['explain', 'the printer is out of paper, and the address of its spooler', '-o', 'json'])
    expect(other.json).toMatchObject({ errors: [], nearest: [] })
  })

  it('are found by what an entry says of itself, in any order', () => {
    const missed = knownErrors.filter(({ id, who, meaning, causes }) => {
      const words = `${who} ${meaning} ${causes.join(' ')}`.split(/\s+/).toReversed()
      return !nearestEntries(`cni ${words.join(' ')}`).some((near) => near.id === id)
    })
    expect(missed.map(({ id }) => id)).toEqual([])
  })

  it('take no long time for 64 KB', () => {
    const words = Array.from({ length: 8000 }, (_, at) => `cni${'abcdefghij'[at % 10]}${at.toString(36)}`).join(' ')
    const started = performance.now()
    nearestEntries(words)
    expect(performance.now() - started).toBeLessThan(2000)
  })
})
