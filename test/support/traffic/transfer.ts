// SPDX-License-Identifier: Apache-2.0
// A TCP transfer between two namespaces, as fast as the path lets it, measured at the receiver.

import { type ChildProcess, spawn } from 'node:child_process'

const secondsMeasured = 3

const receiverSource = `
  const seconds = Number(process.argv[2])
  let begun, first = 0, all = 0
  // The sender begins when it is told to, and the clock before that: whatever delays the reader, it never counts more
  // in a time than has come in it.
  const done = () => process.stdout.write(JSON.stringify({ first, all }) + '\\n', () => process.exit())
  const begin = (socket) => { begun = performance.now(); setTimeout(done, seconds * 1000); socket.write('!') }
  const server = require('net').createServer((socket) => begin(socket.on('error', () => {}).on('data', (part) => {
    const at = performance.now() - begun
    if (at <= 1000) first += part.length
    if (at <= seconds * 1000) all += part.length
  })))
  server.listen(Number(process.argv[1]), '::', () => console.log('listening'))
  setTimeout(() => process.exit(1), 100000)`

const senderSource = `
  const socket = require('net').connect(Number(process.argv[1]), process.argv[2])
  const part = Buffer.alloc(16384)
  const fill = () => { while (socket.write(part)); }
  socket.once('data', fill).on('drain', fill).on('error', () => process.exit())
  setTimeout(() => process.exit(), 100000)`

/** Where a transfer goes: namespaces' paths, and the receiver's address and port. */
export interface Transfer {
  readonly from: string
  readonly to: string
  readonly address: string
  readonly port: number
}

/** What arrived, in bit/s: in the first second after the start, in the two after it, and in all three. */
export interface Throughput {
  readonly first: number
  readonly later: number
  readonly mean: number
}

/** Sends for three seconds. Both processes have ended when it resolves. */
export async function transfer({ from, to, address, port }: Transfer): Promise<Throughput> {
  const receiver = start(to, receiverSource, [`${port}`, `${secondsMeasured}`])
  const lines = linesOf(receiver)
  await lines.next()
  const sender = start(from, senderSource, [`${port}`, address])
  try {
    const { value } = await lines.next()
    const { first, all } = JSON.parse(String(value)) as { first: number; all: number }
    const bits = (bytes: number, seconds: number) => (bytes * 8) / seconds
    return { first: bits(first, 1), later: bits(all - first, secondsMeasured - 1), mean: bits(all, secondsMeasured) }
  } finally {
    for (const child of [sender, receiver]) child.kill('SIGKILL')
  }
}

function start(netns: string, source: string, args: readonly string[]): ChildProcess {
  return spawn('nsenter', [`--net=${netns}`, '--', process.execPath, '-e', source, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

async function* linesOf(child: ChildProcess): AsyncGenerator<string> {
  let text = ''
  for await (const part of child.stdout ?? []) {
    text += String(part)
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n')) {
      yield text.slice(0, end)
      text = text.slice(end + 1)
    }
  }
  throw new Error('the receiver ended before it had measured')
}
