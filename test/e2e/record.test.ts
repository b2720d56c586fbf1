// SPDX-License-Identifier: Apache-2.0
// docs/record.md on a real containerd and kubelet: each command of the page, and what it prints. UPDATE_DOCS=1 writes
// what was printed into the page.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { followPage } from '../support/pages/transcript.ts'
import { must } from './lab/calls.ts'
import { putPod, startKubelet } from './lab/kubelet.ts'
import { type Lab, missingParts, openContainerdLab, pluginType, prepareLab } from './lab/lab.ts'
import { installTools } from './lab/tools.ts'

const parts = ['containerd', 'containerd-shim-runc-v2', 'ctr', 'runc', 'kubelet'].map((name) => `bin/${name}`)
const missing = missingParts([...parts, 'cni/loopback', 'images/lab.tar'], 'cni containerd kubelet')

const page = 'docs/record.md'
const list = (name: string, plugin: object) => ({ cniVersion: '1.1.0', name, plugins: [plugin] })
const ipam = (subnet: string) => ({ type: 'host-local', ranges: [[{ subnet }]], routes: [{ dst: '0.0.0.0/0' }] })
const bridge = { type: 'bridge', bridge: 'cni0', isGateway: true, ipMasq: true, ipam: ipam('10.85.0.0/24') }

describe.skipIf(missing.length > 0 || pluginType !== 'trestle')('docs/record.md', { timeout: 300_000 }, () => {
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
    await file('web-pod.json', { metadata, hostname: 'web', port_mappings: [{ container_port: 80, host_port: 8080 }] })
    const command = ['/bin/httpd', '-f', '-p', '80', '-h', '/www']
    await file('web.json', { metadata: { name: 'web' }, image: { image: 'lab.local/busybox:1' }, command })
  }
  const file = (name: string, content: object) => must(lab, `tee /run/work/${name}`, JSON.stringify(content))

  const shell = async (line: string): Promise<string> => {
    const { stdout, stderr } = await lab.run('bash', ['-c', `cd /run/work; PATH=${lab.dir}/tools:$PATH; ${line}`])
    const printed = [stdout, stderr].filter((text) => text !== '').join('\n')
    if (process.env['TRESTLE_TEST_SHOW'] === '1') console.log(`$ ${line}\n${printed}`)
    // These are of this machine.
    return (
      printed
        .replace(/^( +PATH=).*$/gm, '$1/usr/sbin:/usr/bin:/sbin:/bin')
        .replace(/^( +and, by name only:).*$/gm, '$1 HOME LANG')
        // containerd takes them from a map.
        .replace(/(?<=CNI_ARGS=).*/g, (pairs) => pairs.split(';').toSorted().join(';'))
    )
  }
  const differs = async (line: string) => expect(await shell(line)).toMatch(/DIFF +exit status\n +- 1\n +\+ 0\n/)

  it('a dummy plugin', async () => {
    const answer = {
      ADD: { interfaces: [{ name: 'eth0', sandbox: '/' }], ips: [{ address: '10.1.1.9/24', interface: 0 }] },
      STATUS: {},
    }
    const dummy = { type: 'trestle', ipam: ipam('10.1.1.0/24'), record: { answer } }
    await start(list('net', { type: 'loopback' }), { 'dummy.conflist': list('net', dummy) })
    await followPage(page, '### A dummy plugin', shell)
  })

  it('a call of another plugin that fails', async () => {
    const wrapped = { ...bridge, type: 'trestle', record: { wrap: 'bridge' } }
    await start(list('net', wrapped), { 'mended.conflist': list('net', { ...wrapped, bridge: 'cni1' }) })
    await must(lab, 'ip link add cni0 up type bridge')
    await must(lab, 'ip address add 10.1.0.1/16 dev cni0')
    await followPage(page, '### A call of another plugin that fails', shell)
    const mended = '#!/bin/sh\nip address flush dev cni0\nexec /opt/cni/bin/bridge\n'
    await writeFile(join(lab.dir, 'mended'), mended, { mode: 0o755 })
    await differs(`trestle replay --against ${lab.dir}/mended`)
    await must(lab, `install ${lab.dir}/mended /run/work/bridge`)
    await differs('trestle replay --against bridge')
    // What the replays have done to cni0 they have done to their own.
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
    await followPage(page, '### A static pod that does not start', shell)
  })
})
