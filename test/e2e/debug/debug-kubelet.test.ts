// SPDX-License-Identifier: Apache-2.0
// docs/debug.md on a real kubelet, with kubectl: each command of the page, and what it prints. UPDATE_DOCS=1 writes what
// was printed into the page.

import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { followPage } from '../../support/pages/transcript.ts'
import { type Cluster, missingClusterParts, openCluster } from '../cluster/cluster.ts'
import { pluginType } from '../lab/lab.ts'
import { installTools } from '../lab/tools.ts'

const missing = missingClusterParts()
const page = 'docs/debug.md'
const ours = { type: 'trestle', podcidr: '10.240.0.0/24', capabilities: { portMappings: true } }
const pods = JSON.stringify({ cniVersion: '1.0.0', name: 'pods', plugins: [ours] })

describe.skipIf(missing.length > 0 || pluginType !== 'trestle')('docs/debug.md, kubelet', { timeout: 400_000 }, () => {
  let cluster: Cluster
  beforeAll(async () => {
    cluster = await openCluster({
      ...{ nodes: ['node1'], proxy: 'none', images: [] },
      ...{ cidrs: ['10.240.0.0/16'], services: ['10.96.0.0/24'] },
      // Where Debian's package has the plugins.
      env: { LAB_BIN_DIR: '/usr/lib/cni' },
    })
    const { dir, peers } = cluster
    await installTools(dir, '/run/containerd/containerd.sock')
    await copyFile(join(peers, 'bin/kubectl'), join(dir, 'tools/kubectl'))
    await sh(`mkdir -p ${dir}/debian/cni
      mount -t overlay -o lowerdir=${dir}/debian:/usr/lib overlay /usr/lib
      mount -t tmpfs tmpfs /usr/lib/cni
      cp ${peers}/cni/* /usr/lib/cni/
      cp ${dir}/tools/trestle /opt/cni/bin/
      mount -t tmpfs tmpfs /var/log
      mkdir /var/log/pods /run/work
      ln -s ${dir}/node1/kubelet.log /var/log/syslog`)
  })
  afterAll(async () => await cluster?.close())

  const sh = (line: string) => cluster.must('node1', line)
  const shell = async (line: string): Promise<string> => {
    const env = `export KUBECONFIG=${cluster.dir}/pki/admin.conf PATH=${cluster.dir}/tools:$PATH; cd /run/work`
    const { stdout, stderr } = await cluster.on('node1', `${env}; ${line}`)
    const printed = [stdout, stderr].filter((text) => text !== '').join('\n')
    if (process.env['TRESTLE_TEST_SHOW'] === '1') console.log(`$ ${line}\n${printed}`)
    return printed
  }
  const apply = (name: string, hostPort: number) =>
    cluster.apply({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'default' },
      spec: {
        terminationGracePeriodSeconds: 1,
        automountServiceAccountToken: false,
        containers: [
          {
            name: 'web',
            image: 'lab.local/busybox:1',
            imagePullPolicy: 'Never',
            command: ['/bin/httpd', '-f', '-p', '80', '-h', '/www'],
            ports: [{ containerPort: 80, hostPort, protocol: 'TCP' }],
            readinessProbe: { httpGet: { path: '/', port: 80 }, periodSeconds: 1, timeoutSeconds: 10 },
          },
        ],
      },
    })
  const whenTold = (words: string, text: RegExp) =>
    vi.waitFor(async () => expect(await cluster.kubectl(...words.split(' '))).toMatch(text), {
      timeout: 120_000,
      interval: 500,
    })

  it('a file that is no JSON comes first, then the plugin is where containerd does not look', async () => {
    await sh(`echo '{ "cniVersion": "1.0.0", "name": "old", "plugins": [ { "type": "bridge" }, ] }' >/etc/cni/net.d/05-old.conflist
      echo '${pods}' >/etc/cni/net.d/new && mv /etc/cni/net.d/new /etc/cni/net.d/10-pods.conflist`)
    await apply('web', 8080)
    await whenTold('describe node node1', /cni plugin not initialized\n/)
    await followPage(page, '### The node is not ready', shell)
    await whenTold('describe pod web', /failed to find plugin/)
    await followPage(page, '### A pod stays in ContainerCreating', shell)
  })
})
