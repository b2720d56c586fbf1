// SPDX-License-Identifier: Apache-2.0
// docs/debug.md on a real containerd without kubelet: each command of the page, and what it prints. UPDATE_DOCS=1 writes
// what was printed into the page.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { startedLongAgo } from '../../support/faults/process-identities.ts'
import { followPage } from '../../support/pages/transcript.ts'
import { networkStateAt, usualStateDir } from '../../support/state-layout.ts'
import { must } from '../lab/calls.ts'
import { type Lab, missingParts, openContainerdLab, peers, pluginType, prepareLab } from '../lab/lab.ts'
import { installTools } from '../lab/tools.ts'

const parts = ['containerd', 'containerd-shim-runc-v2', 'ctr', 'runc', 'cnitool'].map((name) => `bin/${name}`)
const missing = missingParts([...parts, 'cni/loopback', 'images/lab.tar'], 'cni containerd')

const page = 'docs/debug.md'
const ours = { type: 'trestle', podcidr: '10.240.0.0/24', capabilities: { portMappings: true } }
const pods = { cniVersion: '1.0.0', name: 'pods', plugins: [ours] }
/** As containerd's own instructions make it: a bridge of the name that Kubernetes' plugins use. */
const upstream = (name: string, subnet: string) => ({
  cniVersion: '1.0.0',
  name,
  plugins: [
    {
      type: 'bridge',
      bridge: 'cni0',
      isGateway: true,
      ipMasq: true,
      hairpinMode: true,
      ipam: { type: 'host-local', ranges: [[{ subnet }]], routes: [{ dst: '0.0.0.0/0' }] },
    },
    { type: 'portmap', capabilities: { portMappings: true } },
  ],
})

describe.skipIf(missing.length > 0 || pluginType !== 'trestle')(
  'docs/debug.md, containerd',
  { timeout: 300_000 },
  () => {
    let lab: Lab
    afterEach(async () => await lab?.close())

    const socket = '/run/containerd/containerd.sock'
    /** A node that starts with this configuration. */
    async function start(name: string, list: object): Promise<void> {
      const dir = await prepareLab({ [name]: list })
      await installTools(dir, socket)
      lab = await openContainerdLab(dir, { LAB_SOCKET: socket })
      await sh(`mount -t tmpfs tmpfs /var/log && mkdir /var/log/pods && ln -s ${dir}/containerd.log /var/log/syslog`)
      await sh(`mkdir /run/work`)
      await podFile('web', 8080)
      await podFile('db', 8081)
      await shell('crictl run db.json db-pod.json')
    }

    const shell = async (line: string): Promise<string> => {
      const { stdout, stderr } = await lab.run('bash', ['-c', `cd /run/work; PATH=${lab.dir}/tools:$PATH; ${line}`])
      const printed = [stdout, stderr].filter((text) => text !== '').join('\n')
      if (process.env['TRESTLE_TEST_SHOW'] === '1') console.log(`$ ${line}\n${printed}`)
      return printed
    }
    const sh = (line: string) => must(lab, 'bash -es', line)
    const conf = (name: string, list: object) =>
      writeFile(join(lab.dir, 'root/etc/cni/net.d', name), JSON.stringify(list))
    async function podFile(name: string, hostPort: number): Promise<void> {
      const metadata = { name, namespace: 'default', uid: name }
      const pod = { metadata, hostname: name, port_mappings: [{ container_port: 80, host_port: hostPort }] }
      const command = ['/bin/httpd', '-f', '-p', '80', '-h', '/www']
      const container = { metadata: { name }, image: { image: 'lab.local/busybox:1' }, command }
      await sh(`cat >/run/work/${name}-pod.json <<'FILE'\n${JSON.stringify(pod)}\nFILE\n
      cat >/run/work/${name}.json <<'FILE'\n${JSON.stringify(container)}\nFILE`)
    }
    /** containerd uses what is in its directory now: its answer has the network's name. */
    const whenLoaded = (network: string) =>
      vi.waitFor(async () => expect(await sh(`${lab.dir}/tools/crictl info`)).toContain(network), { timeout: 20_000 })

    it('another network whose file comes first', async () => {
      await start('10-pods.conflist', pods)
      await conf('10-containerd-net.conflist', upstream('containerd-net', '10.88.0.0/16'))
      await whenLoaded('"containerd-net"')
      await followPage(page, '### Another network comes first', shell)
    })

    it('addresses of pods that are gone', async () => {
      await start('10-net.conflist', upstream('net', '10.85.0.0/29'))
      // Their namespaces are gone since an hour, and nobody has called DEL.
      for (const pod of ['1', '2', '3', '4'])
        await sh(
          `ip netns add lost${pod}; CNI_PATH=/opt/cni/bin ${peers}/bin/cnitool add net /run/netns/lost${pod}; ip netns delete lost${pod}`,
        )
      await sh("find /var/lib/cni/networks/net -name '10.*' -exec touch -d '1 hour ago' {} +")
      await followPage(page, '### Addresses of pods that are gone', shell)
    })

    it('addresses of pods that no runtime lists, in namespaces that exist', async () => {
      await start('10-pods.conflist', {
        ...pods,
        cniVersion: '1.1.0',
        plugins: [{ ...ours, podcidr: '10.240.0.0/29' }],
      })
      for (const pod of ['1', '2', '3', '4'])
        await sh(`ip netns add lost${pod}; CNI_PATH=/opt/cni/bin ${peers}/bin/cnitool add pods /run/netns/lost${pod}`)
      const old = `s/"startTime":"[0-9]+"/"startTime":"${startedLongAgo}"/; s/"createdAt":"20[0-9]{2}/"createdAt":"2020/`
      await sh(`sed -i -E '${old}' ${networkStateAt(usualStateDir, 'pods').directoryOf('attachments')}/cnitool-*`)
      await followPage(page, '### Addresses that nobody gives back', shell)
    })
  },
)
