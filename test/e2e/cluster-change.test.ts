// SPDX-License-Identifier: Apache-2.0
// Change under load on a real cluster: agents are replaced and put back, kubelet and containerd start again while pods come
// and go; nodes leave, come back with other ranges, and change their address. No ADD fails, and no stream between pods of
// two nodes ends.

import { appendFile, copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { execa } from 'execa'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Cluster, list, missingClusterParts, openCluster, whenAllReady } from './cluster/cluster.ts'
import { type AppPod, answerFrom, appPods, caller, servePods } from './cluster/pods.ts'
import { openStream } from './cluster/streams.ts'

const missing = missingClusterParts()
const nodes = ['node1', 'node2', 'node3']
const agentImage = 'daemonset/trestle-agent'

describe.skipIf(missing.length > 0)('a cluster that changes', { timeout: 900_000 }, () => {
  let cluster: Cluster
  let scratch: string
  beforeAll(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'trestle-cluster-'))
    // TRESTLE_EARLIER: the executable of an earlier build. Without, the same with a byte more: a loader reads no such byte.
    const other = join(scratch, 'trestle')
    await copyFile(process.env['TRESTLE_EARLIER'] ?? 'dist/trestle', other)
    if (process.env['TRESTLE_EARLIER'] === undefined) await appendFile(other, '\n')
    const images = ['now', 'other'].map((tag) => join(scratch, `${tag}.tar`))
    const [now = '', earlier = ''] = images
    await execa(process.execPath, ['scripts/image.mjs', '--out', now])
    await execa(process.execPath, ['scripts/image.mjs', '--out', earlier, '--tag', 'other', '--executable', other])
    cluster = await openCluster({
      ...{ nodes, proxy: 'iptables', images },
      cidrs: ['10.244.0.0/16', 'fd00:10:244::/48'],
      services: ['10.96.0.0/16', 'fd00:10:96::/112'],
    })
    await cluster.kubectl('apply', '-k', join(process.cwd(), 'conf-examples/kubernetes'))
    await whenAllReady(cluster, nodes.length, 'nodes')
    await servePods(cluster, { replicas: 6, nodes: nodes.length, hostPort: 18080 })
  }, 900_000)
  afterAll(async () => {
    await cluster?.close()
    await rm(scratch, { recursive: true, force: true })
  })

  const agents = (...words: readonly string[]) => cluster.kubectl('-n', 'trestle', ...words)
  const rolledOut = async () => {
    const status = async () => await agents('rollout', 'status', agentImage, '--watch=false')
    await vi.waitFor(async () => expect(await status()).toContain('successfully rolled out'), {
      timeout: 180_000,
      interval: 500,
    })
  }
  const podOn = async (node: string): Promise<AppPod> => {
    const found = (await appPods(cluster, 'port')).find((pod) => pod.node === node)
    if (found === undefined) throw new Error(`no pod on ${node}`)
    return found
  }
  const sums = async () => await Promise.all(nodes.map((node) => cluster.must(node, 'sha256sum </opt/cni/bin/trestle')))

  it('replaces and puts back its agents, and starts kubelet and containerd again, while pods come and go', async () => {
    const [one, two] = [await podOn('node1'), await podOn('node2')]
    const streams = await Promise.all(
      two.addresses.map((address) => openStream(cluster, { from: one, to: two, address })),
    )
    let isOver = false
    let rounds = 0
    const churn = (async () => {
      while (!isOver) {
        await cluster.kubectl('rollout', 'restart', 'deployment/web')
        await whenRolled(cluster, 'deployment/web')
        rounds += 1
      }
    })()
    const before = await sums()
    await agents('set', 'image', agentImage, 'agent=localhost/trestle:other')
    await rolledOut()
    const changed = await sums()
    for (const [at, sum] of changed.entries()) expect(sum).not.toBe(before[at])
    await restartKubelet(cluster, 'node1')
    await restartContainerd(cluster, 'node2')
    await agents('rollout', 'undo', agentImage)
    await rolledOut()
    await vi.waitFor(async () => expect(await sums()).toEqual(before), { timeout: 30_000, interval: 500 })
    const seen = rounds
    // Pods that came while everything was in its place again.
    await vi.waitFor(() => expect(rounds).toBeGreaterThan(seen + 1), { timeout: 180_000, interval: 200 })
    isOver = true
    await churn
    await whenAllReady(cluster, nodes.length, 'nodes')
    expect(await failedSandboxes(cluster)).toEqual([])
    for (const stream of streams) {
      const { isWhole, longestGapMs, lines } = await stream.end()
      console.log(`stream: ${lines} lines, longest gap ${longestGapMs} ms; ${rounds} rollouts of 6 pods`)
      expect(isWhole).toBe(true)
    }
    for (const node of nodes) await nothingMissing(cluster, node)
  })

  it('keeps the pods of a node that is registered again with another range, and says to drain it', async () => {
    const [one, three] = [await podOn('node1'), await podOn('node3')]
    const range = async () =>
      (await list(cluster, 'nodes')).find(({ metadata }) => metadata.name === 'node3')?.spec.podCIDRs
    const before = await range()
    const stream = await openStream(cluster, { from: one, to: three, address: three.addresses[0] ?? '' })
    await stopKubelet(cluster, 'node3')
    await cluster.kubectl('delete', 'node', 'node3', '--wait')
    await startKubelet(cluster, 'node3')
    await whenAllReady(cluster, nodes.length, 'nodes')
    const after = await range()
    console.log(`node3 had ${before}, has ${after}`)
    const { isWhole, longestGapMs } = await stream.end()
    console.log(`stream over it: longest gap ${longestGapMs} ms`)
    expect(isWhole).toBe(true)
    const told = async () =>
      await cluster.kubectl('get', 'events', '--field-selector', 'reason=MovedPodCIDR', '-o', 'json')
    await vi.waitFor(async () => expect(await told()).toContain('node3'), { timeout: 30_000, interval: 300 })
    await whenAllReady(cluster, nodes.length, 'pods', '-l', 'app=port')
    const now = await podOn('node3')
    for (const [from, to] of [
      [await podOn('node1'), now],
      [now, await podOn('node2')],
    ] as const)
      for (const [at, address] of to.addresses.entries())
        await vi.waitFor(
          async () => expect(caller(await answerFrom(cluster, from, address))).toBe(from.addresses[at]),
          { timeout: 30_000, interval: 300 },
        )
  })

  it('follows a node that boots again to its new address, and keeps the connections of the others', async () => {
    const [one, three, former] = [await podOn('node1'), await podOn('node3'), await podOn('node2')]
    const stream = await openStream(cluster, { from: one, to: three, address: three.addresses[1] ?? '' })
    const bootId = async () =>
      (await list(cluster, 'nodes')).find(({ metadata }) => metadata.name === 'node2')?.status.nodeInfo?.bootID
    const before = await bootId()
    await cluster.boot('node2', '22')
    await vi.waitFor(async () => expect(await bootId()).not.toBe(before), { timeout: 120_000, interval: 500 })
    const range = former.addresses[0]?.replace(/\d+$/, '0/24') ?? ''
    const toTwo = async () => await cluster.must('node1', `ip route show ${range}`)
    await vi.waitFor(async () => expect(await toTwo()).toContain('via 192.0.2.22'), { timeout: 60_000, interval: 200 })
    await whenAllReady(cluster, nodes.length, 'nodes')
    await whenAllReady(cluster, nodes.length, 'pods', '-l', 'app=port')
    const startedMs = performance.now()
    for (const from of [await podOn('node1'), await podOn('node3')])
      for (const [at, address] of (await podOn('node2')).addresses.entries())
        await vi.waitFor(
          async () => expect(caller(await answerFrom(cluster, from, address))).toBe(from.addresses[at]),
          { timeout: 30_000, interval: 300 },
        )
    console.log(`its new pods answered within ${Math.round(performance.now() - startedMs)} ms of being ready`)
    const { isWhole, longestGapMs } = await stream.end()
    console.log(`stream of the others: longest gap ${longestGapMs} ms`)
    expect(isWhole).toBe(true)
    await nothingMissing(cluster, 'node2')
  })

  it('keeps the routes of a node that is gone, for ten minutes: it may be registered again', async () => {
    await stopKubelet(cluster, 'node3')
    const routes = async () => await cluster.must('node1', 'ip route show proto 116; ip -6 route show proto 116')
    const before = await routes()
    await cluster.kubectl('delete', 'node', 'node3', '--wait')
    await sleep(10_000)
    expect(await routes()).toBe(before)
  })
})

async function whenRolled(cluster: Cluster, what: string): Promise<void> {
  const deadline = performance.now() + 180_000
  while (!(await cluster.kubectl('rollout', 'status', what, '--watch=false')).includes('successfully rolled out')) {
    if (performance.now() > deadline) throw new Error(`${what} was not rolled out`)
    await sleep(200)
  }
}

/** What the kubelets told of sandboxes whose network could not be made. */
async function failedSandboxes(cluster: Cluster): Promise<readonly string[]> {
  const events = JSON.parse(await cluster.kubectl('get', 'events', '-A', '-o', 'json')) as {
    items: { reason: string; message: string }[]
  }
  return events.items
    .filter(
      ({ reason, message }) => /FailedCreatePodSandBox|FailedKillPod/.test(reason) && /cni|network/i.test(message),
    )
    .map(({ message }) => message)
}

const kubeletScript = join(process.cwd(), 'test/e2e/lab/kubelet-start.sh')

async function stopKubelet(cluster: Cluster, node: string): Promise<void> {
  await cluster.must(
    node,
    `p=$(cat ${cluster.dir}/${node}/kubelet.pid); kill $p; while kill -0 $p 2>/dev/null; do sleep 0.05; done`,
  )
}

async function startKubelet(cluster: Cluster, node: string, addresses?: string): Promise<void> {
  const number = Number(node.replace('node', ''))
  const ips = addresses ?? `192.0.2.1${number},2001:db8:0:2::1${number}`
  const env = `LAB_SOCKET=/run/containerd/containerd.sock LAB_KUBECONFIG=${cluster.dir}/pki/${node}.conf LAB_NODE_IPS=${ips}`
  await cluster.must(node, `${env} bash ${kubeletScript} ${cluster.dir}/${node} ${cluster.peers}`)
}

async function restartKubelet(cluster: Cluster, node: string): Promise<void> {
  await stopKubelet(cluster, node)
  await startKubelet(cluster, node)
}

async function restartContainerd(cluster: Cluster, node: string): Promise<void> {
  const dir = `${cluster.dir}/${node}`
  await cluster.must(node, `p=$(cat ${dir}/containerd.pid); kill $p; while kill -0 $p 2>/dev/null; do sleep 0.05; done`)
  const start = `PATH=${cluster.peers}/bin:$PATH nohup containerd --config ${dir}/containerd.toml </dev/null >>${dir}/containerd.log 2>&1 &`
  await cluster.must(node, `${start} echo $! > ${dir}/containerd.pid`)
}

/** `restore` would do nothing, once kubelet has done what it does beside. */
async function nothingMissing(cluster: Cluster, node: string): Promise<void> {
  await vi.waitFor(() => cluster.must(node, '/opt/cni/bin/trestle restore --dry-run'), {
    timeout: 30_000,
    interval: 500,
  })
}
