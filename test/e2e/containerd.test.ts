// SPDX-License-Identifier: Apache-2.0
// Pods made by a real containerd over CRI. E2E_PLUGIN_TYPE=bridge runs the same with the upstream plugins.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { CriError } from '../support/cri/channel.ts'
import { type Cri, openCri, SandboxState } from '../support/cri.ts'
import { filesNaming, type Lab, leftovers, missingParts, openContainerdLab, pluginType, prepareLab } from './lab/lab.ts'
import { installOutliving } from './lab/outliving.ts'
import { inPod, type Pod, removePod, runPod } from './lab/pods.ts'

const parts = ['bin/containerd', 'bin/containerd-shim-runc-v2', 'bin/ctr', 'bin/runc', 'cni/loopback', 'images/lab.tar']
const missing = missingParts(parts, 'cni containerd')

// A /29: room for the gateway and five pods, so that one address lost shows as a failed pod.
const plugins =
  pluginType === 'trestle'
    ? [{ type: 'trestle', podcidr: '10.88.0.0/29', capabilities: { portMappings: true, bandwidth: true } }]
    : [
        {
          type: 'bridge',
          bridge: 'cni0',
          isDefaultGateway: true,
          hairpinMode: true,
          ipMasq: true,
          ipam: { type: 'host-local', subnet: '10.88.0.0/29' },
        },
        { type: 'portmap', snat: true, capabilities: { portMappings: true } },
        { type: 'bandwidth', capabilities: { bandwidth: true } },
      ]
/** For what a loaded machine takes its time for. */
const patient = { timeout: 20_000, interval: 200 }
const conflist = { cniVersion: '1.0.0', name: 'e2e', plugins }

describe.skipIf(missing.length > 0)(`containerd with ${pluginType}`, () => {
  let lab: Lab
  let cri: Cri

  beforeAll(async () => {
    const dir = await prepareLab({ '10-e2e.conflist': conflist })
    lab = await openContainerdLab(dir)
    cri = openCri(join(dir, 'containerd.sock'), { timeoutMs: 40_000 })
  })

  afterAll(async () => {
    cri?.close()
    await lab?.close()
  })

  /** Runs pods of these names at once; on a failure says what containerd logged. */
  async function runPods(names: readonly string[]): Promise<Pod[]> {
    const settled = await Promise.allSettled(names.map((name) => runPod(cri, { name })))
    const failed = settled.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []))
    if (failed.length > 0) {
      const log = await readFile(join(lab.dir, 'containerd.log'), 'utf8')
      failed.push(...log.split('\n').filter((line) => line.includes('level=error')))
    }
    expect(failed).toEqual([])
    return settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  }

  /** A ping is answered: the first one, or on a loaded machine a later one. */
  async function pinged(from: Pod, address: string): Promise<void> {
    const ping = () => inPod(cri, from, ['ping', '-c', '1', '-W', '2', address])
    await vi.waitFor(async () => expect(await ping(), `ping ${address}`).toMatchObject({ exitCode: 0 }), patient)
  }

  it('finds the runtime and its network ready', async () => {
    const version = await cri.call('Version', {})
    expect(version).toMatchObject({ runtimeName: 'containerd', runtimeApiVersion: 'v1' })
    const { status, info } = await cri.call('Status', { verbose: true })
    // Newer ones add a condition about deprecated settings.
    expect(status?.conditions.slice(0, 2)).toEqual([
      { type: 'RuntimeReady', status: true, reason: '', message: '' },
      { type: 'NetworkReady', status: true, reason: '', message: '' },
    ])
    expect(JSON.parse(info['cniconfig'] ?? '{}')).toMatchObject({
      Networks: expect.arrayContaining([expect.objectContaining({ IFName: 'eth0' })]),
    })
  })

  it('joins pods to each other, their gateway and the outside, and leaves nothing behind', async () => {
    const first = await runPod(cri, { name: 'first', hostPort: 18080 })
    const second = await runPod(cri, { name: 'second' })
    expect([first.address, second.address].sort()).toEqual(['10.88.0.2', '10.88.0.3'])
    for (const destination of ['10.88.0.1', second.address, '192.0.2.1']) {
      await pinged(first, destination)
    }
    // The container runs before its server listens.
    for (const address of ['127.0.0.1', '192.0.2.10'])
      await vi.waitFor(async () => expect(await httpGet(lab, address, 18080)).toContain('hello from a pod'), patient)
    expect(await filesNaming(lab, first.id)).not.toEqual([])

    await removePod(cri, first)
    await removePod(cri, second)
    const { veths, rules } = await leftovers(lab)
    expect(veths).toEqual([])
    for (const pod of [first, second]) {
      expect(rules).not.toContain(pod.id.slice(0, 12))
      expect(rules).not.toMatch(new RegExp(`\\b${pod.address.replaceAll('.', '\\.')}\\b`))
      expect(await filesNaming(lab, pod.id)).toEqual([])
    }
    expect(rules).not.toContain('18080')
  })

  it('makes five pods at once in a range for five, twice, and returns to the same rules', async () => {
    const before = await leftovers(lab)
    for (const round of ['a', 'b']) {
      const pods = await runPods(['1', '2', '3', '4', '5'].map((n) => `${round}${n}`))
      expect(new Set(pods.map((pod) => pod.address)).size).toBe(5)
      const [one, ...others] = pods as [Pod, ...Pod[]]
      for (const other of others) {
        await pinged(one, other.address)
      }
      await Promise.all(pods.map((pod) => removePod(cri, pod)))
      for (const pod of pods) expect(await filesNaming(lab, pod.id)).toEqual([])
    }
    expect(await leftovers(lab)).toEqual(before)
  })

  it.runIf(pluginType === 'trestle')('removes a pod while what the tools of DEL have started lives on', async () => {
    const pod = await runPod(cri, { name: 'outlived' })
    const outliving = await installOutliving(lab)
    try {
      await removePod(cri, pod)
      // containerd sends DEL twice; the second one finds no link.
      expect(await outliving.count()).toEqual({ left: 1, living: 1 })
      expect((await leftovers(lab)).veths).toEqual([])
      expect(await filesNaming(lab, pod.id)).toEqual([])
    } finally {
      await outliving.remove()
    }
  })

  it("limits a pod's traffic as its annotations say, and takes the limit back", async () => {
    const annotations = { 'kubernetes.io/ingress-bandwidth': '10M', 'kubernetes.io/egress-bandwidth': '5M' }
    const pod = await runPod(cri, { name: 'limited', annotations })
    const { stdout } = await lab.run('tc', ['qdisc', 'show'])
    expect(
      stdout
        .match(/qdisc tbf .* rate \S+/g)
        ?.map((line) => line.split(' rate ')[1])
        .sort(),
    ).toEqual(['10Mbit', '5Mbit'])
    await pinged(pod, '10.88.0.1')
    await removePod(cri, pod)
    expect((await lab.run('tc', ['qdisc', 'show'])).stdout).not.toContain('tbf')
    expect((await lab.run('ip', ['-br', 'link', 'show', 'type', 'ifb'])).stdout).toBe('')
  })

  it('lists live sandboxes with the netns that garbage collection needs', async () => {
    const pod = await runPod(cri, { name: 'listed' })
    const { items } = await cri.call('ListPodSandbox', { filter: { state: { state: SandboxState.ready } } })
    expect(items.map(({ id, metadata }) => [id, metadata?.name, metadata?.namespace])).toEqual([
      [pod.id, 'listed', 'default'],
    ])
    const { info } = await cri.call('PodSandboxStatus', { podSandboxId: pod.id, verbose: true })
    expect(info['info']).toMatch(/\/var\/run\/netns\/cni-/)
    const { containers } = await cri.call('ListContainers', { filter: { podSandboxId: pod.id } })
    expect(containers.map(({ id, podSandboxId }) => [id, podSandboxId])).toEqual([[pod.container, pod.id]])
    await removePod(cri, pod)
    const gone = await cri.call('PodSandboxStatus', { podSandboxId: pod.id }).catch((error: unknown) => error)
    expect(gone).toBeInstanceOf(CriError)
    expect(gone).toMatchObject({ code: 'NOT_FOUND', method: 'PodSandboxStatus' })
  })
})

/** The answer to one GET, with nothing but bash: a static busybox has no resolver for its wget. */
async function httpGet(lab: Lab, address: string, port: number): Promise<string> {
  const script = `exec 3<>/dev/tcp/${address}/${port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && timeout 5 cat <&3`
  const { stdout, stderr } = await lab.run('timeout', ['5', 'bash', '-c', script])
  return stdout + stderr
}
