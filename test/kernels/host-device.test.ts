// SPDX-License-Identifier: Apache-2.0
// mode host-device with a card of the machine, which the kernel moves into its first network namespace when the one of
// the pod ends. The calls are made there, in the guest that scripts/in-kernel.sh starts: it has two cards on one cable.

import { existsSync, mkdtempSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename } from 'node:path'
import { execaSync } from 'execa'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { trestle } from '../support/host.ts'
import { stateEnv } from '../support/state-layout.ts'

const address = '0000:00:10.0'
const mac = '0a:00:00:00:77:01'
const ipam = { type: 'trestle', ranges: [[{ subnet: '10.77.0.0/24' }]] }
const base = { cniVersion: '1.1.0', name: 'card', type: 'trestle', mode: 'host-device', ipam }

let stateDir: string
let card: string
let pods = 0

/** In the first network namespace of the kernel, and with its /sys. */
function run(file: string, args: readonly string[], more: { input?: string; env?: Record<string, string> } = {}) {
  const words = ['--target', '1', '--net', '--mount', '--', file, ...args]
  return execaSync('nsenter', words, { reject: false, ...more })
}

const ip = (words: string) => {
  const done = run('ip', words.split(' '))
  expect(done.exitCode, `ip ${words}: ${done.stderr}`).toBe(0)
  return done.stdout
}

interface Call {
  readonly netns: string
  readonly ifName?: string
}

function cni(verb: string, named: object, { netns, ifName = 'net1' }: Call) {
  const env = {
    CNI_COMMAND: verb,
    CNI_CONTAINERID: basename(netns),
    CNI_NETNS: netns,
    CNI_IFNAME: ifName,
    CNI_PATH: '/opt/cni/bin',
    ...stateEnv({ stateDir }),
  }
  const done = run(trestle, [], { input: JSON.stringify({ ...base, ...named }), env })
  expect(done.exitCode, `${verb}: ${done.stdout}${done.stderr}`).toBe(0)
  return done
}

function attach(named: object, ifName = 'net1') {
  pods += 1
  const netns = `/run/netns/pod${pods}`
  ip(`netns add pod${pods}`)
  const done = cni('ADD', named, { netns, ifName })
  return { netns, ifName, prevResult: JSON.parse(done.stdout) }
}

/** Name, whether it is up, and the alias of the card on the node. */
function shown() {
  const links = JSON.parse(ip('-j link')) as { ifname: string; address: string; flags: string[]; ifalias?: string }[]
  const link = links.find((each) => each.address === mac)
  return link && [link.ifname, link.flags.includes('UP'), link.ifalias ?? '']
}

beforeAll(() => {
  // Elsewhere the first network namespace is that of the machine which runs the tests.
  expect(existsSync('/in-kernel/command')).toBe(true)
  stateDir = mkdtempSync(`${tmpdir()}/trestle-card-`)
  run('modprobe', ['virtio_net'])
  card = run('ls', [`/sys/bus/pci/devices/${address}/virtio1/net`]).stdout || String(shown()?.[0])
  ip(`link set ${card} up`)
  const far = run('sh', ['-c', 'grep -l 0a:00:00:00:77:02 /sys/class/net/*/address']).stdout.split('/')[4]
  ip(`addr add 10.77.0.9/24 dev ${far}`)
  ip(`link set ${far} up`)
})

beforeEach(() => expect(shown()).toEqual([card, true, '']))

afterAll(() => rmSync(stateDir, { recursive: true, force: true }))

it.each([
  ['pciBusID', () => ({ pciBusID: address })],
  ['kernelpath', () => ({ kernelpath: run('readlink', ['-f', `/sys/bus/pci/devices/${address}`]).stdout })],
  ['hwaddr', () => ({ hwaddr: mac })],
  ['device', () => ({ device: card })],
  ['deviceID of the runtime', () => ({ runtimeConfig: { deviceID: address } })],
])('a card by %s is the interface of the pod, and comes home', (_, namedBy) => {
  const named = namedBy()
  const { netns, prevResult } = attach(named)
  expect(prevResult.interfaces).toMatchObject([{ name: 'net1', mac, sandbox: netns }])
  expect(shown()).toBeUndefined()
  expect(run('nsenter', [`--net=${netns}`, 'ping', '-c', '1', '-W', '5', '10.77.0.9']).exitCode).toBe(0)
  cni('CHECK', { ...named, prevResult }, { netns })
  cni('DEL', { ...named, prevResult }, { netns })
  expect(run('nsenter', [`--net=${netns}`, 'ip', 'link', 'show', 'net1']).exitCode).not.toBe(0)
})

it.each([
  ['as it was called in the pod', () => 'net1'],
  ['as dev and a number, where the name is taken', () => 'lo0'],
])('a card whose namespace ended is back %s, and DEL gives it its name', (_, ifNameOf) => {
  const ifName = ifNameOf()
  if (ifName === 'lo0') ip('link add lo0 type bridge')
  const pod = attach({ pciBusID: address }, ifName)
  ip(`netns del ${basename(pod.netns)}`)
  cni('DEL', { pciBusID: address, prevResult: pod.prevResult }, pod)
  expect(shown()).toEqual([card, true, ''])
  if (ifName === 'lo0') ip('link del lo0')
})

it('a card whose namespace and record are gone comes home with the DEL, down, and goes to the next pod', async () => {
  const pod = attach({ device: card })
  rmSync(stateDir, { recursive: true })
  stateDir = mkdtempSync(`${tmpdir()}/trestle-card-`)
  ip(`netns del ${basename(pod.netns)}`)
  await expect.poll(() => shown()?.[0], { timeout: 20_000 }).toBe('net1')
  cni('DEL', { device: card }, { ...pod, netns: pod.netns })
  expect(shown()).toEqual([card, false, ''])
  ip(`link set ${card} up`)
})

it('a card of a dead pod goes to the next one', () => {
  const pod = attach({ pciBusID: address })
  ip(`netns del ${basename(pod.netns)}`)
  const next = attach({ pciBusID: address })
  cni('DEL', { pciBusID: address, prevResult: next.prevResult }, next)
  cni('DEL', { pciBusID: address, prevResult: pod.prevResult }, pod)
})

it('the driver of the card is one of the kernel', () => {
  expect(basename(readlinkSync(`/sys/bus/pci/devices/${address}/driver`))).toBe('virtio-pci')
  expect(readFileSync('/proc/modules', 'utf8')).toContain('virtio_net')
})
