// SPDX-License-Identifier: Apache-2.0
// The ends of a probe, each a process of its own in a pod: what holds the pod's network namespace and answers there,
// and what asks. A refusal is an answer, too: somebody is there.

import { createSocket } from 'node:dgram'
import { connect, createServer, type Server } from 'node:net'
import { familyOf } from '../../../cni/model/address.ts'
import { exitCode } from '../../shell/command.ts'
import type { Output } from '../../shell/output.ts'

/** Where the pods listen. */
export const podPort = 18080

/** Without an answer for so long nobody is there. */
const answerMs = 4000

/** `hold`, `reach ADDRESS PORT` or `resolve ADDRESS`. Exit code 0: there was an answer; 1: there was none, and why. */
export async function probeEnd(words: readonly string[], output: Output): Promise<number> {
  const [verb = '', address = '', port = '0'] = words
  if (verb === 'hold') return await hold(output)
  const failure = verb === 'reach' ? await reach(address, Number(port)) : await resolveName(address)
  if (failure === undefined) return exitCode.fine
  output.err(`${failure}\n`)
  return exitCode.findings
}

/** Listens until its standard input ends: whoever started it is gone then, and with this process its namespace. */
function hold(output: Output): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.end()
  })
  return new Promise((resolve, reject) => {
    process.stdin.resume()
    process.stdin.on('error', () => resolve(exitCode.fine))
    process.stdin.on('close', () => resolve(exitCode.fine))
    listen(server, '::', { onReady: () => output.out('ready\n'), reject })
  })
}

interface Listening {
  readonly onReady: () => void
  readonly reject: (error: Error) => void
}

/** On `::` IPv4 comes in as well; without IPv6 only `0.0.0.0` can be listened on. */
function listen(server: Server, host: '::' | '0.0.0.0', { onReady, reject }: Listening): void {
  server.once('error', (error) => (host === '::' ? listen(server, '0.0.0.0', { onReady, reject }) : reject(error)))
  server.listen(podPort, host, onReady)
}

/** Whether somebody answers to TCP, by a refusal at least. Returns why not. */
export function reach(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    const done = (failure?: string) => {
      socket.destroy()
      resolve(failure)
    }
    socket.setTimeout(answerMs, () => done(`no answer within ${answerMs / 1000} s`))
    socket.on('connect', () => done())
    socket.on('error', ({ code, message }: NodeJS.ErrnoException) =>
      done(code === 'ECONNREFUSED' ? undefined : message),
    )
  })
}

/** RFC 1035, 4.1: a query for the name servers of the root, which every resolver answers or refuses. */
const query = Buffer.from([0x74, 0x72, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1])

/** A query is lost now and then: it is sent so often. */
const queryEveryMs = 1000

/** Whether a resolver answers over UDP, whatever it says. Returns why not. */
export function resolveName(address: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(familyOf(address) === 6 ? 'udp6' : 'udp4')
    // Connected, it hears of a refusal, too.
    const send = () => socket.send(query)
    const again = setInterval(send, queryEveryMs)
    const timer = setTimeout(() => done(`no answer within ${answerMs / 1000} s`), answerMs)
    const done = (failure?: string) => {
      clearInterval(again)
      clearTimeout(timer)
      socket.removeAllListeners('error').on('error', () => undefined)
      socket.close()
      resolve(failure)
    }
    socket.on('message', () => done())
    socket.on('error', ({ code, message }: NodeJS.ErrnoException) =>
      done(code === 'ECONNREFUSED' ? 'refused' : message),
    )
    socket.connect(53, address, send)
  })
}
