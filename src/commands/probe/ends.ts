// SPDX-License-Identifier: Apache-2.0
// The ends of a probe, each a process in a network namespace of its own: one listens and says which address it saw,
// the other asks. This program started with `__probe-end` is such an end.

import { spawn } from 'node:child_process'
import { connect, createServer, type Server } from 'node:net'
import { toolPath } from '../../process/runner.ts'
import { exitCode } from '../command.ts'
import { failureOf } from '../failure.ts'
import type { Output } from '../output.ts'
import { thisProgram } from '../self.ts'

/** The port on which every listener listens. */
export const podPort = 18080

const answerMs = 4000
const startMs = 20_000

/**
 * `hold`, or `reach` or `hear` with ADDRESS PORT. Exit code 0: there was an answer, of which `reach` takes a refusal, too,
 * and which `hear` prints; 1: there was none, and the reason.
 */
export function probeEnd([verb, host = '', port]: readonly string[], output: Output): Promise<number> {
  if (verb === 'hold') return hold(output)
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port) })
    let heard = ''
    const done = (failure?: string) => {
      socket.destroy()
      if (failure === undefined) output.out(`${heard}\n`)
      else output.err(`${failure}\n`)
      resolve(failure === undefined ? exitCode.fine : exitCode.findings)
    }
    socket.setTimeout(answerMs, () => done(`no answer within ${answerMs / 1000} s`))
    socket.on('data', (chunk) => {
      heard += chunk
    })
    socket.on(verb === 'hear' ? 'end' : 'connect', () => done())
    socket.on('error', ({ code, message }: NodeJS.ErrnoException) => {
      done(verb === 'reach' && code === 'ECONNREFUSED' ? undefined : message)
    })
  })
}

/** Listens until its standard input ends: then the process that started it is gone, and the namespace ends too. */
function hold(output: Output): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.end((socket.remoteAddress ?? '').replace(/^::ffff:/, ''))
  })
  return new Promise((resolve, reject) => {
    process.stdin.resume()
    process.stdin.on('error', () => resolve(exitCode.fine))
    process.stdin.on('close', () => resolve(exitCode.fine))
    listen(server, '::', () => output.out('ready\n'), reject)
  })
}

/** On `::` IPv4 comes in as well; without IPv6 only `0.0.0.0` can be listened on. */
function listen(server: Server, host: '::' | '0.0.0.0', onReady: () => void, reject: (error: Error) => void): void {
  server.once('error', (error) => (host === '::' ? listen(server, '0.0.0.0', onReady, reject) : reject(error)))
  server.listen(podPort, host, onReady)
}

/** A process that listens. `end`: its namespace goes with it. */
export interface Holder {
  readonly netns: string
  readonly end: () => Promise<void>
}

/** Starts a listener behind the words of `inside` (`unshare`, `nsenter`). It ends when this process does. */
export async function startHolder(inside: readonly string[]): Promise<Holder> {
  const { file, args } = thisProgram()
  const [first = file, ...words] = [...inside, file, ...args, '__probe-end', 'hold']
  const child = spawn(first, words, { stdio: ['pipe', 'pipe', 'ignore'], env: { PATH: toolPath() }, detached: true })
  child.stdin.on('error', () => undefined)
  const exited = new Promise<void>((resolve) => child.on('exit', () => resolve()))
  await new Promise<void>((resolve, reject) => {
    const failed = () => reject(failureOf('listener-not-started', `cannot listen: ${inside.join(' ')}`))
    const timer = setTimeout(failed, startMs)
    child.on('error', failed)
    child.on('exit', failed)
    child.stdout.once('data', () => {
      clearTimeout(timer)
      resolve()
    })
  })
  const end = async () => {
    child.kill('SIGKILL')
    await exited
  }
  return { netns: `/proc/${child.pid}/ns/net`, end }
}
