// SPDX-License-Identifier: Apache-2.0
// The state that a record has, read while other calls write it.

import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { nodeWorld } from '../../../src-before/commands/record/world.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(`${tmpdir()}/trestle-world-`)
  mkdirSync(`${root}/ports`)
})
afterEach(() => rmSync(root, { recursive: true, force: true, maxRetries: 5 }))

it('a file that goes while the state is read is absent', async () => {
  const script = `const fs = require('fs')
    for (;;) for (let at = 0; at < 50; at++) {
      const path = process.argv[1] + '/' + at + ':tcp'
      fs.existsSync(path) ? fs.rmSync(path) : fs.writeFileSync(path, '{}')
    }`
  const others = spawn(process.execPath, ['-e', script, `${root}/ports`])
  try {
    await expect
      .poll(() => Object.keys(nodeWorld(root, { verb: 'STATUS', network: 'a' }).state).length)
      .toBeGreaterThan(0)
    for (const endsAt = Date.now() + 1000; Date.now() < endsAt; ) nodeWorld(root, { verb: 'STATUS', network: 'a' })
  } finally {
    const ended = new Promise((resolve) => others.on('exit', resolve))
    others.kill('SIGKILL')
    await ended
  }
})
