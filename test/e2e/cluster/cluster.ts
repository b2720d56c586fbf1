// SPDX-License-Identifier: Apache-2.0
// A real cluster on private machines: etcd, API server, controller-manager and scheduler on one, and nodes with containerd
// and kubelet on the same segment. Its nodes have no network plugin: that is what the tests bring.

import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, vi } from 'vitest'
import { type Lab, missingParts, openLab, peers, prepareLab, type Ran } from '../lab/lab.ts'

const controlPlane = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubectl']
const ofNodes = ['kubelet', 'kube-proxy', 'containerd', 'containerd-shim-runc-v2', 'ctr', 'runc']

/** What of a cluster is missing, each told; with the reason where nobody asked for one. */
export function missingClusterParts(): readonly string[] {
  if (process.env['TRESTLE_TEST_CLUSTER'] !== '1') {
    const reason = 'TRESTLE_TEST_CLUSTER=1 runs it: its programs take minutes to build'
    console.warn(`skipped, a cluster of three nodes: ${reason}`)
    return [reason]
  }
  const parts = [...controlPlane, ...ofNodes].map((name) => `bin/${name}`)
  return missingParts([...parts, 'cni/loopback', 'images/lab.tar'], 'cni containerd kubelet kube-proxy control-plane')
}

export interface ClusterOptions {
  readonly nodes: readonly string[]
  readonly proxy: 'nftables' | 'iptables' | 'none'
  readonly cidrs: readonly string[]
  readonly services: readonly string[]
  /** Archives that containerd imports on each node. */
  readonly images: readonly string[]
  /** For the scripts of the nodes (node.sh, containerd-up.sh). */
  readonly env?: Readonly<Record<string, string>>
}

/** The control plane's address in the family of Services, which is the cluster's first one. */
export const siteAddress = (services: readonly string[]): string =>
  services[0]?.includes(':') === true ? '2001:db8:0:2::1' : '192.0.2.1'

export interface Cluster {
  readonly dir: string
  /** Where programs are. */
  readonly peers: string
  /** kubectl as administrator. Throws where it fails. */
  kubectl(...words: readonly string[]): Promise<string>
  /** Hands kubectl an object of Kubernetes. */
  apply(object: object): Promise<string>
  /** Runs a line of bash on the control plane's machine, which is outside of the nodes. */
  outside(line: string): Promise<Ran>
  /** Runs a line of bash on a node. */
  on(node: string, line: string): Promise<Ran>
  /** The same, where it may not fail; what it printed. */
  must(node: string, line: string): Promise<string>
  /** Ends a node's machine at once, and starts it again, as a boot: disks stay. `host`: LAB_HOST of node.sh. */
  boot(node: string, host: string): Promise<void>
  close(): Promise<void>
}

/** Starts one. It comes back when every node has its ranges, and no network. */
export async function openCluster(options: ClusterOptions): Promise<Cluster> {
  const { nodes, proxy, cidrs, services, images } = options
  const api = siteAddress(services)
  const dir = await prepareLab({})
  await writeCredentials(dir, nodes, api.includes(':') ? `https://[${api}]:6443` : `https://${api}:6443`)
  for (const node of nodes) await mkdir(join(dir, node))
  const script = fileURLToPath(new URL('up.sh', import.meta.url))
  const command = ['bash', script, dir, peers, cidrs.join(','), services.join(','), proxy, ...nodes]
  const base = { LAB_UPLINK: 'no', LAB_NAME: 'site', LAB_IMAGES: images.join(' '), LAB_API: api }
  const env = { ...base, ...options.env }
  const site = await openLab(dir, { command, ready: 'cluster ready', env })
  const kubeconfig = join(dir, 'pki/admin.conf')
  const kubectl = async (...words: readonly string[]): Promise<string> => {
    const ran = await site.run(join(peers, 'bin/kubectl'), ['--kubeconfig', kubeconfig, ...words])
    if (ran.exitCode !== 0) throw new Error(`kubectl ${words.join(' ')}: ${ran.stderr}`)
    return ran.stdout
  }
  const on = (node: string, line: string) => onNode(site, node, line)
  return {
    dir,
    peers,
    kubectl,
    on,
    async apply(object) {
      const args = ['--kubeconfig', kubeconfig, 'apply', '-f', '-']
      const ran = await site.run(join(peers, 'bin/kubectl'), args, { input: JSON.stringify(object) })
      if (ran.exitCode !== 0) throw new Error(`kubectl apply: ${ran.stderr}`)
      return ran.stdout
    },
    outside: (line) => site.run('bash', ['-c', line]),
    async must(node, line) {
      const ran = await on(node, line)
      expect(ran.exitCode, `${node}: ${line}: ${ran.stdout}${ran.stderr}`).toBe(0)
      return ran.stdout
    },
    async boot(node, host) {
      const number = `${nodes.indexOf(node) + 1}`
      const script = fileURLToPath(new URL('node.sh', import.meta.url))
      const gone = `kill -9 $(cat ${dir}/${node}/pid); until [ -z "$(ip netns pids ${node})" ]; do sleep 0.1; done; ip netns del ${node}
        while ip link show ${node}; do sleep 0.1; done; rm ${dir}/${node}/up.log ${dir}/${node}/kubelet.pid`
      // nsenter(1) leaves a process in its own control group.
      const groups =
        '[ -e /sys/fs/cgroup/cgroup.controllers ] && groups=init || groups=*; for each in /sys/fs/cgroup/$groups/cgroup.procs; do echo $BASHPID > $each; done'
      const start = `(${groups}; tail -f /dev/null | bash ${script} ${dir} ${peers} ${node} ${number} ${proxy}) </dev/null >>${dir}/${node}.out 2>&1 &`
      const boot = { LAB_CIDRS: cidrs.join(','), LAB_HOST: host, LAB_BOOT_ID: randomUUID() }
      const up = `for i in $(seq 500); do [ -s ${dir}/${node}/kubelet.pid ] && exit 0; sleep 0.1; done; tail -n 20 ${dir}/${node}.out ${dir}/${node}/*.log; exit 1`
      const ran = await site.run('bash', ['-c', `${gone}\n${start}\n${up}`], { env: { ...env, ...boot } })
      expect(ran.exitCode, ran.stdout + ran.stderr).toBe(0)
    },
    close: () => site.close(),
  }
}

/** A node is a machine inside that of the control plane: its process id is of there. */
async function onNode(site: Lab, node: string, line: string): Promise<Ran> {
  const init = (await readFile(join(site.dir, node, 'pid'), 'utf8')).trim()
  const all = ['--net', '--mount', '--pid', '--uts', '--ipc', '--cgroup', '--wd=/']
  return await site.run('nsenter', ['--target', init, ...all, '--', 'bash', '-c', line])
}

/** Who there is, and in which groups; kubeconfigs carry a token. */
async function writeCredentials(dir: string, nodes: readonly string[], server: string): Promise<void> {
  const pki = join(dir, 'pki')
  await mkdir(pki)
  const users = [
    { name: 'admin', user: 'admin', groups: 'system:masters' },
    { name: 'kcm', user: 'system:kube-controller-manager', groups: '' },
    { name: 'sched', user: 'system:kube-scheduler', groups: '' },
    { name: 'proxy', user: 'system:kube-proxy', groups: '' },
    ...nodes.map((name) => ({ name, user: `system:node:${name}`, groups: 'system:nodes' })),
  ]
  const lines: string[] = []
  for (const { name, user, groups } of users) {
    const token = randomUUID()
    lines.push(`${token},${user},${user},"${groups}"`)
    const cluster = { server, 'certificate-authority': join(pki, 'apiserver.crt') }
    const kubeconfig = {
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'lab' },
      clusters: [{ name: 'lab', cluster }],
      users: [{ name: 'lab', user: { token } }],
      contexts: [{ name: 'lab', context: { cluster: 'lab', user: 'lab' } }],
    }
    await writeFile(join(pki, `${name}.conf`), JSON.stringify(kubeconfig))
  }
  await writeFile(join(pki, 'tokens.csv'), `${lines.join('\n')}\n`)
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  await writeFile(join(pki, 'sa.key'), privateKey.export({ type: 'pkcs1', format: 'pem' }))
}

interface Conditioned {
  readonly metadata: { readonly name: string }
  readonly status: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
    readonly nodeInfo?: { readonly bootID: string }
    readonly podIPs?: readonly { readonly ip: string }[]
    readonly addresses?: readonly { readonly type: string; readonly address: string }[]
  }
  readonly spec: { readonly nodeName?: string; readonly podCIDRs?: readonly string[] }
}

/** Objects of a kind, as the API server has them. */
export async function list(cluster: Cluster, ...words: readonly string[]): Promise<readonly Conditioned[]> {
  return (JSON.parse(await cluster.kubectl('get', ...words, '-o', 'json')) as { items: Conditioned[] }).items
}

/** Whether the condition Ready is true. */
export function isReady({ status }: Conditioned): boolean {
  return status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false
}

/** Waits until as many objects are ready, and all are; returns them. */
export async function whenAllReady(cluster: Cluster, count: number, ...words: readonly string[]) {
  return await vi.waitFor(
    async () => {
      const found = await list(cluster, ...words)
      expect(found.filter(isReady).map(({ metadata }) => metadata.name)).toHaveLength(count)
      expect(found).toHaveLength(count)
      return found
    },
    { timeout: 180_000, interval: 300 },
  )
}
