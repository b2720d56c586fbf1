// SPDX-License-Identifier: Apache-2.0
// A real kube-proxy beside trestle, in both modes: services from pods, also back to the caller and to a neighbour on the
// bridge, and a host port with the number of a NodePort. kube-proxy's rules are as it wrote them after trestle's verbs.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { asks, attach, call, check, type LabPod, must, serve, teardown, uplink } from './lab/calls.ts'
import { type Lab, missingParts, openLab, peers, prepareLab } from './lab/lab.ts'
import { objects, proxyRules, publish } from './lab/services.ts'

const missing = missingParts(['bin/kube-proxy'], 'kube-proxy')

const network = { cniVersion: '1.1.0', name: 'pods', type: 'trestle', podcidr: '10.92.0.0/24' }
const port = 30080
const withHostPort = (hostPort: number) => ({
  ...network,
  runtimeConfig: { portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] },
})
/** An IPv6 address as everybody but socat writes it. */
const short = (address: string) =>
  address.includes(':') ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address

describe.skipIf(missing.length > 0).each(['nftables', 'iptables'] as const)('kube-proxy in %s mode', (mode) => {
  let lab: Lab
  beforeAll(async () => {
    const dir = await prepareLab({})
    await writeFile(join(dir, 'objects.json'), objects([]))
    const up = fileURLToPath(new URL('lab/kube-proxy-up.sh', import.meta.url))
    lab = await openLab(dir, { command: ['bash', up, dir, peers, process.execPath, mode], ready: 'kube-proxy ready' })
    await must(lab, 'sysctl -qw net.ipv4.ip_forward=1')
    await serve(lab, { netns: 'outside', port: 80 }, 'outside')
  })
  afterAll(async () => {
    await lab?.close()
  })

  const from = (client: string | undefined, address: string, at = 80) => asks(lab, client, { address, port: at })
  const settings = (isOn: number) =>
    ['iptables', 'ip6tables'].map((name) => must(lab, `sysctl -qw net.bridge.bridge-nf-call-${name}=${isOn}`))

  describe('with pods behind services', () => {
    let pods: readonly LabPod[]
    beforeAll(async () => {
      pods = [
        await attach(lab, withHostPort(18080), 'caller'),
        await attach(lab, network, 'neighbour'),
        await attach(lab, withHostPort(port), 'holder'),
      ]
      for (const { name } of pods) await serve(lab, { netns: name, port: 80 }, name)
      const [caller = '', neighbour = ''] = pods.map(({ addresses }) => addresses[0] ?? '')
      await publish(lab, mode, [
        { name: 'itself', clusterIPs: ['10.96.0.11'], endpoints: [caller] },
        { name: 'next', clusterIPs: ['10.96.0.12'], nodePort: port, endpoints: [neighbour] },
        { name: 'away', clusterIPs: ['10.96.0.13'], endpoints: [uplink.outside[0]] },
      ])
    })

    it.each([0, 1])(
      'a pod reaches services, itself and its neighbour included, with bridge-nf-call-iptables %i',
      async (isOn) => {
        await Promise.all(settings(isOn))
        const said = await Promise.all(['10.96.0.11', '10.96.0.12', '10.96.0.13'].map((ip) => from('caller', ip)))
        expect(said.map((answer) => answer.split(' ')[0])).toEqual(['caller', 'neighbour', 'outside'])
        expect(said[2]).toBe(`outside ${uplink.node[0]}`)
        expect(await from('neighbour', '10.96.0.12')).toMatch(/^neighbour /)
        expect(await from(undefined, '10.96.0.11')).toMatch(/^caller /)
      },
    )

    it('a host port beside them works from outside, from the node and from pods', async () => {
      for (const client of ['outside', undefined, 'neighbour', 'caller'])
        expect(await from(client, uplink.node[0], 18080), client ?? 'the node').toMatch(/^caller /)
      expect(await from(undefined, '127.0.0.1', 18080)).toMatch(/^caller /)
    })

    it('rules of kube-proxy are as it wrote them after ADD, CHECK, restore, DEL and GC', async () => {
      const before = await proxyRules(lab, mode)
      const extra = await attach(lab, withHostPort(18081), 'extra')
      expect(await check(lab, extra)).toBe('')
      await must(lab, 'nft delete table inet trestle')
      await must(lab, '/opt/cni/bin/trestle restore')
      for (const pod of [...pods, extra]) expect(await check(lab, pod)).toBe('')
      await teardown(lab, extra)
      const valid = pods.map(({ name }) => ({ containerID: name, ifname: 'eth0' }))
      const collected = await call(lab, 'GC', { conf: { ...network, 'cni.dev/valid-attachments': valid }, name: 'gc' })
      expect([collected.exitCode, collected.stdout]).toEqual([0, ''])
      expect(await proxyRules(lab, mode)).toBe(before)
      expect(await from('caller', '10.96.0.11')).toMatch(/^caller /)
    })

    it('the NodePort wins over a host port of the same number, which takes over when the service is gone', async () => {
      for (const client of ['outside', 'caller', undefined])
        expect(await from(client, uplink.node[0], port), client ?? 'the node').toMatch(/^neighbour /)
      const itself = { name: 'itself', clusterIPs: ['10.96.0.11'], endpoints: [pods[0]?.addresses[0] ?? ''] }
      await publish(lab, mode, [itself])
      for (const client of ['outside', 'caller', undefined])
        expect(await from(client, uplink.node[0], port), client ?? 'the node').toMatch(/^holder /)
      for (const pod of pods) await teardown(lab, pod)
    })
  })

  describe.each(['bridge', 'ptp'] as const)('the client that a service sees, mode %s', (podMode) => {
    const ranges = podMode === 'bridge' ? ['10.93.0.0/24', 'fd00:93::/64'] : ['10.94.0.0/24', 'fd00:94::/64']
    const own = {
      ...network,
      name: podMode,
      mode: podMode,
      bridge: 'br-own',
      podcidr: ranges,
      nonMasqueradeCIDRs: ['192.0.2.0/24', '2001:db8:0:2::/64'],
    }
    const other = { ...network, name: 'other', bridge: 'br-other', podcidr: ['10.95.0.0/24', 'fd00:95::/64'] }
    const gateways = ranges.map((range) => range.replace(/0?\/.*/, '1'))
    let pods: Readonly<Record<'caller' | 'neighbour' | 'stranger', LabPod>>
    beforeAll(async () => {
      pods = {
        caller: await attach(lab, own, `${podMode}-caller`),
        neighbour: await attach(lab, own, `${podMode}-next`),
        stranger: await attach(lab, other, `${podMode}-other`),
      }
      for (const { name } of Object.values(pods)) await serve(lab, { netns: name, port: 80 }, name)
      for (const [at, range] of ranges.entries())
        await must(lab, `ip -n outside route add ${range} via ${uplink.node[at]}`)
      const behind = [pods.caller, pods.neighbour, pods.stranger].map(({ addresses }) => addresses)
      await publish(
        lab,
        mode,
        [...behind, uplink.outside].map((endpoints, at) => ({
          name: `s${at}`,
          clusterIPs: [`10.96.0.1${at + 1}`, `fd00:aa::1${at + 1}`],
          endpoints,
          ...(at === 1 ? { nodePort: port, isLocal: true as const } : {}),
        })),
      )
    })
    afterAll(async () => {
      for (const pod of Object.values(pods)) await teardown(lab, pod)
      await publish(lab, mode, [])
    })

    const seen = async (client: string, addresses: readonly string[], at = 80) => {
      const said = await Promise.all(addresses.map((address) => from(client, address, at)))
      return said.map((answer) => short(answer.split(' ')[1] ?? ''))
    }
    const seenBy = (n: number) => seen(pods.caller.name, [`10.96.0.1${n}`, `fd00:aa::1${n}`])

    // The sysctls change while the pods live.
    it.each(podMode === 'ptp' ? [1] : [1, 0, 1])(
      'is the caller, but where its answer would pass the translation by: bridge-nf-call-iptables %i',
      async (isOn) => {
        await Promise.all(settings(isOn))
        const { addresses } = pods.caller
        const neighbour = podMode === 'bridge' && isOn === 0 ? gateways : addresses
        expect(await seenBy(1)).not.toContain('')
        expect(await seenBy(2)).toEqual(neighbour)
        expect(await seenBy(3)).toEqual(['10.95.0.1', 'fd00:95::1'])
        expect(await seenBy(4)).toEqual(addresses)
        expect(await seen(pods.caller.name, uplink.node, port)).toEqual(neighbour)
        expect(await seen('outside', uplink.node, port)).toEqual(uplink.outside)
      },
    )
  })
})
