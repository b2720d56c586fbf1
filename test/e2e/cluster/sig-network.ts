// SPDX-License-Identifier: Apache-2.0
// What Kubernetes' own network tests need of a cluster: a network by one of three ways, names, and somebody who runs them.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, vi } from 'vitest'
import { type Cluster, list, siteAddress, whenAllReady } from './cluster.ts'

/** `agent`: as users have it; `plain`: a configuration of trestle on each node, without an agent; `upstream`: whose fault it is. */
export type Network = 'agent' | 'plain' | 'upstream'

/** A test that was not skipped, as ginkgo reports it. */
export interface Outcome {
  readonly name: string
  readonly state: string
}

/** Gives the nodes a network, and waits until they are ready. The API server reaches pods, as one on a node does. */
export async function bringNetwork(cluster: Cluster, network: Network, nodes: readonly string[]): Promise<void> {
  // As kubeadm wants of a node (kubernetes/kubeadm, preflight checks): what is bridged goes by kube-proxy's rules too.
  const bridged = 'net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1'
  for (const node of nodes) await cluster.must(node, `sysctl -qw ${bridged} net.ipv4.ip_forward=1`)
  if (network === 'agent') await cluster.kubectl('apply', '-k', join(process.cwd(), 'conf-examples/kubernetes'))
  else for (const node of nodes) await configureByHand(cluster, network, node)
  await whenAllReady(cluster, nodes.length, 'nodes')
  for (const route of routesTo(await list(cluster, 'nodes'))) {
    const { exitCode, stderr } = await cluster.outside(route)
    if (exitCode !== 0) throw new Error(`${route}: ${stderr}`)
  }
}

/** Commands: a route to each range of these nodes. */
function routesTo(nodes: Awaited<ReturnType<typeof list>>): readonly string[] {
  return nodes.flatMap(({ spec, status }) =>
    (spec.podCIDRs ?? []).map((range) => {
      const isOfFamily = (address: string) => address.includes(':') === range.includes(':')
      const internal = (status.addresses ?? [])
        .filter(({ type }) => type === 'InternalIP')
        .map(({ address }) => address)
      const via = internal.find(isOfFamily) ?? `inet6 ${internal[0]}`
      return `ip route replace ${range} via ${via}`
    }),
  )
}

async function configureByHand(cluster: Cluster, network: Network, node: string): Promise<void> {
  const all = await list(cluster, 'nodes')
  const ranges = all.find(({ metadata }) => metadata.name === node)?.spec.podCIDRs ?? []
  const others = all.filter(({ metadata }) => metadata.name !== node)
  const hostPorts = { capabilities: { portMappings: true } }
  const ipam = { type: 'host-local', ranges: ranges.map((subnet) => [{ subnet }]) }
  const bridge = { type: 'bridge', bridge: 'cni0', isDefaultGateway: true, hairpinMode: true, ipam }
  const nonMasqueradeCIDRs = others.flatMap(({ spec }) => spec.podCIDRs ?? [])
  const trestle = { type: 'trestle', podcidr: ranges, nonMasqueradeCIDRs, ...hostPorts }
  const plugins = network === 'plain' ? [trestle] : [bridge, { type: 'portmap', ...hostPorts }]
  const file = join(cluster.dir, `${node}.conflist`)
  await writeFile(file, JSON.stringify({ cniVersion: '1.0.0', name: 'pods', plugins }))
  await cluster.must(node, `cp ${cluster.peers}/cni/* ${process.cwd()}/dist/trestle /opt/cni/bin/`)
  for (const route of routesTo(others)) await cluster.must(node, route)
  await cluster.must(node, `cp ${file} /etc/cni/net.d/10-pods.conflist`)
}

/** CoreDNS beside the API server, as the Service that pods are told of. */
export async function serveNames(cluster: Cluster, services: readonly string[], clusterIP: string): Promise<void> {
  const site = siteAddress(services)
  const kubeconfig = join(cluster.dir, 'pki/admin.conf')
  const zones = `kubernetes cluster.local in-addr.arpa ip6.arpa {\n kubeconfig ${kubeconfig}\n }`
  await writeFile(join(cluster.dir, 'Corefile'), `.:53 {\n bind ${site}\n errors\n ${zones}\n cache 5\n}\n`)
  const serve = `nohup ${cluster.peers}/bin/coredns -conf ${cluster.dir}/Corefile`
  await cluster.outside(`${serve} </dev/null >${cluster.dir}/coredns.log 2>&1 &`)
  const ports = ['UDP', 'TCP'].map((protocol) => ({ name: protocol.toLowerCase(), port: 53, protocol }))
  const metadata = { name: 'kube-dns', namespace: 'kube-system' }
  await cluster.apply({ apiVersion: 'v1', kind: 'Service', metadata, spec: { clusterIP, ports } })
  await cluster.apply({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...metadata, labels: { 'kubernetes.io/service-name': metadata.name } },
    addressType: site.includes(':') ? 'IPv6' : 'IPv4',
    endpoints: [{ addresses: [site], conditions: { ready: true } }],
    ports,
  })
}

/** Runs the tests whose names match `focus` and not `skip`, four at a time; `report`: a folder for log and report. */
export async function runTests(
  cluster: Cluster,
  { focus, skip, report }: { readonly focus: string; readonly skip: string; readonly report: string },
): Promise<readonly Outcome[]> {
  const [script, end] = [join(cluster.dir, 'tests.sh'), join(cluster.dir, 'tests.end')]
  const words = [
    ...['ginkgo', '--procs', '4', '--timeout', '150m', '--no-color', '--output-dir', report],
    ...['--json-report', 'report.json', '--focus', focus, '--skip', skip, join(cluster.peers, 'bin/e2e.test'), '--'],
    ...['--kubeconfig', join(cluster.dir, 'pki/admin.conf'), '--provider', 'local', '--num-nodes', '2'],
    ...['--allowed-not-ready-nodes', '0', '--disable-log-dump'],
  ].map((word) => `'${word}'`)
  await writeFile(
    script,
    `export PATH=${cluster.peers}/bin:$PATH\n${words.join(' ')} >'${report}/tests.log' 2>&1\necho $? >${end}\n`,
  )
  await cluster.outside(`nohup bash ${script} </dev/null >/dev/null 2>&1 &`)
  await vi.waitFor(async () => expect(await readFile(end, 'utf8')).not.toBe(''), { timeout: 9_600_000, interval: 5000 })
  const suites = JSON.parse(await readFile(join(report, 'report.json'), 'utf8')) as { SpecReports: Spec[] }[]
  return suites
    .flatMap(({ SpecReports }) => SpecReports)
    .filter(({ LeafNodeType, State }) => LeafNodeType === 'It' && State !== 'skipped')
    .map((spec) => ({
      name: [...(spec.ContainerHierarchyTexts ?? []), spec.LeafNodeText].join(' '),
      state: spec.State,
    }))
}

/** Of ginkgo's report (onsi/ginkgo, types.SpecReport). */
interface Spec {
  readonly LeafNodeType: string
  readonly LeafNodeText: string
  readonly ContainerHierarchyTexts: readonly string[] | null
  readonly State: string
}
