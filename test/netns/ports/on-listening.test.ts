// SPDX-License-Identifier: Apache-2.0
// portmap.onListening: a process of the node listens on the port that a pod asks for.

import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { execa, execaSync } from 'execa'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { expectNothingLeft } from '../../support/allowance.ts'
import { answer } from '../../support/ask.ts'
import { environment, type Host, openHost, snapshot, trestle } from '../../support/host.ts'
import { expectError } from '../../support/outcome.ts'
import { stateEnv } from '../../support/state-layout.ts'
import { gateAt } from '../../support/tool.ts'
import { attach, netConf, type Pod } from '../../support/traffic/pods.ts'
import { waitForOwn } from '../../support/traffic/traffic.ts'

let host: Host
let stop = (): void => undefined
beforeEach(() => {
  host = openHost()
  host.run('ip', ['addr', 'add', '192.0.2.1/32', 'dev', 'lo'])
  host.run('ip', ['addr', 'add', '2001:db8::1/128', 'dev', 'lo'])
  waitForOwn(host, host.path, ['2001:db8::1'])
})
afterEach(() => {
  stop()
  host.close()
})

function add(mapping: object, onListening?: string) {
  const portMappings = [{ hostPort: 8080, containerPort: 80, ...mapping }]
  const portmap = onListening === undefined ? {} : { portmap: { onListening } }
  const conf = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'], runtimeConfig: { portMappings }, ...portmap })
  return host.cni('ADD', conf, { netns: host.pod('c1') })
}

/** An ADD's environment and input. */
function call(netns: string, conf: object) {
  const env = environment('ADD', { netns, env: stateEnv(host) })
  return { env, extendEnv: false, input: JSON.stringify(conf), reject: false } as const
}

describe('a listener of the node', () => {
  it.each([
    ['everywhere', '::', {}, '[::]:8080'],
    ['everywhere, over UDP', '::', { protocol: 'udp' }, '[::]:8080'],
    ['on 0.0.0.0', '0.0.0.0', {}, '0.0.0.0:8080'],
    ['on 127.0.0.1', '127.0.0.1', {}, '127.0.0.1:8080'],
    ['on the address of the mapping', '192.0.2.1', { hostIP: '192.0.2.1' }, '192.0.2.1:8080'],
    ['on an IPv6 address', '2001:db8::1', { protocol: 'udp' }, '[2001:db8::1]:8080'],
  ])('%s is refused by its address, or warned of', async (_, address, mapping, where) => {
    stop = await answer(host.path, 8080, address)
    const before = snapshot(host)
    expectError(add(mapping, 'refuse'), 104, where)
    expectNothingLeft(host, before)
    host.removePod(`/run/netns/${host.name}-c1`)
    const added = add(mapping)
    expect(added.code, added.stdout).toBe(0)
    expect(added.stderr.split('\n').filter((line) => line.includes(`listens on ${where}`))).toHaveLength(1)
  })

  it('is warned of in vain where nobody reads stderr: the pod is made all the same', async () => {
    stop = await answer(host.path, 8080, '0.0.0.0')
    const netns = host.pod('c1')
    const fifo = `${host.stateDir}-stderr`
    const conf = netConf({ runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80 }] } })
    // Opened for reading too, so that opening it does not wait; then its reader goes.
    const unread = 'mkfifo "$1" && exec 3<>"$1" 2>"$1" 3>&- && exec "$0"'
    const { stdout } = execaSync(
      'nsenter',
      [`--net=${host.path}`, '--', 'bash', '-c', unread, trestle, fifo],
      call(netns, conf),
    )
    rmSync(fifo)
    expect(JSON.parse(stdout)).toMatchObject({ ips: [{ address: '10.240.0.2/24' }] })
  })

  it('is nobody where its list cannot be read: a note, and the pod is made', () => {
    const netns = host.pod('c1')
    const conf = netConf({ runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80 }] } })
    // A directory in the list's place: read(2) says EISDIR.
    const unreadable = 'mount -t tmpfs tmpfs /proc/$$/net && mkdir /proc/$$/net/tcp && exec "$0"'
    const { stdout, stderr } = execaSync(
      'nsenter',
      [`--net=${host.path}`, '--', 'unshare', '--mount', '--propagation', 'private', 'sh', '-c', unreadable, trestle],
      call(netns, conf),
    )
    expect(JSON.parse(stdout)).toMatchObject({ ips: [{ address: '10.240.0.2/24' }] })
    expect(stderr).toContain('cannot tell who listens on host ports: EISDIR')
  })

  it.each([
    ['on another port', '::', 8081, {}],
    ['on another address', '127.0.0.1', 8080, { hostIP: '192.0.2.1' }],
    ['of the other family', '2001:db8::1', 8080, { hostIP: '0.0.0.0' }],
    ['on ::1, which no host port takes,', '::1', 8080, {}],
  ])('%s is none', async (_, address, port, mapping) => {
    stop = await answer(host.path, port, address)
    const added = add(mapping, 'refuse')
    expect(added.code, added.stdout).toBe(0)
    expect(added.stderr).not.toContain('listens')
  })
})

describe('the look for a warning', () => {
  const sysctl = { tuning: { sysctl: { 'net.core.somaxconn': '500' } } }
  const limits = { bandwidth: { egressRate: 8_000_000, egressBurst: 800_000 } }
  const mapped = (protocol: string, hostPort = 8080) => ({
    runtimeConfig: { portMappings: [{ hostPort, containerPort: 80, protocol }] },
  })

  /** The list of sockets is a pipe that nobody feeds: an ADD that reads it stands still. */
  async function addBeside(gate: ReturnType<typeof gateAt>, asked: { netns: string; conf: object; protocol: string }) {
    const lists = mkdtempSync(`${tmpdir()}/trestle-lists-`)
    const files = [asked.protocol, `${asked.protocol}6`].map((name) => `${lists}/${name}`)
    const { env, ...options } = call(asked.netns, asked.conf)
    const unfed = `mkfifo ${files.join(' ')} && mount --bind ${lists} /proc/$$/net && exec "$0"`
    const adding = execa(
      'nsenter',
      [`--net=${host.path}`, '--', 'unshare', '--mount', '--propagation', 'private', 'sh', '-c', unfed, trestle],
      { ...options, env: { ...env, ...gate.env } },
    )
    try {
      // Who looks before the tool has its input never gives it; who waits for the tool first never looks.
      await vi.waitFor(() => expect(gate.isReached(), 'the last tool has its input').toBe(true), { timeout: 10_000 })
      for (const file of files)
        await vi.waitFor(() => closeSync(openSync(file, constants.O_WRONLY | constants.O_NONBLOCK)), { timeout: 8000 })
      gate.open()
      return await adding
    } finally {
      adding.kill('SIGKILL')
      rmSync(lists, { recursive: true })
      gate.close()
    }
  }

  it.each([
    ['ip', 'ip', 'set dev lo up', 'tcp', {}],
    ['ip, with limits', 'ip', 'set dev lo up', 'tcp', limits],
    ['sysctl', 'sysctl', 'somaxconn', 'tcp', sysctl],
    ['conntrack', 'conntrack', '', 'udp', sysctl],
  ] as const)('is beside the last tool, when that is at work: %s', async (_, tool, text, protocol, more) => {
    // The network's first ADD does more, and in another order.
    attach(host, netConf(), { id: 'first' })
    const conf = netConf({ ...mapped(protocol), ...more })
    const { stdout } = await addBeside(gateAt(tool, text), { netns: host.pod('c1'), conf, protocol })
    expect(JSON.parse(stdout)).toMatchObject({ ips: [{ address: '10.240.0.3/24' }] })
  })

  it('is beside the rules of a chained attachment', async () => {
    const chained = (pod: Pod, hostPort: number) =>
      netConf({ podcidr: undefined, mode: 'chained', prevResult: pod.result, ...mapped('tcp', hostPort) })
    const [first, pod] = ['first', 'c1'].map((id) => attach(host, netConf({ name: 'below' }), { id }))
    if (first === undefined || pod === undefined) throw new Error('two pods')
    attach(host, chained(first, 8079), first.call)
    const asked = { netns: pod.netns, conf: chained(pod, 8080), protocol: 'tcp' }
    const { stdout } = await addBeside(gateAt('nft', 'tcp . 8080'), asked)
    expect(JSON.parse(stdout)).toMatchObject({ ips: [{ address: '10.240.0.3/24' }] })
  })
})
