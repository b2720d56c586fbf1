// SPDX-License-Identifier: Apache-2.0
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { callFile, removeCallFiles, starterOf } from '../../../src-before/system/process/call-file.ts'
import { ownProcessIdentity } from '../../../src-before/system/process/process-identity.ts'

let directory: string

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'call-file-'))
  vi.stubEnv('TRESTLE_STATE_DIR', directory)
})

afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(directory, { recursive: true })
})

const identity = ownProcessIdentity()
const file = () => callFile(identity, 'tool')

/** A child as the runner starts one: it has the file open. */
function child() {
  const starting = starterOf(identity)('tool')
  const started = spawn('sleep', ['60'], { stdio: ['ignore', 'ignore', 'ignore', starting.fd] })
  const pid = started.pid as number
  starting.started(pid)
  const over = new Promise((resolve) => started.once('exit', resolve)).then(starting.ended)
  return { pid, over, end: () => process.kill(pid, 'SIGKILL') }
}

const stateOf = (pid: number) => readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.[0]

describe('removeCallFiles', () => {
  it('leaves the file of a child that is at work', async () => {
    const at = child()
    removeCallFiles()
    expect(existsSync(file())).toBe(true)
    at.end()
    await at.over
  })

  it('removes the file of a child that has ended without our having been told', async () => {
    const dead = child()
    dead.end()
    // Nothing else runs here meanwhile: no event tells of the end.
    while (stateOf(dead.pid) !== 'Z');
    removeCallFiles()
    expect(existsSync(file())).toBe(false)
    await dead.over
  })

  it('removes the file when all are known to have ended, and where none could be started', async () => {
    const ended = child()
    starterOf(identity)('tool')
    ended.end()
    await ended.over
    removeCallFiles()
    expect(existsSync(file())).toBe(false)
  })
})
