// SPDX-License-Identifier: Apache-2.0
// A real kube-proxy beside trestle, in both modes: services from pods, also back to the caller and to a neighbour on the
// bridge, and a host port with the number of a NodePort. kube-proxy's rules are as it wrote them after trestle's verbs.
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { asks, attach, call, check, detach, type LabPod, must, serve, uplink } from './lab/calls.ts'
import { type Lab, missingParts, openLab, peers, prepareLab } from './lab/lab.ts'

const missing = missingParts(['bin/kube-proxy'], 'kube-proxy')

const network = { cniVersion: '1.1.0', name: 'pods', type: 'trestle', podcidr: '10.92.0.0/24' }
const port = 30080
const withHostPort = (hostPort: number) => ({
  ...network,
  runtimeConfig: { portMappings: [{ hostPort, containerPort: 80, protocol: 'tcp' }] },
})
const node = {
  metadata: { name: 'lab' },
  spec: { podCIDR: '10.92.0.0/24' },
  status: { addresses: [{ type: 'InternalIP', address: uplink.node[0] }] },
}

interface Service {
  readonly name: string
  readonly clusterIP: string
  readonly nodePort?: number
  readonly endpoint: string
}

/** What the API server says: services on port 80 with one endpoint each. */
function objects(services: readonly Service[]): string {
  return JSON.stringify({
    nodes: [node],
    servicecidrs: [{ metadata: { name: 'kubernetes' }, spec: { cidrs: ['10.96.0.0/16'] } }],
    services: services.map(({ name, clusterIP, nodePort }) => ({
      metadata: { name, namespace: 'default' },
      spec: {
        type: nodePort === undefined ? 'ClusterIP' : 'NodePort',
        clusterIP,
        clusterIPs: [clusterIP],
        ipFamilies: ['IPv4'],
        ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 80, ...(nodePort && { nodePort }) }],
      },
    })),
    endpointslices: services.map(({ name, endpoint }) => ({
      metadata: { name: `${name}-1`, namespace: 'default', labels: { 'kubernetes.io/service-name': name } },
      addressType: 'IPv4',
      ports: [{ name: 'http', protocol: 'TCP', port: 80 }],
      endpoints: [{ addresses: [endpoint], conditions: { ready: true }, nodeName: 'lab' }],
    })),
  })
}

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

  /** Makes the services be these, and waits until kube-proxy has rules for them and for no others. */
  async function publish(services: readonly Service[]): Promise<void> {
    const file = join(lab.dir, 'objects.json')
    await writeFile(`${file}.new`, objects(services))
    await rename(`${file}.new`, file)
    const wanted = services.flatMap(({ clusterIP, endpoint }) => [clusterIP, `${endpoint}:80`]).sort()
    const known = async () => {
      const rules = (await proxyRules()).replaceAll(' . ', ':') // nft joins address and port so
      return [...new Set(rules.match(/10\.96\.0\.1\d|[\d.]+:80\b/g))].sort()
    }
    await vi.waitFor(async () => expect(await known()).toEqual(wanted), { timeout: 40_000, interval: 100 })
  }

  /** kube-proxy's rules, without counters and without what is ours. */
  async function proxyRules(): Promise<string> {
    if (mode === 'nftables') {
      const tables = await must(lab, 'nft -s list tables')
      const own = tables.split('\n').filter((line) => line.endsWith(' kube-proxy'))
      return (await Promise.all(own.map((table) => must(lab, `nft -s list ${table}`)))).join('')
    }
    const saved = await Promise.all(['iptables-save', 'ip6tables-save'].map((save) => must(lab, save)))
    return saved.join('').replace(/^#.*$|\[\d+:\d+\]/gm, '')
  }
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
      await publish([
        { name: 'itself', clusterIP: '10.96.0.11', endpoint: caller },
        { name: 'next', clusterIP: '10.96.0.12', nodePort: port, endpoint: neighbour },
        { name: 'away', clusterIP: '10.96.0.13', endpoint: uplink.outside[0] },
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
      const before = await proxyRules()
      const extra = await attach(lab, withHostPort(18081), 'extra')
      expect(await check(lab, extra)).toBe('')
      await must(lab, 'nft delete table inet trestle')
      await must(lab, '/opt/cni/bin/trestle restore')
      for (const pod of [...pods, extra]) expect(await check(lab, pod)).toBe('')
      await detach(lab, extra)
      const valid = pods.map(({ name }) => ({ containerID: name, ifname: 'eth0' }))
      const collected = await call(lab, 'GC', { conf: { ...network, 'cni.dev/valid-attachments': valid }, name: 'gc' })
      expect([collected.exitCode, collected.stdout]).toEqual([0, ''])
      expect(await proxyRules()).toBe(before)
      expect(await from('caller', '10.96.0.11')).toMatch(/^caller /)
    })

    it('the NodePort wins over a host port of the same number, which takes over when the service is gone', async () => {
      for (const client of ['outside', 'caller', undefined])
        expect(await from(client, uplink.node[0], port), client ?? 'the node').toMatch(/^neighbour /)
      await publish([{ name: 'itself', clusterIP: '10.96.0.11', endpoint: pods[0]?.addresses[0] ?? '' }])
      for (const client of ['outside', 'caller', undefined])
        expect(await from(client, uplink.node[0], port), client ?? 'the node').toMatch(/^holder /)
      for (const pod of pods) await detach(lab, pod)
    })
  })
})
