// SPDX-License-Identifier: Apache-2.0
// `kubectl apply -k conf-examples/kubernetes` with the built image on three empty nodes of a real cluster: no node is ready
// before, all are after; pods reach each other across nodes by their own addresses, by a Service and by host ports; and
// nothing is left when it was taken away again. Then the same executable as a static pod. For what is released, by hand:
// TRESTLE_TEST_IMAGE, an archive of the image, and TRESTLE_TEST_MANIFEST, such as install.yaml or the rendered chart.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { usualStateDir } from '../support/state-layout.ts'
import { type Cluster, isReady, list, missingClusterParts, openCluster, whenAllReady } from './cluster/cluster.ts'
import { answerFrom, appPods, caller, servePods, whereIs } from './cluster/pods.ts'

const missing = missingClusterParts()
const nodes = ['node1', 'node2', 'node3']
const hostPort = 18080

describe.skipIf(missing.length > 0)('a cluster of three nodes', { timeout: 600_000 }, () => {
  let cluster: Cluster
  let scratch: string
  beforeAll(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'trestle-cluster-'))
    const image = process.env['TRESTLE_TEST_IMAGE'] ?? join(scratch, 'image.tar')
    if (image.startsWith(scratch)) await execa(process.execPath, ['scripts/image.mjs', '--out', image])
    cluster = await openCluster({
      ...{ nodes, proxy: 'nftables', images: [image] },
      cidrs: ['10.244.0.0/16', 'fd00:10:244::/48'],
      services: ['10.96.0.0/16', 'fd00:10:96::/112'],
    })
  }, 600_000)
  afterAll(async () => {
    await cluster?.close()
    await rm(scratch, { recursive: true, force: true })
  })

  const example = (name: string) => join(process.cwd(), 'conf-examples', name)
  const manifest = process.env['TRESTLE_TEST_MANIFEST']
  const agent = manifest === undefined ? ['-k', example('kubernetes')] : ['-f', manifest]

  it('has no node that is ready before the agent is there, and only such after', async () => {
    expect((await list(cluster, 'nodes')).filter(isReady)).toEqual([])
    await cluster.kubectl('apply', ...agent)
    const ready = await whenAllReady(cluster, nodes.length, 'nodes')
    for (const { status } of ready)
      expect(status.conditions).toContainEqual(expect.objectContaining({ type: 'NetworkUnavailable', status: 'False' }))
    await whenAllReady(cluster, nodes.length, 'pods', '-n', 'trestle')
  })

  it('lets pods reach each other across nodes in both families, each by its own address', async () => {
    await servePods(cluster, { replicas: 6, nodes: nodes.length, hostPort })
    const pods = await appPods(cluster)
    let asked = 0
    for (const from of pods)
      for (const to of pods.filter(({ node }) => node !== from.node))
        for (const [at, address] of to.addresses.entries()) {
          expect(caller(await answerFrom(cluster, from, address)), `${from.name} to ${to.name}`).toBe(
            from.addresses[at],
          )
          asked += 1
        }
    expect(asked).toBeGreaterThan(2 * 6 * 2)
  })

  it('lets every pod reach a Service, by its own address', async () => {
    const [{ spec } = { spec: {} }] = (
      JSON.parse(await cluster.kubectl('get', 'services', '-l', 'app=web', '-o', 'json')) as {
        items: { spec: { clusterIPs?: string[] } }[]
      }
    ).items
    expect(spec.clusterIPs).toHaveLength(2)
    // Those behind the Service may be answered by themselves, whose address kube-proxy hides.
    for (const from of await appPods(cluster, 'port'))
      for (const [at, address] of (spec.clusterIPs ?? []).entries())
        await vi.waitFor(
          async () => expect(caller(await answerFrom(cluster, from, address))).toBe(from.addresses[at]),
          { timeout: 30_000, interval: 500 },
        )
  })

  it('has host ports that the outside reaches, in both families', async () => {
    for (const at of nodes.keys())
      for (const target of [`TCP4:192.0.2.1${at + 1}`, `TCP6:[2001:db8:0:2::1${at + 1}]`]) {
        const line = `printf 'GET /cgi-bin/who HTTP/1.0\\r\\n\\r\\n' | timeout 20 socat -t10 - ${target}:${hostPort},connect-timeout=5`
        const { stdout, stderr } = await cluster.outside(line)
        expect(stdout, `${target}: ${stderr}`).toMatch(/caller \[?(?:::ffff:)?(192\.0\.2\.1|2001:db8:0:2::1)\]?$/m)
      }
  })

  it('leaves nothing on any node when it is taken away', async () => {
    await cluster.kubectl('apply', '-k', example('kubernetes-uninstall'))
    // A pod that is still there keeps its network.
    const attached = async () =>
      await cluster.kubectl('-n', 'trestle', 'logs', '-l', 'app.kubernetes.io/name=trestle-agent')
    await vi.waitFor(async () => expect(await attached()).toContain('pods are attached'), {
      timeout: 120_000,
      interval: 500,
    })
    const [from, to] = await appPods(cluster)
    if (from === undefined || to === undefined) throw new Error('there are pods')
    expect(caller(await answerFrom(cluster, from, to.addresses[0] ?? ''))).toBe(from.addresses[0])
    await cluster.kubectl('delete', 'deployment,daemonset,service', '-l', 'example=trestle', '--wait')
    await cluster.kubectl('-n', 'trestle', 'rollout', 'status', 'daemonset/trestle-agent', '--timeout=50s')
    await cluster.kubectl('delete', ...agent, '--wait=false')
    await expectNothingLeft()
  })

  it('is ready on a node that has the agent as a static pod', async () => {
    await vi.waitFor(async () => expect(await cluster.kubectl('get', 'namespaces')).not.toContain('trestle'), {
      timeout: 120_000,
      interval: 500,
    })
    for (const file of ['rbac.yaml', 'policy.yaml']) await cluster.kubectl('apply', '-f', example(`kubernetes/${file}`))
    const bound = ['--bound-object-kind', 'Node', '--bound-object-name', 'node1']
    const token = await cluster.kubectl('-n', 'trestle', 'create', 'token', 'trestle-agent', ...bound)
    await writeFile(join(cluster.dir, 'token'), token, { mode: 0o600 })
    await cluster.must('node1', `install -m 600 ${join(cluster.dir, 'token')} /etc/trestle/token`)
    await cluster.must('node1', `cp ${example('node/trestle-agent.yaml')} ${join(cluster.dir, 'node1/manifests/')}`)
    const readyNodes = async () => (await list(cluster, 'nodes')).filter(isReady).map(({ metadata }) => metadata.name)
    await vi.waitFor(async () => expect(await readyNodes()).toEqual(['node1']), { timeout: 120_000, interval: 500 })
    await servePods(cluster, { replicas: 1, nodes: 1, hostPort })
    for (const { addresses, node } of await appPods(cluster)) {
      expect(addresses).toHaveLength(2)
      expect(node).toBe('node1')
    }
  })

  /** Links, rules, routes, files and state of trestle, and libcni's results of its pods. */
  async function expectNothingLeft(): Promise<void> {
    for (const node of nodes) {
      await vi.waitFor(
        async () => {
          expect(await cluster.must(node, 'ls -A /var/lib/cni/results 2>/dev/null; ls -A /run/netns')).toBe('')
        },
        { timeout: 60_000, interval: 500 },
      )
      expect(await cluster.must(node, 'ls -A /etc/cni/net.d /opt/cni/bin')).toBe(
        '/etc/cni/net.d:\n\n/opt/cni/bin:\nloopback',
      )
      expect(await cluster.must(node, 'ip -o link show | grep -vE "^[0-9]+: (lo|up0)[:@]" || true')).toBe('')
      expect(await cluster.must(node, 'ip route show proto 116; ip -6 route show proto 116')).toBe('')
      expect(await cluster.must(node, 'nft list tables')).not.toContain('trestle')
      expect(await cluster.must(node, `ls -d ${usualStateDir} 2>/dev/null || true`)).toBe('')
      expect(await whereIs(cluster, node, '10.244.')).toBe('')
    }
  }
})
