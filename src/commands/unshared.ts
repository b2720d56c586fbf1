// SPDX-License-Identifier: Apache-2.0
// This program once more, in network, mount and pid namespaces of its own: when it ends, the kernel removes everything
// that was made in them.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { toolPath } from '../process/runner.ts'
import { failureOf } from './failure.ts'
import { thisProgram } from './self.ts'

const namespaces = [
  ...['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'],
  ...['--propagation', 'private'],
] as const

const mostMs = 180_000

/**
 * Runs the internal command `word`, with `input` as JSON on its standard input. `inherit`: what it prints is printed as it
 * comes. `why`: what went wrong, where there is no exit code. Throws CniError 106 after a signal, 11 past the time limit.
 */
export async function runUnshared(word: string, input: object, stdout: 'inherit' | 'pipe') {
  const { file, args } = thisProgram()
  const child = spawn('unshare', [...namespaces, '--', file, ...args, word], {
    stdio: ['pipe', stdout, 'pipe'],
    env: { PATH: toolPath() },
    timeout: mostMs,
    killSignal: 'SIGKILL',
  })
  let signal: string | undefined
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(name, () => {
      signal = name
      child.kill('SIGKILL')
    })
  }
  const ended = once(child, 'exit') as Promise<[number | null, string | null]>
  child.stdin?.on('error', () => undefined)
  child.stdin?.end(JSON.stringify(input))
  const textOf = (stream: Readable | null) => (stream === null ? '' : text(stream))
  try {
    const [printed, why, [code, killed]] = await Promise.all([textOf(child.stdout), textOf(child.stderr), ended])
    const details = 'everything that was made is gone'
    if (signal !== undefined) throw failureOf('call-interrupted', `ended by ${signal}`, { details })
    if (killed !== null) throw failureOf('try-not-possible', `not done in ${mostMs / 1000} s`, { details })
    return { code, stdout: printed, why: why.trim() }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return { code: null, stdout: '', why: 'cannot run unshare: install it (Debian: util-linux)' }
  }
}
