// SPDX-License-Identifier: Apache-2.0
// Files of /proc that grow with the node: to the end, and with no read more than it takes.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { blocksOf } from '../../../src-before/system/kernel/kernel-files.ts'

/** How many times this thread has called read(2), by the kernel's count; reading the count is in it. */
function reads(): number {
  return Number(/^syscr: (\d+)$/m.exec(readFileSync('/proc/thread-self/io', 'latin1'))?.[1])
}

describe('the blocks of a file of /proc', () => {
  it('are one read where it is short: the end is not asked for', () => {
    const start = reads()
    const counting = reads() - start
    const before = reads()
    const blocks = [...blocksOf('/proc/self/limits')]
    expect(reads() - before - counting).toBe(1)
    expect(`${blocks.join('\n')}\n`).toBe(readFileSync('/proc/self/limits', 'latin1'))
  })

  it('are all of it where it has many pages', () => {
    const blocks = [...blocksOf('/proc/kallsyms')]
    expect(blocks.length).toBeGreaterThan(10)
    expect(`${blocks.join('\n')}\n`).toBe(readFileSync('/proc/kallsyms', 'latin1'))
  })

  it('are none where it is not there', () => {
    expect([...blocksOf('/proc/self/none')]).toEqual([])
  })
})
