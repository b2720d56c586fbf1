// SPDX-License-Identifier: Apache-2.0
// `trestle ps` and `trestle map`: who has which address, port and link, and what the node's network looks like.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { execa, execaSync } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Host, openHost, trestle } from '../../support/host.ts'
import { runLine } from '../../support/outcome.ts'
import { stateEnv } from '../../support/state-layout.ts'
import { netConf } from '../../support/traffic/pods.ts'

let host: Host
let scratch: string

const mapped = { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] }
const bridged = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'], runtimeConfig: mapped })
const routed = netConf({ name: 'routed', mode: 'ptp', podcidr: '10.241.0.0/28' })

beforeAll(() => {
  host = openHost()
  scratch = mkdtempSync(`${tmpdir()}/trestle-map-`)
  for (const line of [
    'ip link add up0 type veth peer name up1',
    'ip link set up0 up',
    'ip link set up1 up',
    'ip addr add 192.0.2.7/24 dev up0',
    'ip route add default via 192.0.2.1',
    'ip route add 10.244.2.0/24 via 192.0.2.12 proto 116 metric 116',
  ])
    runLine(host, line)
  const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web'
  expect(host.cni('ADD', bridged, { id: 'one', netns: host.pod('one'), env: { CNI_ARGS: args } }).code).toBe(0)
  expect(host.cni('ADD', routed, { id: 'two', netns: host.pod('two') }).code).toBe(0)
})

afterAll(() => {
  host.close()
  rmSync(scratch, { recursive: true, force: true })
})

function command(...words: readonly string[]) {
  const { stdout, stderr, exitCode } = execaSync('nsenter', [`--net=${host.path}`, '--', trestle, ...words], {
    env: stateEnv(host),
    reject: false,
    stripFinalNewline: false,
  })
  expect(stderr).toBe('')
  return { stdout, code: exitCode }
}

describe('trestle ps', () => {
  it('lists pods with addresses, ports, links and networks, and how full the ranges are', () => {
    const { stdout, code } = command('ps')
    expect(code).toBe(0)
    const lines = stdout.split('\n')
    expect(lines[0]).toMatch(/^POD +CONTAINER +INTERFACE +ADDRESSES +HOST PORTS +LINK +NETWORK +AGE$/)
    expect(stdout).toMatch(/^shop\/web +one +eth0 +10\.240\.0\.2 fd00:240::2 +8080\/tcp -> 80 +veth\w+ +net +\d+s$/m)
    expect(stdout).toMatch(/-two +two +eth0 +10\.241\.0\.\d+ +- +veth\w+ +routed +\d+s$/m)
    expect(stdout).toMatch(/^routed +10\.241\.0\.0\/28 +1 +12$/m)
  })

  it.each(['10.240.0.2', 'shop/web', 'web', '8080', 'fd00:240::2'])('finds whose %s is', (word) => {
    const { stdout, code } = command('ps', word)
    expect([code, stdout.match(/shop\/web/g)?.length, stdout.includes('two')]).toEqual([0, 1, false])
  })

  it('names a pod by its container where its namespace has no name', async () => {
    const process = execa('nsenter', [`--net=${host.pod('three')}`, 'sleep', '60'], { reject: false })
    const call = { id: 'default-three', netns: `/proc/${process.pid}/ns/net` }
    expect(host.cni('ADD', routed, call).code).toBe(0)
    expect(command('ps', 'default-three').stdout).toMatch(/^default-three +default-three +eth0 /m)
    expect(host.cni('DEL', routed, call).code).toBe(0)
    process.kill()
    await process
  })

  it('says with exit code 1 that nobody has it', () => {
    expect(command('ps', '10.240.0.99')).toEqual({ stdout: 'no pod with 10.240.0.99\n', code: 1 })
    const { pods, exitCode } = JSON.parse(command('ps', '10.240.0.99', '-o', 'json').stdout)
    expect([pods, exitCode]).toEqual([[], 1])
  })
})

describe('trestle map', () => {
  it('draws uplink, routes, bridge and pods as a tree', () => {
    const { stdout, code } = command('map')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^\|- uplink up0 {2}192\.0\.2\.7\/24$/m)
    expect(stdout).toMatch(/^\| {2}`- to 10\.244\.2\.0\/24 via 192\.0\.2\.12$/m)
    expect(stdout).toMatch(/^\|- bridge cni0 {2}10\.240\.0\.1\/24 {2}fd00:240::1\/64$/m)
    expect(stdout).toMatch(/^\| {2}`- shop\/web {2}eth0 {2}10\.240\.0\.2 {2}fd00:240::2 {2}by veth\w+$/m)
    expect(stdout).toMatch(/^\| {5} {3}port 8080\/tcp -> 80$/m)
    expect(stdout).toMatch(/^`- network routed, a link for each pod$/m)
  })

  it('writes the same as SVG', () => {
    const file = `${scratch}/node.svg`
    expect(command('map', '--svg', file)).toEqual({ stdout: `wrote ${file}\n`, code: 0 })
    const svg = readFileSync(file, 'utf8')
    const parse = "import sys,xml.dom.minidom as m;d=m.parse(sys.argv[1]);print(len(d.getElementsByTagName('rect')))"
    // The background, three boxes with their pods, and two pods.
    expect(execaSync('python3', ['-c', parse, file]).stdout).toBe('6')
    for (const word of ['shop/web', '10.241.0.', 'bridge cni0', '8080/tcp -&#62; 80']) expect(svg).toContain(word)
  })
})
