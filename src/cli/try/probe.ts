// SPDX-License-Identifier: Apache-2.0
// The two ends of a TCP probe, each a process in a namespace of its own. The listener answers with
// the address it saw: that is how `try` knows whether a connection was masqueraded.

import { connect, createServer, type Server } from 'node:net'
import { exitCode } from '../shell/command.ts'
import type { Output } from '../shell/output.ts'

/** The port that every listener of `try` uses. */
export const probePort = 18080

const connectTimeoutMs = 5_000
/** A listener ends by itself, whatever becomes of who started it. */
const listenTimeoutMs = 120_000

/** `listen`, or `connect ADDRESS PORT`: prints the address that the other end saw, or why it failed. */
export async function probe(words: readonly string[], output: Output): Promise<number> {
  const [verb, address = '', port = `${probePort}`] = words
  if (verb === 'listen') return await listen(output)
  try {
    output.out(`${await seenBy(address, Number(port))}\n`)
    return exitCode.fine
  } catch (error) {
    output.err(`${(error as Error).message}\n`)
    return exitCode.findings
  }
}

function listen(output: Output): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.end((socket.remoteAddress ?? '').replace(/^::ffff:/, ''))
  })
  setTimeout(() => process.exit(exitCode.findings), listenTimeoutMs)
  return new Promise((_, reject) => open(server, '::', { output, reject }))
}

/** On `::` IPv4 comes in as well; without IPv6 only `0.0.0.0` can be listened on. */
function open(server: Server, host: '::' | '0.0.0.0', on: { output: Output; reject: (error: Error) => void }): void {
  server.once('error', (error) => (host === '::' ? open(server, '0.0.0.0', on) : on.reject(error)))
  server.listen(probePort, host, () => on.output.out('ready\n'))
}

function seenBy(host: string, port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port })
    let text = ''
    socket.setTimeout(connectTimeoutMs, () => socket.destroy(new Error(`no answer within ${connectTimeoutMs} ms`)))
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('error', reject)
    socket.on('end', () => resolve(text))
  })
}
