// SPDX-License-Identifier: Apache-2.0
// Traffic for tests: a ping, a TCP connection that tells which address the server saw, and an outside
// world behind an uplink that knows a way back to the node's own address only.

import { spawn } from 'node:child_process'
import type { Host } from './host.ts'

/** Whether one ping is answered within two seconds. */
export function pings(host: Host, netns: string, address: string): boolean {
  return host.inPod(netns, 'ping', ['-c1', '-W2', address]).code === 0
}

const serverSource = `
  const server = require('net').createServer((socket) => socket.end(socket.remoteAddress.replace('::ffff:', '')))
  server.listen(8080, () => console.log('listening'))
  setTimeout(() => process.exit(), 30000)`

const clientSource = `
  const socket = require('net').connect(8080, process.argv[1])
  socket.setTimeout(2000, () => process.exit(2)).on('error', () => process.exit(1)).pipe(process.stdout)`

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

/** The address under which a server at `address` sees a client in `netns`; empty when it cannot connect. */
export function seenBy(host: Host, netns: string, address: string): string {
  return host.inPod(netns, process.execPath, ['-e', clientSource, address]).stdout
}

/** Addresses of the outside world. */
export const outside = { node4: '192.0.2.1', node6: '2001:db8:1::1', far4: '198.51.100.1', far6: '2001:db8:2::1' }

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
  return internet
}
