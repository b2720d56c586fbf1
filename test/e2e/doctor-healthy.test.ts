// SPDX-License-Identifier: Apache-2.0
// Nodes on which nothing is wrong, as those who set them up leave them: `trestle doctor` says nothing above a note.

import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Cri, openCri } from '../support/cri.ts'
import { usualStateDir } from '../support/state-layout.ts'
import { must } from './lab/calls.ts'
import { type Lab, missingParts, openBareLab, openContainerdLab, peers, pluginType, prepareLab } from './lab/lab.ts'
import { type Pod, removePod, runPod } from './lab/pods.ts'

const parts = ['containerd', 'containerd-shim-runc-v2', 'ctr', 'runc', 'cnitool'].map((name) => `bin/${name}`)
const missing = missingParts([...parts, 'cni/bridge', 'images/lab.tar'], 'cni containerd')
const missingDocker = missingParts(['debian/docker'], 'docker')
const isOurs = pluginType === 'trestle'

const script = (name: string) => fileURLToPath(new URL(`lab/${name}`, import.meta.url))

interface Said {
  readonly findings: readonly { readonly id: string; readonly severity: string }[]
  readonly uses: readonly { readonly runtime: string; readonly confDir: string }[]
  readonly exitCode: number
}

/** Nothing above a note, and runtimes use these directories. A runtime sees a new file when it likes. */
const isFine = (lab: Lab, directories: readonly string[]) =>
  vi.waitFor(
    async () => {
      const { stdout, stderr } = await lab.run('/opt/cni/bin/trestle', ['doctor', '-o', 'json'])
      const { findings, uses, exitCode } = JSON.parse(stdout || `{"findings":"${stderr}"}`) as Said
      const found = findings.filter(({ severity }) => severity !== 'note')
      const used = uses.filter(({ runtime }) => runtime !== 'no runtime found').map(({ confDir }) => confDir)
      expect({ exitCode, found, used }).toEqual({ exitCode: 0, found: [], used: directories })
    },
    { timeout: 30_000, interval: 500 },
  )

describe.skipIf(missing.length > 0 || !isOurs)(
  'nothing is wrong on a node with containerd and',
  { timeout: 200_000 },
  () => {
    let lab: Lab
    let cri: Cri
    const [conf, bin] = ['/etc/cni/net.d', '/opt/cni/bin']
    const pods: Pod[] = []
    beforeAll(async () => {
      lab = await openContainerdLab(await prepareLab({}))
      cri = openCri(join(lab.dir, 'containerd.sock'), { timeoutMs: 40_000 })
    })
    afterAll(async () => {
      cri?.close()
      await lab?.close()
    })
    afterEach(async () => {
      for (const pod of pods.splice(0)) await removePod(cri, pod)
      await must(lab, `bash ${script('layouts/clear.sh')} ${conf} ${lab.dir} ${usualStateDir}`)
    })

    /** A list, when containerd has taken it, and two pods by it. */
    async function withPods(list: object): Promise<void> {
      const directory = join(lab.dir, 'root', conf)
      await writeFile(join(directory, 'new'), JSON.stringify(list))
      await rename(join(directory, 'new'), join(directory, '10-pods.conflist'))
      await isFine(lab, [conf])
      for (const name of ['one', 'two'])
        pods.push(await runPod(cri, { name, ...(name === 'one' ? { hostPort: 18081 } : {}) }))
    }
    const layout = (name: string, ...words: readonly string[]) =>
      must(lab, ['bash', script(`layouts/${name}.sh`), conf, bin, peers, ...words].join(' '))

    it('trestle', async () => {
      const podcidr = ['10.80.0.0/24', 'fd00:10:80::/64']
      const plugin = { type: 'trestle', podcidr, capabilities: { portMappings: true } }
      await withPods({ cniVersion: '1.1.0', name: 'pods', plugins: [plugin] })
      await isFine(lab, [conf])
    })

    it('the upstream chain', async () => {
      const ipam = { type: 'host-local', ranges: [[{ subnet: '10.83.0.0/24' }]], routes: [{ dst: '0.0.0.0/0' }] }
      const bridge = { type: 'bridge', bridge: 'cni0', isGateway: true, ipMasq: true, hairpinMode: true, ipam }
      const portmap = { type: 'portmap', capabilities: { portMappings: true } }
      await withPods({ cniVersion: '1.0.0', name: 'pods', plugins: [bridge, portmap, { type: 'firewall' }] })
      await isFine(lab, [conf])
    })

    it("flannel's layout", async () => {
      await layout('flannel', '10.244')
      await isFine(lab, [conf])
    })

    it("Calico's layout", async () => {
      await layout('calico')
      await isFine(lab, [conf])
    })

    it("Cilium's layout", async () => {
      await layout('cilium', lab.dir)
      await isFine(lab, [conf])
    })
  },
)

describe.skipIf(missing.length > 0 || !isOurs)('nothing is wrong on a node', { timeout: 200_000 }, () => {
  let lab: Lab | undefined
  afterEach(async () => {
    await lab?.close()
    lab = undefined
  })

  it('with nothing', async () => {
    lab = await openBareLab(await prepareLab({}))
    await isFine(lab, [])
  })

  it.skipIf(missingDocker.length > 0)('with Docker only', async () => {
    lab = await openBareLab(await prepareLab({}), ['debian/docker'])
    await must(lab, `bash ${script('docker-start.sh')} ${lab.dir}`)
    await isFine(lab, [])
  })

  it("with k3s' layout", async () => {
    lab = await openBareLab(await prepareLab({}))
    await must(lab, `bash ${script('k3s-start.sh')} ${lab.dir} ${peers}`)
    await isFine(lab, ['/var/lib/rancher/k3s/agent/etc/cni/net.d'])
  })
})
