// SPDX-License-Identifier: Apache-2.0
// What host ports must not do: take traffic that is not for the node (GHSA-jv3w-x3r3-g6rm), or open the
// node's loopback services to a pod (CVE-2020-8558); and UDP flows that must not stay on a pod that is
// gone (plugins#123, #1190) while others stay (moby#53384).

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answer, ask, askOnce, targetsAt } from '../../support/ask.ts'
import { until } from '../../support/faults/process-identities.ts'
import { expectSilent } from '../../support/outcome.ts'
import { logged } from '../../support/tool.ts'
import { attach, later, netConf, type Pod } from '../../support/traffic/pods.ts'
import { outside } from '../../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../../support/traffic/uplinked-host.ts'

function withPort(hostPort: number, containerPort: number, more: object = {}) {
  const portMappings = ['tcp', 'udp'].map((protocol) => ({ hostPort, containerPort, protocol }))
  return netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'], runtimeConfig: { portMappings }, ...more })
}

let host: UplinkedHost
beforeEach(() => {
  host = openUplinkedHost()
})
afterEach(() => host.close())

/** A machine behind the node, on a second link: its traffic passes through the node. */
function addNeighbour(): string {
  const netns = host.pod('neighbour')
  const inside = (line: string) => host.inPod(netns, 'ip', line.split(' '))
  const steps = [
    host.run('ip', ['link', 'add', 'lan0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', netns]),
    host.run('ip', ['addr', 'add', '203.0.113.1/24', 'dev', 'lan0']),
    host.run('ip', ['link', 'set', 'lan0', 'up']),
    inside('addr add 203.0.113.2/24 dev eth0'),
    inside('link set eth0 up'),
    inside('route add default via 203.0.113.1'),
    host.inPod(host.internet, 'ip', ['route', 'add', '203.0.113.0/24', 'via', outside.node4]),
  ]
  expect(steps.map((step) => step.stderr).join('')).toBe('')
  return netns
}

describe('host port 53', () => {
  it("leaves a pod's and a neighbour's traffic to somebody else's port 53 alone", async () => {
    const dns = attach(host, withPort(53, 53), { id: 'dns' })
    const client = attach(host, netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] }), { id: 'client' })
    const neighbour = addNeighbour()
    host.atClose(await answer(dns.netns, 53))
    const silent = targetsAt([outside.far4, outside.far6], 53)
    // Nobody answers at the far address: an answer would be the pod's.
    expect(askOnce(host, client.netns, silent)).toEqual(['', '', '', ''])
    expect(askOnce(host, neighbour, targetsAt([outside.far4], 53))).toEqual(['', ''])
    // Bound to its address: an answer from another one would not be taken.
    host.atClose(await answer(host.internet, 53, outside.far4), await answer(host.internet, 53, outside.far6))
    expect(ask(host, client.netns, silent)).toEqual([outside.node4, outside.node4, outside.node6, outside.node6])
    expect(ask(host, neighbour, targetsAt([outside.far4], 53))).toEqual(['203.0.113.2', '203.0.113.2'])
    expect(ask(host, neighbour, targetsAt(['203.0.113.1'], 53))).toEqual(['203.0.113.2', '203.0.113.2'])
  })
})

/** Sends what the pod has for 127.0.0.0/8 to the node. */
function routeLoopback(pod: Pod): void {
  const gateway = pod.result.ips[0]?.gateway ?? ''
  const inPod = (line: string) => expect(host.inPod(pod.netns, 'sh', ['-c', line]).stderr).toBe('')
  inPod('sysctl -qw net.ipv4.conf.all.route_localnet=1 net.ipv4.conf.eth0.route_localnet=1')
  inPod('ip addr del 127.0.0.1/8 dev lo; ip route flush table local 127.0.0.0/8')
  inPod(`ip route add 127.0.0.0/8 via ${gateway} src ${pod.address}`)
  expect(host.inPod(pod.netns, 'ip', ['route', 'get', '127.0.0.1']).stdout).toContain(`via ${gateway}`)
}

it("the node's loopback stays guarded after the last host port of a bridge, also where the rules are built anew", async () => {
  host.atClose(await answer(host.path, 9000, '127.0.0.1'))
  const conf = withPort(8080, 80)
  const first = attach(host, conf, { id: 'first' })
  expectSilent(later(host, 'DEL', { conf, pod: first }))
  expect(host.run('nft', ['flush', 'ruleset']).code).toBe(0)
  const pod = attach(host, netConf({ podcidr: conf.podcidr }), { id: 'second' })
  expect(host.run('cat', ['/proc/sys/net/ipv4/conf/cni0/route_localnet']).stdout).toBe('1\n')
  routeLoopback(pod)
  expect(askOnce(host, pod.netns, targetsAt(['127.0.0.1'], 9000))).toEqual(['', ''])
})

describe.each([['bridge'], ['ptp']])("the node's loopback, with host ports in mode %s", (mode) => {
  it('is not reached by a pod that routes 127.0.0.0/8 to the node, while 127.0.0.1:hostPort works', async () => {
    const pod = attach(host, withPort(8080, 80, { mode }))
    host.atClose(await answer(pod.netns, 80), await answer(host.path, 9000, '127.0.0.1'))
    routeLoopback(pod)
    expect(askOnce(host, pod.netns, targetsAt(['127.0.0.1'], 9000))).toEqual(['', ''])
    expect(askOnce(host, pod.netns, targetsAt(['127.0.0.1'], 8080))).toEqual(['', ''])
    expect(ask(host, host.path, targetsAt(['127.0.0.1'], 9000))).not.toContain('')
    expect(ask(host, host.path, targetsAt(['127.0.0.1'], 8080))).not.toContain('')
  })
})

/** Sends two ports a datagram every 50 ms from one source port, and prints every answer. */
const clientSource = `
  const s = require('dgram').createSocket('udp4')
  s.on('message', (m) => process.stdout.write(m + '\\n'))
  s.bind(5555, () => setInterval(() => [8080, 8081].forEach((port) => s.send('?', port, '${outside.node4}')), 50))
  setTimeout(() => process.exit(), 170000)`

const namedServer = `
  const s = require('dgram').createSocket('udp4')
  s.on('message', (_, from) => s.send(process.argv[1], from.port, from.address))
  s.bind(80, () => console.log('listening'))
  setTimeout(() => process.exit(), 170000)`

/** Runs node in a namespace; what it prints goes to the returned text. */
async function running(netns: string, source: string, arg = '') {
  const child = spawn('nsenter', [`--net=${netns}`, '--', process.execPath, '-e', source, arg])
  host.atClose(() => child.kill('SIGKILL'))
  const said = { text: '' }
  child.stdout.on('data', (part) => {
    said.text += part
  })
  return said
}

/** What conntrack before 1.4.7 says to -R. */
const oldConntrack = `#!/bin/sh
test "$1" = -R && { echo "conntrack: invalid option -- 'R'" >&2; exit 2; }
exec /usr/sbin/conntrack "$@"
`

const withOldConntrack = () => withConntrack(oldConntrack)

function withConntrack(script: string): Readonly<Record<string, string>> {
  const directory = mkdtempSync(`${tmpdir()}/trestle-test-`)
  host.atClose(() => rmSync(directory, { recursive: true }))
  writeFileSync(`${directory}/conntrack`, script, { mode: 0o755 })
  return { PATH: `${directory}:${process.env['PATH']}` }
}

describe('a UDP client that keeps its source port', () => {
  it.each([
    ['this conntrack', () => ({}), outside.node4],
    ['one that does not know -R', withOldConntrack, outside.node4],
    ['an address of the node by a route alone', () => ({}), '203.0.113.7'],
  ])('is served by the next pod of the host port, and other flows keep their entries, with %s', async (_, path, to) => {
    const env = path()
    host.run('ip', ['route', 'add', 'local', to, 'dev', 'lo', 'proto', '66'])
    host.inPod(host.internet, 'ip', ['route', 'add', to, 'via', outside.node4])
    const portMappings = [8080, 8081].map((hostPort) => ({ hostPort, containerPort: 80, protocol: 'udp' }))
    const conf = withPort(8080, 80, { runtimeConfig: { portMappings } })
    // The bystander's entry is to last as long as the test.
    const lasting = ['udp_timeout', 'udp_timeout_stream'].map((name) => `net.netfilter.nf_conntrack_${name}=600`)
    expect(host.run('sysctl', ['-qw', ...lasting]).stderr).toBe('')
    const flows = () => host.run('conntrack', ['-L', '-p', 'udp', '--orig-port-dst', '53']).stdout
    const ofClient = () => host.run('conntrack', ['-L', '-p', 'udp', '--orig-port-src', '5555']).stdout
    const bystander = attach(host, netConf({ podcidr: conf.podcidr }), { id: 'bystander' })
    host.atClose(await answer(host.internet, 53, outside.far4))
    ask(host, bystander.netns, [{ protocol: 'udp', address: outside.far4, port: 53 }])
    const before = flows().replace(/udp +17 \d+/, 'udp 17')
    expect(before).toContain('dport=53')
    // The client sends before there is a pod: without a flush on ADD its flow would stay untranslated.
    const said = await running(host.internet, clientSource.replace(outside.node4, to))
    await until('the client', () => ofClient().includes('dport=8080') && ofClient().includes('dport=8081'))
    const one = attach(host, conf, { id: 'one', env })
    await running(one.netns, namedServer, 'one')
    await until('answers of the first pod', () => said.text.includes('one') && !ofClient().includes('[UNREPLIED]'))
    expectSilent(later(host, 'DEL', { conf, pod: one }))
    expect(host.run('conntrack', ['-L', '-p', 'udp', '--reply-src', one.address]).stdout).toBe('')
    const two = attach(host, conf, { id: 'two', env })
    await running(two.netns, namedServer, 'two')
    await until('an answer of the second pod', () => said.text.includes('two'))
    expect(flows().replace(/udp +17 \d+/, 'udp 17')).toBe(before)
  })

  it('costs ADD and DEL three seconds where conntrack hangs, and both succeed', () => {
    const env = withConntrack('#!/bin/sh\nsleep 60\n')
    const portMappings = [8080, 8081].map((hostPort) => ({ hostPort, containerPort: 80, protocol: 'udp' }))
    const conf = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'], runtimeConfig: { portMappings } })
    const tookMs = (call: () => { code: number; stderr: string }) => {
      const begun = performance.now()
      const { code, stderr } = call()
      expect(code, stderr).toBe(0)
      expect(stderr).toMatch(/^trestle: stale UDP flows may remain: conntrack did not finish in time/)
      return performance.now() - begun
    }
    const netns = host.pod('a')
    expect(tookMs(() => host.cni('ADD', conf, { id: 'a', netns, env }))).toBeLessThan(6000)
    expect(tookMs(() => host.cni('DEL', conf, { id: 'a', netns, env }))).toBeLessThan(6000)
  })

  it('costs a pod with many host ports one listing of each family', async () => {
    const asked = logged('conntrack')
    host.atClose(asked.close)
    const portMappings = Array.from({ length: 300 }, (_, at) => ({
      hostPort: 20_000 + at,
      containerPort: 20_000 + at,
      protocol: 'udp',
    }))
    const conf = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'], runtimeConfig: { portMappings } })
    // Nothing is tracked before there is a network.
    attach(host, netConf({ podcidr: conf.podcidr }), { id: 'bystander' })
    const said = await running(host.internet, clientSource.replaceAll('8080, 8081', '20007, 8081'))
    await until('the client', () => host.run('conntrack', ['-L', '-p', 'udp']).stdout.includes('dport=20007'))
    const pod = attach(host, conf, { env: asked.env })
    expect(asked.lines().toSorted()).toEqual([
      '-D -f ipv4 -p udp --orig-port-dst 20007 --orig-dst 192.0.2.1',
      '-L -f ipv4 -p udp',
      '-L -f ipv6 -p udp',
    ])
    await running(pod.netns, namedServer.replace('bind(80', 'bind(20007'), 'pod')
    await until('an answer of the pod', () => said.text.includes('pod'))
    expectSilent(later(host, 'DEL', { conf, pod, call: { env: asked.env } }))
    expect(asked.lines().slice(3).toSorted()).toEqual([
      expect.stringMatching(/^-D -f ipv4 -p udp --reply-src 10\.240\.0\.\d+$/),
      expect.stringMatching(/^-D -f ipv6 -p udp --reply-src fd00:240::\w+$/),
    ])
  })
})
