// SPDX-License-Identifier: Apache-2.0
// TCP connections and UDP flows that live long: a byte or a numbered datagram every so often, echoed by the other side.
// A connection that ends, or that gets no echo for fifteen seconds, is broken. A flow is that too, and one that loses a
// datagram: one that was sent a second later has its echo. So nothing is broken that is only slow.

import { type ChildProcess, spawn } from 'node:child_process'

const source = `
  const net = require('net')
  const [listenOn, everyMs, lifetimeMs] = process.argv.slice(1).map(Number)
  const inASecond = 1000 / everyMs
  net.createServer((s) => s.on('error', () => {}).pipe(s)).listen(listenOn, '::', () => console.log('listening'))
  const echo = require('dgram').createSocket('udp6')
  echo.on('message', (text, from) => echo.send(text, from.port, from.address)).bind(listenOn, '::')
  const open = new Map()
  // A stream that was started anew has the name of one before.
  const broken = (name, o, why) => {
    if (open.get(name) !== o) return
    open.delete(name)
    console.log('broken ' + name + ' ' + why)
    o.s.destroy()
  }
  const start = (name, port, address) => {
    const s = net.connect(Number(port), address)
    const o = { s, echoes: 0, at: Date.now() }
    open.set(name, o)
    s.on('error', (e) => broken(name, o, e.code)).on('close', () => broken(name, o, 'closed'))
    s.on('data', (part) => { o.echoes += part.length; o.at = Date.now() })
    s.on('connect', () => setInterval(() => open.get(name) === o && s.write('.'), everyMs))
  }
  const startUdp = (name, port, address) => {
    const s = require('dgram').createSocket(address.includes(':') ? 'udp6' : 'udp4')
    const sent = new Set()
    const o = { s: { destroy: () => s.close() }, echoes: 0, at: Date.now() }
    open.set(name, o)
    s.on('error', (e) => broken(name, o, e.code))
    s.on('message', (text) => {
      if (!sent.delete(Number(text))) return
      o.echoes += 1
      o.at = Date.now()
      for (const each of sent.keys()) if (each + inASecond <= Number(text)) return broken(name, o, 'datagram ' + each + ' lost')
    })
    let next = 0
    setInterval(() => { if (open.get(name) === o) { sent.add(next); s.send(String(next++), port, address) } }, everyMs)
  }
  setInterval(() => open.forEach((o, name) => Date.now() - o.at > 15000 && broken(name, o, 'silent after ' + o.echoes)), 1000)
  setInterval(() => open.forEach((o, name) => o.echoes > 0 && console.log('echoes ' + name + ' ' + o.echoes)), 200)
  const settle = (id, forMs) => {
    const all = [...open.values()].map((o) => [o, o.echoes + forMs / everyMs])
    const isDone = ([o, echoes]) => o.echoes >= echoes || !new Set(open.values()).has(o)
    const look = setInterval(() => { if (all.every(isDone)) { clearInterval(look); console.log('done ' + id) } }, everyMs)
  }
  const stop = (id, name) => {
    const o = open.get(name)
    open.delete(name)
    o && o.s.destroy()
    console.log('done ' + id)
  }
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const [verb, name, port, address] = line.split(' ')
    if (verb === 'start') start(name, port, address)
    else if (verb === 'udp') startUdp(name, port, address)
    else if (verb === 'settle') settle(name, Number(port))
    else stop(name, port)
  }).on('close', () => process.exit())
  setTimeout(() => process.exit(), lifetimeMs)`

/**
 * A process in a namespace that echoes on `port` and keeps streams. `broken`: one line for each stream that broke.
 * Its streams send `everyMs`, and it ends by itself after `lifetimeMs`.
 */
export async function openStreams(netns: string, port: number, { everyMs = 50, lifetimeMs = 600_000 } = {}) {
  const broken: string[] = []
  const echoes = new Map<string, number>()
  const waiting = new Map<string, () => void>()
  const args = [`--net=${netns}`, '--', process.execPath, '-e', source, `${port}`, `${everyMs}`, `${lifetimeMs}`]
  const child: ChildProcess = spawn('nsenter', args, { stdio: ['pipe', 'pipe', 'inherit'] })
  let rest = ''
  await new Promise<void>((resolve, reject) => {
    child.once('exit', () => reject(new Error('the streams’ process ended')))
    child.stdout?.on('data', (chunk) => {
      const lines = `${rest}${chunk}`.split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const [verb, name = '', ...more] = line.split(' ')
        if (verb === 'listening') resolve()
        if (verb === 'broken') broken.push(`${name}: ${more.join(' ')}`)
        if (verb === 'done') waiting.get(name)?.()
        if (verb === 'echoes') echoes.set(name, Number(more[0]))
      }
    })
  })
  const say = (line: string) => child.stdin?.write(`${line}\n`)
  /** Tells the process something and waits until it is done. */
  const done = async (verb: string, what: string): Promise<void> => {
    const id = `${waiting.size}`
    await new Promise<void>((resolve) => {
      waiting.set(id, resolve)
      child.once('exit', () => resolve())
      say(`${verb} ${id} ${what}`)
    })
  }
  return {
    broken: broken as readonly string[],
    /** Echoes seen so far, by stream. */
    echoes: echoes as ReadonlyMap<string, number>,
    start: (name: string, target: { address: string; port: number }) =>
      say(`start ${name} ${target.port} ${target.address}`),
    /** The same with datagrams. */
    startUdp: (name: string, target: { address: string; port: number }) =>
      say(`udp ${name} ${target.port} ${target.address}`),
    /** Ends a stream on purpose: it is not broken. What ends the other side's process waits for it. */
    stop: (name: string): Promise<void> => done('stop', name),
    /**
     * Resolves when every stream has had the echoes of so much more time, or is reported in `broken`; two seconds show
     * every datagram until now.
     */
    settled: (forMs = 2000): Promise<void> => done('settle', `${forMs}`),
    close: () => {
      child.kill('SIGKILL')
    },
  }
}

export type Streams = Awaited<ReturnType<typeof openStreams>>
