// SPDX-License-Identifier: Apache-2.0
// DEL of a pod that the upstream chain made: what is its alone goes, whatever is there of others stays
// byte for byte, and what cannot be removed now keeps its reservation.

import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { missingCnitool, openRuntime, type Runtime } from '../../support/cnitool.ts'
import { type Host, openHost } from '../../support/host.ts'
import { expectSilent } from '../../support/outcome.ts'
import { stateFiles } from '../../support/state-layout.ts'

const missing = missingCnitool(['bridge', 'host-local', 'portmap', 'firewall', 'bandwidth', 'tuning'])
if (missing !== undefined) console.warn(missing)

const network = 'left'
const leases = `/var/lib/cni/networks/${network}`
const ipam = { type: 'host-local', ranges: [[{ subnet: '10.79.0.0/24' }], [{ subnet: 'fd00:79::/64' }]] }

function list(backend: string, more: object = {}) {
  const bridge = {
    type: 'bridge',
    bridge: 'br-left',
    isGateway: true,
    ipMasq: true,
    ipMasqBackend: backend,
    ipam,
    ...more,
  }
  const portmap = { type: 'portmap', backend, capabilities: { portMappings: true } }
  const bandwidth = { type: 'bandwidth', ingressRate: 8e8, ingressBurst: 8e7, egressRate: 8e8, egressBurst: 8e7 }
  return { cniVersion: '1.0.0', name: network, plugins: [bridge, portmap, { type: 'firewall' }, bandwidth] }
}

/** What the node was switched to. */
const conf = {
  cniVersion: '1.0.0',
  name: network,
  type: 'trestle',
  mode: 'bridge',
  bridge: 'br-left',
  isGateway: true,
  ipam,
}

interface Pod {
  readonly id: string
  readonly netns: string
  readonly address: string
}

let host: Host
let runtime: Runtime
beforeEach(() => {
  host = openHost()
  runtime = openRuntime(host, network)
})
afterEach(() => {
  runtime.close()
  host.close()
})

function add(label: string, hostPort: number): Pod {
  const netns = host.pod(label)
  const known = new Set(cached())
  const added = runtime.tool('add', netns, { portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] })
  expect(added.code, added.stderr).toBe(0)
  const name = cached().find((each) => !known.has(each)) ?? ''
  return {
    id: name.slice(network.length + 1, -'-eth0'.length),
    netns,
    address: added.json?.ips[0]?.address.replace(/\/.*/, '') ?? '',
  }
}

const cached = () => (existsSync('/var/lib/cni/results') ? readdirSync('/var/lib/cni/results') : [])
const addressFiles = () => readdirSync(leases).filter((name) => /^\d|:/.test(name))
const lines = (text: string) => text.split('\n').filter((line) => !line.startsWith('#') && !line.startsWith(':'))

/** Every rule, link and reservation on the node. */
function everything(): readonly string[] {
  const rules = ['iptables-save', 'ip6tables-save'].flatMap((program) => lines(host.run(program, []).stdout))
  const nft = host.run('nft', ['-s', 'list', 'ruleset']).stdout.replace(/counter packets \d+ bytes \d+/g, 'counter')
  const links = host
    .run('ip', ['-br', 'link'])
    .stdout.split('\n')
    .map((line) => line.split(' ')[0] ?? '')
  return [...rules, ...nft.split('\n'), ...links.sort(), ...addressFiles().sort()]
}

const del = (pod: Pod, call: { netns?: string; env?: Record<string, string> } = {}) =>
  host.cni('DEL', conf, { id: pod.id, netns: call.netns ?? pod.netns, ...(call.env ? { env: call.env } : {}) })

describe.skipIf(missing !== undefined).each(['iptables', 'nftables'])(
  'a pod of the upstream chain with %s',
  (backend) => {
    it.each([
      ['with its namespace', (pod: Pod) => pod.netns],
      ['with an empty CNI_NETNS', () => ''],
      ['with a namespace that is gone', () => '/run/netns/gone'],
    ])('is deleted %s, and the others’ rules are as before', (_, netnsOf) => {
      runtime.write(list(backend))
      host.run('iptables', ['-t', 'nat', '-A', 'POSTROUTING', '-s', '10.79.0.0/24', '-j', 'RETURN'])
      host.run('iptables', ['-A', 'FORWARD', '-s', '10.79.0.3/32', '-j', 'DROP'])
      add('first', 8001)
      const before = everything()
      const pod = add('second', 8002)
      expect(everything()).not.toEqual(before)
      expectSilent(del(pod, { netns: netnsOf(pod) }))
      expect(everything()).toEqual(before)
      expect(host.inPod(pod.netns, 'ip', ['link', 'show', 'eth0']).code).not.toBe(0)
      expectSilent(del(pod, { netns: '' }))
    })

    it('keeps the reservation while its rules cannot be removed', () => {
      runtime.write(list(backend))
      add('other', 8003)
      const before = everything()
      const pod = add('kept', 8001)
      const directory = mkdtempSync(`${tmpdir()}/trestle-broken-`)
      for (const program of ['iptables-restore', 'nft']) {
        writeFileSync(
          `${directory}/${program}`,
          '#!/bin/sh\n[ "$1" = -j ] && exec /usr/sbin/nft "$@"\necho broken >&2\nexit 1\n',
        )
        chmodSync(`${directory}/${program}`, 0o755)
      }
      const failed = del(pod, { env: { PATH: `${directory}:${process.env['PATH']}` } })
      expect([failed.code, failed.stdout]).toEqual([0, ''])
      expect(failed.stderr).toContain('left of the upstream plugins')
      expect(addressFiles()).toContain(pod.address)
      expectSilent(del(pod, { netns: '' }))
      expect(everything()).toEqual(before)
      rmSync(directory, { recursive: true })
    })

    it('with the reservation alone, its cache entry lost', () => {
      runtime.write(list(backend))
      const other = add('other', 8003)
      const before = everything()
      const pod = add('uncached', 8001)
      rmSync(`/var/lib/cni/results/${network}-${pod.id}-eth0`)
      expectSilent(del(pod))
      expect(everything()).toEqual(before)
      expect(addressFiles()).toContain(other.address)
    })

    it('with its address given to another pod meanwhile: accepts stay for that one', () => {
      runtime.write(list(backend))
      const pod = add('reused', 8001)
      writeFileSync(`${leases}/${pod.address}`, 'somebody-else\r\neth0')
      expectSilent(del(pod))
      expect(host.run('iptables-save', []).stdout).toContain(`-A CNI-FORWARD -s ${pod.address}/32 -j ACCEPT`)
      expect(addressFiles()).toEqual([pod.address])
      expect(readFileSync(`${leases}/${pod.address}`, 'utf8')).toContain('somebody-else')
    })
  },
)

describe.skipIf(missing !== undefined)('links', () => {
  it('that cannot be told to be the pod’s stay', () => {
    runtime.write(list('nftables'))
    const pod = add('changed', 8001)
    host.inPod(pod.netns, 'ip', ['link', 'del', 'eth0'])
    // The name in the namespace, and the name on the host, but neither MAC nor address.
    const text = readFileSync(`/var/lib/cni/results/${network}-${pod.id}-eth0`, 'utf8')
    const name = /"name":"(veth[0-9a-f]{8})"/.exec(text)?.[1] ?? ''
    const made = host.run('ip', ['link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', pod.netns])
    expect(made.code, made.stderr).toBe(0)
    expectSilent(del(pod))
    expect(host.run('ip', ['link', 'show', name]).code).toBe(0)
    expect(addressFiles()).toEqual([])
  })

  it('of a chain that trestle is a part of are left to the plugin that made them', () => {
    const { plugins, ...rest } = list('nftables')
    runtime.write({ ...rest, plugins: [...plugins, { type: 'trestle', mode: 'chained' }] })
    const pod = add('mixed', 8001)
    rmSync(stateFiles(host).networks, { recursive: true, force: true })
    expectSilent(del(pod))
    expect(host.inPod(pod.netns, 'ip', ['link', 'show', 'eth0']).code).toBe(0)
    expect(addressFiles()).toHaveLength(2)
  })
})
