// SPDX-License-Identifier: Apache-2.0
// TCP connections and UDP flows that live long: a byte or a numbered datagram every 50 ms, echoed by the other side.
// A connection that ends, or that gets no echo for two seconds, is broken; a flow that loses a datagram is too.

import { type ChildProcess, spawn } from 'node:child_process'

const source = `
  const net = require('net')
  const [listenOn, lifetimeMs] = process.argv.slice(1).map(Number)
  net.createServer((s) => s.on('error', () => {}).pipe(s)).listen(listenOn, '::', () => console.log('listening'))
  const echo = require('dgram').createSocket('udp6')
  echo.on('message', (text, from) => echo.send(text, from.port, from.address)).bind(listenOn, '::')
  const open = new Map()
  const broken = (name, why) => { if (open.delete(name)) console.log('broken ' + name + ' ' + why) }
  const start = (name, port, address) => {
    const s = net.connect(Number(port), address)
    open.set(name, { s, echoes: 0, at: Date.now() })
    s.on('error', (e) => broken(name, e.code)).on('close', () => broken(name, 'closed'))
    s.on('data', (part) => { const o = open.get(name); if (o) { o.echoes += part.length; o.at = Date.now() } })
    s.on('connect', () => setInterval(() => open.has(name) && s.write('.'), 50))
  }
  const startUdp = (name, port, address) => {
    const s = require('dgram').createSocket(address.includes(':') ? 'udp6' : 'udp4')
    const sent = new Map()
    const o = { s: { destroy: () => s.close() }, echoes: 0, at: Date.now(), sent }
    open.set(name, o)
    s.on('error', (e) => broken(name, e.code))
    s.on('message', (text) => { if (sent.delete(Number(text))) { o.echoes += 1; o.at = Date.now() } })
    let next = 0
    setInterval(() => { if (open.get(name) === o) { sent.set(next, Date.now()); s.send(String(next++), port, address) } }, 50)
  }
  const lost = (o) => [...(o.sent ?? [])].find(([, at]) => Date.now() - at > 2000)
  setInterval(() => open.forEach((o, name) => lost(o) && broken(name, 'datagram ' + lost(o)[0] + ' lost')), 100)
  setInterval(() => open.forEach((o, name) => Date.now() - o.at > 2000 && broken(name, 'silent after ' + o.echoes)), 100)
  setInterval(() => open.forEach((o, name) => o.echoes > 0 && console.log('echoes ' + name + ' ' + o.echoes)), 200)
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const [verb, name, port, address] = line.split(' ')
    if (verb === 'start') start(name, port, address)
    else if (verb === 'udp') startUdp(name, port, address)
    else { const o = open.get(name); open.delete(name); o && o.s.destroy() }
  }).on('close', () => process.exit())
  setTimeout(() => process.exit(), lifetimeMs)`

/**
 * A process in a namespace that echoes on `port` and keeps streams. `broken`: one line for each stream that broke.
 * It ends by itself after `lifetimeMs`.
 */
export async function openStreams(netns: string, port: number, lifetimeMs = 110_000) {
  const broken: string[] = []
  const echoes = new Map<string, number>()
  const args = [`--net=${netns}`, '--', process.execPath, '-e', source, `${port}`, `${lifetimeMs}`]
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
        if (verb === 'echoes') echoes.set(name, Number(more[0]))
      }
    })
  })
  const say = (line: string) => child.stdin?.write(`${line}\n`)
  return {
    broken: broken as readonly string[],
    /** Echoes seen so far, by stream. */
    echoes: echoes as ReadonlyMap<string, number>,
    start: (name: string, target: { address: string; port: number }) =>
      say(`start ${name} ${target.port} ${target.address}`),
    /** The same with datagrams. */
    startUdp: (name: string, target: { address: string; port: number }) =>
      say(`udp ${name} ${target.port} ${target.address}`),
    /** Ends a stream on purpose: it is not broken. */
    stop: (name: string) => say(`stop ${name}`),
    close: () => {
      child.kill('SIGKILL')
    },
  }
}

export type Streams = Awaited<ReturnType<typeof openStreams>>
