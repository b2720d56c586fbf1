// SPDX-License-Identifier: Apache-2.0
// Sockets for tests of host ports: a server in a namespace that answers with its client's address, over
// TCP and UDP and both families, and a client that asks many targets at once.
// An answer may take seconds where a machine is busy, so who should answer is asked again for a while; who should
// not is asked once.

import { spawn } from 'node:child_process'
import type { Host } from './host.ts'

export interface Target {
  readonly protocol: 'tcp' | 'udp'
  readonly address: string
  readonly port: number
}

const serverSource = `
  const [port, address] = [Number(process.argv[1]), process.argv[2]]
  const bare = (text) => text.replace('::ffff:', '')
  let ready = 0
  const up = () => ++ready === 2 && console.log('listening')
  require('net').createServer((s) => s.on('error', () => {}).end(bare(s.remoteAddress))).listen(port, address, up)
  const udp = require('dgram').createSocket(address.includes(':') ? 'udp6' : 'udp4')
  udp.on('message', (_, from) => udp.send(bare(from.address), from.port, from.address))
  udp.bind(port, address, up)
  setTimeout(() => process.exit(), 170000)`

/** Each target is asked every 300 ms until it answers or the time is over; with `isOnce` once. */
const clientSource = `
  const [targets, lastMs, isOnce] = process.argv.slice(1).map((each) => JSON.parse(each))
  const ask = ({ protocol, address, port }) => new Promise((resolve) => {
    // What has come by now is read before the time is called over: this process may have been stopped for a while.
    setTimeout(() => setImmediate(() => setImmediate(resolve, '')), lastMs)
    const again = (act) => isOnce ? undefined : setTimeout(act, 300)
    if (protocol === 'tcp') {
      const connect = () => {
        let said = ''
        const s = require('net').connect(port, address)
        s.on('error', () => again(connect)).on('data', (part) => { said += part }).on('end', () => resolve(said))
      }
      connect()
    } else {
      const s = require('dgram').createSocket(address.includes(':') ? 'udp6' : 'udp4')
      s.on('error', () => {}).on('message', (part) => resolve(String(part)))
      const send = () => s.send('?', port, address, () => again(send))
      send()
    }
  })
  Promise.all(targets.map(ask)).then((said) => {
    process.stdout.write(JSON.stringify(said), () => process.exit())
  })`

/**
 * Starts a server on a TCP and a UDP port of a namespace. `address`: where it listens, `::` for everywhere. End it with
 * the returned function.
 */
export async function answer(netns: string, port: number, address = '::'): Promise<() => void> {
  const args = [`--net=${netns}`, '--', process.execPath, '-e', serverSource, `${port}`, address]
  const child = spawn('nsenter', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  await new Promise((resolve, reject) => {
    child.stdout.once('data', resolve)
    child.once('exit', () => reject(new Error('the server ended')))
  })
  return () => {
    child.kill('SIGKILL')
  }
}

/** For each target the address that its server saw, or '' where none answered within 15 s: for those that should. */
export function ask(host: Host, netns: string, targets: readonly Target[]): readonly string[] {
  return asked(host, netns, [targets, 15_000, false])
}

/** The same for targets that should not answer: each is asked once and has 1.5 s. */
export function askOnce(host: Host, netns: string, targets: readonly Target[]): readonly string[] {
  return asked(host, netns, [targets, 1500, true])
}

function asked(host: Host, netns: string, args: readonly unknown[]): readonly string[] {
  const words = args.map((each) => JSON.stringify(each))
  return JSON.parse(host.inPod(netns, process.execPath, ['-e', clientSource, ...words]).stdout) as readonly string[]
}

/** Both protocols at each address. */
export function targetsAt(addresses: readonly string[], port: number): readonly Target[] {
  return addresses.flatMap((address) => (['tcp', 'udp'] as const).map((protocol) => ({ protocol, address, port })))
}

/** A target in words, as tests list what did not answer. */
export function describeTarget({ protocol, address, port }: Target): string {
  return `${protocol} ${address.includes(':') ? `[${address}]` : address}:${port}`
}

/** Switches filtering of bridged packets by iptables and nft on or off (net/bridge/br_netfilter_hooks.c). */
export function filterBridged(host: Host, isOn: boolean): void {
  for (const name of ['iptables', 'ip6tables']) {
    const set = host.run('sysctl', ['-qw', `net.bridge.bridge-nf-call-${name}=${isOn ? 1 : 0}`])
    if (set.code !== 0) throw new Error(`the kernel has no br_netfilter: ${set.stderr}`)
  }
}
