// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { inFiles, runnerUntil } from '../../../src-before/system/process/runner.ts'
import { openStandardFiles, openUnnamed } from '../../../src-before/system/process/unnamed-file.ts'

/** A tmpfs, as /run is: every kernel since 3.11 has such files there. */
const inMemory = '/dev/shm'

function opened(text?: string) {
  const file = openUnnamed(inMemory, text)
  if (file === undefined) throw new Error(`${inMemory} can have no file without a name`)
  return file
}

describe('files without a name as standard input and output', () => {
  it('have all that a process and its children printed', () => {
    const file = opened()
    const script = 'printf "table ü\\n"; (printf two); printf three'
    execFileSync('/bin/sh', ['-c', script], { stdio: ['ignore', file.fd, 'ignore'] })
    expect(file.read(8192)).toBe('table ü\ntwothree')
    expect(file.read(8192), 'reading takes nothing away').toBe('table ü\ntwothree')
    file.close()
    file.close()
    expect(file.read(8192)).toBe('')
  })

  it('are empty where nothing was printed', () => {
    const file = opened()
    expect(file.read(8192)).toBe('')
    file.close()
  })

  it('have more than their first room, up to a limit', () => {
    const [file, text] = [opened(), 'ab'.repeat(5000)]
    execFileSync('cat', { input: text, stdio: ['pipe', file.fd, 'ignore'] })
    expect(file.read(10_000)).toBe(text)
    expect(file.read(9999)).toBeUndefined()
    file.close()
  })

  it('are read from their beginning', () => {
    const [input, output] = [opened('link set dev lo up\n'), opened()]
    execFileSync('cat', { stdio: [input.fd, output.fd, 'ignore'] })
    expect(output.read(8192)).toBe('link set dev lo up\n')
    for (const file of [input, output]) file.close()
  })

  it('are none where a file system has no such files', () => {
    expect(openUnnamed('/proc')).toBeUndefined()
    expect(openUnnamed('/nowhere')).toBeUndefined()
  })

  it('are pipes where the file system could get full: tools do not notice what found no room', () => {
    const of = (directory: string, limitBytes: number) => openStandardFiles(directory, { input: 'text', limitBytes })
    const [input, output, errors] = of(inMemory, 4096)
    expect([input, output, errors]).not.toContain(undefined)
    for (const file of [input, output, errors]) file?.close()
    expect(of(inMemory, Number.MAX_SAFE_INTEGER / 8)).toEqual([])
    expect(of('/not/there', 1)).toEqual([])
  })

  it('are bounded while a process is at work', async () => {
    process.env['TRESTLE_STATE_DIR'] = inMemory
    try {
      const run = inFiles(runnerUntil({ endsAtMs: performance.now() + 60_000 }))
      const endless = run({ file: 'yes', args: [] })
      await expect(endless).rejects.toThrow('yes printed more than 67108864 bytes')
    } finally {
      delete process.env['TRESTLE_STATE_DIR']
    }
  })
})
