// SPDX-License-Identifier: Apache-2.0
// A real kubelet on a real containerd: pods as files, probed from the node. The configuration comes after the pods, a
// sandbox dies, kubelet starts again under live pods, and nothing is left when the files are gone.
import { readdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Cri, openCri } from '../support/cri.ts'
import { networkStateAt, stateFilesAt, usualStateDir } from '../support/state-layout.ts'
import { must, uplink } from './lab/calls.ts'
import { dropPod, httpGet, putPod, type Seen, seenPods, startKubelet, stopKubelet, whenReady } from './lab/kubelet.ts'
import { type Lab, leftovers, missingParts, openContainerdLab, pluginType, prepareLab } from './lab/lab.ts'

const parts = ['containerd', 'containerd-shim-runc-v2', 'ctr', 'runc', 'kubelet'].map((name) => `bin/${name}`)
const missing = missingParts([...parts, 'cni/loopback', 'images/lab.tar'], 'cni containerd kubelet')
if (pluginType !== 'trestle') console.warn('skipped: the configuration is for trestle')

const podcidr = ['10.88.0.0/24', 'fd00:10:88::/64']
const capabilities = { portMappings: true, bandwidth: true }
const conflist = { cniVersion: '1.1.0', name: 'pods', plugins: [{ type: 'trestle', podcidr, capabilities }] }
const names = Array.from({ length: 10 }, (_, at) => `pod-${at}`)
const annotations = { 'kubernetes.io/ingress-bandwidth': '10M' }

describe.skipIf(missing.length > 0 || pluginType !== 'trestle')('kubelet', { timeout: 300_000 }, () => {
  let lab: Lab
  let cri: Cri
  beforeAll(async () => {
    lab = await openContainerdLab(await prepareLab({}))
    cri = openCri(join(lab.dir, 'containerd.sock'), { timeoutMs: 40_000 })
    await startKubelet(lab)
  })
  afterAll(async () => {
    cri?.close()
    await lab?.close()
  })

  const sandboxes = async () => (await cri.call('ListPodSandbox', {})).items
  /** `restore` would do nothing, once kubelet has done what it does beside. */
  const nothingMissing = () =>
    vi.waitFor(() => must(lab, '/opt/cni/bin/trestle restore --dry-run'), { timeout: 20_000, interval: 500 })
  async function hostPortsAnswer(): Promise<void> {
    for (const at of names.keys())
      for (const target of [`TCP4:${uplink.node[0]}:${18080 + at}`, `TCP6:[${uplink.node[1]}]:${18080 + at}`])
        await vi.waitFor(
          async () => expect(await httpGet(lab, target, { from: 'outside' }), target).toContain('hello from a pod'),
          { timeout: 20_000, interval: 200 },
        )
  }

  it('ten pods wait for the configuration, and are ready when it comes', async () => {
    for (const [at, name] of names.entries()) await putPod(lab, { name, hostPort: 18080 + at, annotations })
    await vi.waitFor(async () => expect(await must(lab, `cat ${lab.dir}/kubelet.log`)).toContain('NetworkNotReady'), {
      timeout: 60_000,
    })
    expect((await seenPods(lab)).filter(({ isReady }: Seen) => isReady)).toEqual([])
    const dir = join(lab.dir, 'root/etc/cni/net.d')
    await writeFile(join(dir, 'new'), JSON.stringify(conflist)) // containerd does not see what is moved in from elsewhere
    await rename(join(dir, 'new'), join(dir, '10-pods.conflist'))
    const pods = await whenReady(lab, names)
    expect(new Set(pods.flatMap(({ addresses }) => addresses)).size).toBe(20)
    await hostPortsAnswer()
    expect((await must(lab, 'tc qdisc show')).match(/qdisc tbf/g)).toHaveLength(10)
  })

  it('pods keep their sandboxes when kubelet starts again', async () => {
    const before = (await sandboxes()).map(({ id }) => id).sort()
    await stopKubelet(lab)
    await startKubelet(lab)
    await whenReady(lab, names)
    expect((await sandboxes()).map(({ id }) => id).sort()).toEqual(before)
    await nothingMissing()
  })

  it('a pod whose sandbox dies comes back with its host port', async () => {
    const restarts = async () => (await seenPods(lab)).find(({ name }) => name === 'pod-3')?.restarts ?? 0
    const before = await restarts()
    const old = (await sandboxes()).find(({ metadata }) => metadata?.name === 'pod-3-lab')?.id ?? ''
    await cri.call('StopPodSandbox', { podSandboxId: old })
    await vi.waitFor(async () => expect(await restarts()).toBeGreaterThan(before), { timeout: 90_000, interval: 200 })
    await whenReady(lab, names)
    await hostPortsAnswer()
    await nothingMissing()
  })

  it('nothing is left of pods whose files are gone', async () => {
    for (const name of names) await dropPod(lab, name)
    // In this order: a DEL under way has taken its record from the finished to the pending ones.
    const records = (['attachments', 'pending'] as const)
      .map(networkStateAt(usualStateDir, 'pods').directoryOf)
      .join(' ')
    await vi.waitFor(async () => expect(await must(lab, `find ${records} -type f`)).toBe(''), { timeout: 90_000 })
    const { veths, rules } = await leftovers(lab)
    expect(veths).toEqual([])
    expect(rules).not.toMatch(/1808\d/)
    expect(await must(lab, `find ${stateFilesAt(usualStateDir).ports} -type f`)).toBe('')
    // libcni forgets a pod when its last plugin has ended.
    const results = () => readdir(join(lab.dir, 'root/var/lib/cni/results'))
    await vi.waitFor(async () => expect(await results()).toEqual([]), { timeout: 30_000 })
  })
})
