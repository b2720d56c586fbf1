// SPDX-License-Identifier: Apache-2.0
// The process is killed at every system call of its own that changes the state directory, and is
// refused such calls as a full or broken disk would: the next ADD and DEL put everything right.
// FAULTS=all adds the refusals at every call of every verb; by default they are tried on ADD.

import { execaSync } from 'execa'
import { describe, expect, it } from 'vitest'
import { onStage, removed, retried, richConf } from '../support/fault-rounds.ts'
import { snapshot } from '../support/host.ts'
import { haveStrace } from '../support/strace.ts'
import { allRounds, changingCalls } from '../support/syscall-rounds.ts'

const minutes = 60_000
const isLong = process.env['FAULTS'] === 'all'
const verbs = ['first ADD', 'steady ADD', 'DEL', 'GC'] as const
const refusals = [
  { calls: 'link,linkat', what: 'error=EIO' },
  { calls: 'rename,renameat,renameat2', what: 'error=EIO' },
  { calls: 'link,linkat', what: 'error=ENOSPC' },
] as const

describe('a call that is killed at a system call of its own', () => {
  it.each(verbs)(
    'at any link, rename or unlink of %s',
    (verb) => {
      if (!haveStrace()) return skipped()
      expect(allRounds(verb, { calls: changingCalls, what: 'signal=KILL' })).toEqual([])
    },
    3 * minutes,
  )
})

describe('a state directory that refuses', () => {
  it.each(isLong ? refusals : refusals.slice(0, 2))(
    '$calls with $what at any step of ADD',
    ({ calls, what }) => {
      if (!haveStrace()) return skipped()
      const tried = isLong ? verbs : (['steady ADD'] as const)
      expect(tried.flatMap((verb) => allRounds(verb, { calls, what }))).toEqual([])
    },
    3 * minutes,
  )

  it.each(['full', 'read-only'])('because it is %s: ADD fails as a whole, DEL works once it is mended', (how) => {
    const wrong = onStage('steady', (stage) => {
      const { host, pods } = stage
      const state = snapshot(host)['state']
      mountOver(host.stateDir, how)
      try {
        const added = host.cni('ADD', richConf, { id: 'a', netns: pods['a'] ?? '' })
        expect(added.code).toBeGreaterThan(0)
        expect(added.json).toMatchObject({ code: expect.any(Number), msg: expect.any(String) })
        expect(added.json).not.toMatchObject({ code: 999 })
        expect(host.cni('STATUS', richConf).json, how).toMatchObject({ code: 50 })
        const deleted = host.cni('DEL', richConf, { id: 'a', netns: pods['a'] ?? '' })
        expect([0, 11], deleted.stdout).toContain(deleted.code === 0 ? 0 : (deleted.json as { code: number }).code)
      } finally {
        execaSync('umount', [host.stateDir])
      }
      expect(snapshot(host)['state']).toBe(state)
      return [...retried(stage), ...removed(stage, ['a', 'b'])]
    })
    expect(wrong).toEqual([])
  })
})

/** A small tmpfs over the state directory, filled, or the directory itself read-only. */
function mountOver(directory: string, how: string): void {
  if (how === 'read-only') {
    execaSync('mount', ['--bind', directory, directory])
    execaSync('mount', ['-o', 'remount,bind,ro', directory])
    return
  }
  execaSync('mount', ['-t', 'tmpfs', '-o', 'size=16k,mode=700', 'tmpfs', directory])
  execaSync('dd', ['if=/dev/zero', `of=${directory}/filler`, 'bs=4k'], { reject: false })
}

function skipped(): void {
  console.log('skipped: strace is not installed or may not trace')
}
