// SPDX-License-Identifier: Apache-2.0
// Traffic for tests: a ping, a TCP connection that tells which address the server saw, and an outside
// world behind an uplink that knows a way back to the node's own address only.

import { spawn } from 'node:child_process'
import type { Host } from '../host.ts'

/** Whether a ping is answered: one a second, for ten seconds where it has to be. For who should answer. */
export function pings(host: Host, netns: string, address: string): boolean {
  return host.inPod(netns, 'ping', ['-n', '-c1', '-w10', address]).code === 0
}

/** Whether one ping is answered within a second. For who should not answer. */
export function pingsOnce(host: Host, netns: string, address: string): boolean {
  return host.inPod(netns, 'ping', ['-n', '-c1', '-W1', address]).code === 0
}

const serverSource = `
  const server = require('net').createServer((s) => s.on('error', () => {}).end(s.remoteAddress.replace('::ffff:', '')))
  server.listen(8080, () => console.log('listening'))
  setTimeout(() => process.exit(), 170000)`

/** Connects anew when it is refused, as long as there is time; an answer may take its time. */
const clientSource = `
  const [address, lastMs] = process.argv.slice(1)
  const connect = () => require('net').connect(8080, address).on('error', () => setTimeout(connect, 300)).on('data', say)
  const say = (text) => process.stdout.write(text, () => process.exit())
  setTimeout(() => setImmediate(() => setImmediate(process.exit, 2)), Number(lastMs))
  connect()`

/** Starts a TCP server on port 8080 of a namespace; it answers with its client's address. End it with the returned function. */
export async function serve(netns: string): Promise<() => void> {
  const child = spawn('nsenter', [`--net=${netns}`, '--', process.execPath, '-e', serverSource], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await new Promise((resolve, reject) => {
    child.stdout.once('data', resolve)
    child.once('exit', () => reject(new Error('the server ended')))
  })
  return () => {
    child.kill('SIGKILL')
  }
}

/**
 * The address under which a server at `address` sees a client in `netns`; empty when it does not answer. `lastMs`: how
 * long it has for that, two seconds where it should not answer.
 */
export function seenBy(host: Host, netns: string, address: string, lastMs = 15_000): string {
  return host.inPod(netns, process.execPath, ['-e', clientSource, address, `${lastMs}`]).stdout
}

/** Addresses of the outside world. */
export const outside = { node4: '192.0.2.1', node6: '2001:db8:1::1', far4: '198.51.100.1', far6: '2001:db8:2::1' }

/**
 * Waits until IPv6 addresses that were added to a namespace are its own: the kernel takes packets for them, and has their
 * local routes, a moment after it was told of them, on a busy machine much later (net/ipv6/addrconf.c, addrconf_dad_work).
 */
export function waitForOwn(host: Host, netns: string, addresses: readonly string[]): void {
  const end = performance.now() + 30_000
  const routes = () => host.inPod(netns, 'ip', ['-6', 'route', 'show', 'table', 'local']).stdout
  while (!addresses.every((address) => routes().includes(`local ${address} `))) {
    if (performance.now() > end) throw new Error(`not its own after 30 s: ${addresses.join()}\n${routes()}`)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
  }
}

/**
 * Gives the host an uplink of the given MTU with default routes to a namespace that plays the
 * internet. It has no route to any pod. Returns its path.
 */
export function addUplink(host: Host, mtu = 1500): string {
  const internet = host.pod('inet')
  const up = (args: string) => host.run('ip', args.split(' '))
  const far = (args: string) => host.inPod(internet, 'ip', args.split(' '))
  // Addresses that are still being looked at for duplicates would lose the first packets of a test.
  host.inPod(internet, 'sysctl', ['-qw', 'net.ipv6.conf.default.accept_dad=0'])
  const steps = [
    up(`link add up0 mtu ${mtu} type veth peer name eth0 mtu ${mtu} netns ${internet}`),
    up('addr add 192.0.2.1/30 dev up0'),
    up('addr add 2001:db8:1::1/64 dev up0 nodad'),
    host.run('sysctl', ['-qw', 'net.ipv6.conf.up0.accept_dad=0']),
    up('link set up0 up'),
    far('addr add 192.0.2.2/30 dev eth0'),
    far('addr add 2001:db8:1::2/64 dev eth0 nodad'),
    far('link set eth0 up'),
    far(`addr add ${outside.far4}/32 dev lo`),
    far(`addr add ${outside.far6}/128 dev lo`),
    up('route add default via 192.0.2.2'),
    up('-6 route add default via 2001:db8:1::2'),
  ]
  const failed = steps.find((step) => step.code !== 0)
  if (failed) throw new Error(`the uplink: ${failed.stderr}`)
  waitForOwn(host, host.path, ['2001:db8:1::1'])
  waitForOwn(host, internet, ['2001:db8:1::2', outside.far6])
  return internet
}
