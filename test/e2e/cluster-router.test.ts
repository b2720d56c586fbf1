// SPDX-License-Identifier: Apache-2.0
// Nodes on two segments, with a router between them that knows no pods: what a node itself sends to a Service reaches a pod
// behind the router at once, in both families. A wrong checksum or a mark would cost a second or more (flannel#1243).

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Cluster, list, missingClusterParts, openCluster } from './cluster/cluster.ts'
import { appPods, servePods } from './cluster/pods.ts'
import { bringNetwork } from './cluster/sig-network.ts'

const missing = missingClusterParts()
const nodes = ['node1', 'node2', 'node3']

describe.skipIf(missing.length > 0).each(['nftables', 'iptables'] as const)('behind a router, with %s', (proxy) => {
  let cluster: Cluster
  let scratch: string
  beforeAll(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'trestle-router-'))
    const image = join(scratch, 'image.tar')
    await execa(process.execPath, ['scripts/image.mjs', '--out', image])
    cluster = await openCluster({
      ...{ nodes, proxy, images: [image], env: { LAB_ROUTER: 'yes' } },
      cidrs: ['10.244.0.0/16', 'fd00:10:244::/48'],
      services: ['10.96.0.0/16', 'fd00:10:96::/112'],
    })
    await bringNetwork(cluster, 'agent', nodes)
    await servePods(cluster, { replicas: 6, nodes: nodes.length, hostPort: 18080 })
  }, 600_000)
  afterAll(async () => {
    await cluster?.close()
    await rm(scratch, { recursive: true, force: true })
  })

  it('a node reaches every pod behind a Service at once', { timeout: 120_000 }, async () => {
    const away = new Set((await appPods(cluster, 'web')).map(({ node }) => node))
    expect(away).toContain('node2')
    const services = JSON.parse(await cluster.kubectl('get', 'services', '-l', 'app=web', '-o', 'json')) as {
      items: { spec: { clusterIPs: string[]; ports: { port: number }[] } }[]
    }
    const { clusterIPs = [], ports = [] } = services.items[0]?.spec ?? {}
    expect([clusterIPs.length, (await list(cluster, 'nodes')).length]).toEqual([2, 3])
    for (const address of clusterIPs) {
      const url = `http://${address.includes(':') ? `[${address}]` : address}:${ports[0]?.port}/cgi-bin/who`
      const ask = `curl -s -o /dev/null -w '%{time_total} ' --max-time 10 ${url}`
      const took = (await cluster.must('node1', `for i in $(seq 40); do ${ask} || echo failed; done`)).trim().split(' ')
      const longest = Math.max(...took.map(Number))
      console.log(`${proxy}, ${url}: 40 requests, the longest took ${Math.round(longest * 1000)} ms`)
      expect(longest, took.join(' ')).toBeLessThan(0.9)
    }
  })
})
