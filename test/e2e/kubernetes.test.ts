// SPDX-License-Identifier: Apache-2.0
// Kubernetes' own network tests, on two nodes that have `kubectl apply -k conf-examples/kubernetes` with the built image: all
// of [sig-network] pass but those that kubernetes-tests-left-out.txt names, each with its reason.
//
// TRESTLE_TEST_KUBERNETES: kube-proxy's mode and the families: `nftables dual`, `iptables IPv4`, `nftables IPv6`,
// `nftables dual-over-IPv6` (nodes have IPv6 addresses alone); with `router` behind it three nodes on two segments, with a
// router between them that knows no pods.
// TRESTLE_TEST_NETWORK: agent (default), plain or upstream (cluster/sig-network.ts).
// TRESTLE_TEST_FOCUS: only tests whose names match. TRESTLE_TEST_REPORT: a folder for the log and ginkgo's report.

import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Cluster, openCluster, siteAddress } from './cluster/cluster.ts'
import { bringNetwork, type Network, runTests, serveNames } from './cluster/sig-network.ts'
import { missingParts, peers } from './lab/lab.ts'

const wish = process.env['TRESTLE_TEST_KUBERNETES'] ?? ''
const network = (process.env['TRESTLE_TEST_NETWORK'] ?? 'agent') as Network
const kinds = new Map([
  ['dual', { cidrs: ['10.244.0.0/16', 'fd00:10:244::/48'], services: ['10.96.0.0/16', 'fd00:10:96::/112'] }],
  ['dual-over-IPv6', { cidrs: ['fd00:10:244::/48', '10.244.0.0/16'], services: ['fd00:10:96::/112', '10.96.0.0/16'] }],
  ['IPv4', { cidrs: ['10.244.0.0/16'], services: ['10.96.0.0/16'] }],
  ['IPv6', { cidrs: ['fd00:10:244::/48'], services: ['fd00:10:96::/112'] }],
])
const hasRouter = wish.endsWith(' router')
const nodes = hasRouter ? ['node1', 'node2', 'node3'] : ['node1', 'node2']
const parts = ['bin/e2e.test', 'bin/kube-apiserver', 'bin/kubelet', 'bin/containerd', 'images/kubernetes.tar']

function missing(): readonly string[] {
  if (wish !== '') return missingParts(parts, 'cni containerd kubelet kube-proxy control-plane kubernetes-tests')
  const reason = "TRESTLE_TEST_KUBERNETES='nftables dual' runs them: they take half an hour"
  console.warn(`skipped, Kubernetes' own tests: ${reason}`)
  return [reason]
}

describe.skipIf(missing().length > 0)('the network tests of Kubernetes', { timeout: 10_800_000 }, () => {
  let cluster: Cluster
  let scratch: string
  beforeAll(async () => {
    const [proxy, families = ''] = wish.split(' ')
    const kind = kinds.get(families)
    if ((proxy !== 'nftables' && proxy !== 'iptables') || kind === undefined)
      throw new Error(`TRESTLE_TEST_KUBERNETES: '${wish}' is no mode of kube-proxy and families, as 'nftables dual' is`)
    scratch = await mkdtemp(join(tmpdir(), 'trestle-kubernetes-'))
    const image = join(scratch, 'image.tar')
    await execa(process.execPath, ['scripts/image.mjs', '--out', image])
    const dns = siteAddress(kind.services).includes(':') ? 'fd00:10:96::a' : '10.96.0.10'
    const images = [image, join(peers, 'images/kubernetes.tar')]
    cluster = await openCluster({
      ...kind,
      nodes,
      proxy,
      images,
      env: {
        LAB_DNS: dns,
        LAB_ROUTER: hasRouter ? 'yes' : 'no',
        LAB_UNDERLAY: families.endsWith('IPv6') ? 'IPv6' : '',
      },
    })
    await bringNetwork(cluster, network, nodes)
    // The test of topology hints wants two zones.
    for (const node of nodes) await cluster.kubectl('label', 'node', node, `topology.kubernetes.io/zone=of-${node}`)
    await serveNames(cluster, kind.services, dns)
  }, 900_000)
  afterAll(async () => {
    await cluster?.close()
    await rm(scratch, { recursive: true, force: true })
  })

  it('pass, but those that are left out', async () => {
    const lines = (await readFile('test/e2e/kubernetes-tests-left-out.txt', 'utf8')).split('\n')
    const leftOut = lines.filter((line) => line !== '' && !line.startsWith('#'))
    if (!wish.includes(' dual')) leftOut.push(String.raw`\[Feature:IPv6DualStack\]`)
    // It wants a pod to see a node's own address after a masquerade. Behind a router that is the overlay's, through which
    // the answer has to come back; so it is with every overlay whose device has an address.
    if (hasRouter) leftOut.push('NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes')
    const skip = leftOut.join('|')
    const focus = process.env['TRESTLE_TEST_FOCUS'] ?? String.raw`\[sig-network\]`
    const report = process.env['TRESTLE_TEST_REPORT'] ?? scratch
    await mkdir(report, { recursive: true })
    const ran = await runTests(cluster, { focus, skip, report })
    const others = ran.filter(({ state }) => state !== 'passed')
    console.log(`${network}, ${wish}: ${ran.length - others.length} of ${ran.length} pass`)
    expect(others).toEqual([])
    expect(ran.length).toBeGreaterThan(0)
  })
})
