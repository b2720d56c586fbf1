// SPDX-License-Identifier: Apache-2.0
// Records and replays of calls that a real containerd and kubelet make: a dummy plugin, another plugin that is wrapped,
// and a static pod whose failed call was kept unasked.

import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { must } from './lab/calls.ts'
import { putPod, startKubelet } from './lab/kubelet.ts'
import { type Lab, missingParts, openContainerdLab, pluginType, prepareLab } from './lab/lab.ts'
import { installTools } from './lab/tools.ts'

const parts = ['containerd', 'containerd-shim-runc-v2', 'ctr', 'runc', 'kubelet'].map((name) => `bin/${name}`)
const missing = missingParts([...parts, 'cni/loopback', 'images/lab.tar'], 'cni containerd kubelet')

const list = (name: string, plugin: object) => ({ cniVersion: '1.1.0', name, plugins: [plugin] })
const ipam = (subnet: string) => ({ type: 'host-local', ranges: [[{ subnet }]], routes: [{ dst: '0.0.0.0/0' }] })
const bridge = { type: 'bridge', bridge: 'cni0', isGateway: true, ipMasq: true, ipam: ipam('10.85.0.0/24') }

describe.skipIf(missing.length > 0 || pluginType !== 'trestle')(
  'records of a real runtime',
  { timeout: 300_000 },
  () => {
    let lab: Lab
    afterEach(async () => await lab?.close())

    /** A node that starts with this configuration, and has the others in the directory of the page's shell. */
    async function start(first: object, others: Readonly<Record<string, object>> = {}): Promise<void> {
      const dir = await prepareLab({ '10-net.conflist': first })
      await installTools(dir, join(dir, 'containerd.sock'))
      lab = await openContainerdLab(dir)
      await must(lab, 'mkdir /run/work')
      for (const [name, content] of Object.entries(others)) await file(name, content)
      const metadata = { name: 'web', namespace: 'default', uid: 'web' }
      await file('web-pod.json', {
        metadata,
        hostname: 'web',
        port_mappings: [{ container_port: 80, host_port: 8080 }],
      })
      const command = ['/bin/httpd', '-f', '-p', '80', '-h', '/www']
      await file('web.json', { metadata: { name: 'web' }, image: { image: 'lab.local/busybox:1' }, command })
    }
    const file = (name: string, content: object) => must(lab, `tee /run/work/${name}`, JSON.stringify(content))

    const shell = async (line: string): Promise<string> => {
      const { stdout, stderr } = await lab.run('bash', ['-c', `cd /run/work; PATH=${lab.dir}/tools:$PATH; ${line}`])
      return `${stdout}${stderr}`
    }
    const runPod = () => shell('crictl run web.json web-pod.json')

    it('a dummy plugin says what the runtime hands over', async () => {
      const answer = {
        ADD: { interfaces: [{ name: 'eth0', sandbox: '/' }], ips: [{ address: '10.1.1.9/24', interface: 0 }] },
        STATUS: {},
      }
      await start(list('net', { type: 'trestle', ipam: ipam('10.1.1.0/24'), record: { answer } }))
      await runPod()
      const listed = await shell('trestle record list')
      const [, id = ''] = /^(\S+) .*ADD +default\/web +net +succeeded \(answer given\)/m.exec(listed) ?? []
      expect(id, listed).not.toBe('')
      const shown = await shell(`trestle record show ${id}`)
      for (const text of ['CNI_COMMAND=ADD', 'CNI_IFNAME=eth0', 'K8S_POD_NAME=web', '"10.1.1.0/24"', '10.1.1.9/24'])
        expect(shown).toContain(text)
    })

    it('a call of another plugin that fails is kept, and its replay touches nothing of the node', async () => {
      await start(list('net', { ...bridge, type: 'trestle', record: { wrap: 'bridge' } }))
      await must(lab, 'ip link add cni0 up type bridge')
      await must(lab, 'ip address add 10.1.0.1/16 dev cni0')
      expect(await runPod()).toContain('already has an IP address')
      expect(await shell('trestle last')).toContain('already has an IP address')
      // In a namespace of its own there is no such bridge: the call succeeds there.
      expect(await shell('trestle replay')).toMatch(/DIFF +exit status\n +- 1\n +\+ 0\n/)
      expect(await must(lab, 'ip -br address show dev cni0')).toContain('10.1.0.1/16')
    })

    it('a static pod that does not start', async () => {
      const capabilities = { portMappings: true }
      await start(list('pods', { type: 'trestle', podcidr: '10.240.0.0/24', capabilities }))
      await startKubelet(lab)
      await shell('trestle add pods test --port 8080:80')
      await putPod(lab, { name: 'web', hostPort: 8080 })
      await vi.waitFor(async () => expect(await shell('trestle last')).toContain('port-reserved'), {
        timeout: 120_000,
        interval: 500,
      })
      expect(await shell('trestle last')).toContain('default/web')
    })
  },
)
