// SPDX-License-Identifier: Apache-2.0
// `trestle gc` beside a real containerd: sandboxes that CRI lists stay; containers of ctr, which are on no CRI list, are
// judged by their namespace, and ctr forgets the DEL of one whose process has ended.
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { openCri } from '../support/cri.ts'
import { startedLongAgo } from '../support/faults/process-identities.ts'
import { networkStateAt, usualStateDir } from '../support/state-layout.ts'
import { type Lab, missingParts, openContainerdLab, peers, pluginType, prepareLab } from './lab/lab.ts'
import { removePod, runPod } from './lab/pods.ts'

const parts = ['bin/containerd', 'bin/containerd-shim-runc-v2', 'bin/ctr', 'bin/runc', 'cni/loopback', 'images/lab.tar']
const missing = missingParts(parts, 'cni containerd')
if (pluginType !== 'trestle') console.warn('skipped: gc is a command of trestle')
const conflist = { cniVersion: '1.0.0', name: 'e2e', plugins: [{ type: 'trestle', podcidr: '10.88.0.0/28' }] }

interface Judged {
  readonly containerId: string
  readonly verdict: string
  readonly why: string
}

describe.skipIf(missing.length > 0 || pluginType !== 'trestle')('gc with containerd', () => {
  let lab: Lab
  let socket: string
  let snapshotter: string
  beforeAll(async () => {
    const dir = await prepareLab({ '10-e2e.conflist': conflist })
    lab = await openContainerdLab(dir)
    socket = join(dir, 'containerd.sock')
    // As containerd-up.sh chooses it.
    const { stdout } = await lab.run('stat', ['-fc', '%T', dir])
    snapshotter = stdout.trim() === 'overlayfs' ? 'native' : 'overlayfs'
    await ctr('images', 'import', '--snapshotter', snapshotter, join(peers, 'images/lab.tar'))
  })
  afterAll(() => lab?.close())

  /** ctr in the containerd namespace `demo`. */
  const ctr = async (...words: readonly string[]): Promise<string> => {
    const args = ['--address', socket, '--namespace', 'demo', ...words]
    const env = { PATH: `${join(peers, 'bin')}:${process.env['PATH']}` }
    const { stdout, stderr, exitCode } = await lab.run(join(peers, 'bin/ctr'), args, { env })
    expect(exitCode, `ctr ${words.join(' ')}: ${stdout}${stderr}`).toBe(0)
    return stdout
  }
  const runCtr = (id: string) =>
    ctr('run', '-d', '--cni', '--snapshotter', snapshotter, 'lab.local/busybox:1', id, '/bin/sleep', '600')
  const pidOf = async (id: string): Promise<string> => {
    const line = (await ctr('tasks', 'list')).split('\n').find((each) => each.startsWith(`${id} `))
    return line?.split(/ +/)[1] ?? ''
  }
  const gc = async (...words: readonly string[]): Promise<readonly Judged[]> => {
    const args = ['gc', '-o', 'json', '--runtime-endpoint', `unix://${socket}`, ...words]
    const { stdout, stderr } = await lab.run('/opt/cni/bin/trestle', args)
    expect(stderr).toBe('')
    return (JSON.parse(stdout) as { attachments: readonly Judged[] }).attachments
  }
  const verdictOf = async (id: string) => (await gc()).find(({ containerId }) => containerId === id)
  /** As if ADD had been long ago. */
  const makeOld = (id: string) => {
    const change = `s/"startTime":"[0-9]*"/"startTime":"${startedLongAgo}"/; s/"createdAt":"[^"]*"/"createdAt":"2020-01-01T00:00:00Z"/`
    return lab.run('sed', ['-i', change, networkStateAt(usualStateDir, 'e2e').finished(id)])
  }
  /** The process ends, and with it its namespace: nobody calls the plugin. */
  const end = async (id: string): Promise<void> => {
    const pid = await pidOf(id)
    await lab.run('kill', ['-KILL', pid])
    const isThere = async () => (await lab.run('test', ['-e', `/proc/${pid}/ns/net`])).exitCode === 0
    await vi.waitFor(async () => expect(await isThere()).toBe(false), { timeout: 30_000 })
  }

  it('keeps a container of ctr as long as its namespace is there, and then until it is old', async () => {
    await runCtr('web')
    await makeOld('demo-web')
    expect(await verdictOf('demo-web')).toMatchObject({ verdict: 'keep', why: 'its network namespace exists' })
    await end('web')
    expect(await verdictOf('demo-web')).toMatchObject({ verdict: 'collect', why: 'its network namespace is gone' })
    await runCtr('young')
    await end('young')
    await gc('--apply')
    expect(await gc()).toMatchObject([{ containerId: 'demo-young', verdict: 'keep', why: 'younger than five minutes' }])
  })

  it("keeps a pod's sandbox, and one that is unlisted with a namespace is only told", async () => {
    const cri = openCri(socket, { timeoutMs: 40_000 })
    const stranger = 'f'.repeat(64)
    try {
      const pod = await runPod(cri, { name: 'pod' })
      await makeOld(pod.id)
      expect(await verdictOf(pod.id)).toMatchObject({ verdict: 'keep', why: 'the runtime lists it' })
      await lab.run('ip', ['netns', 'add', 'stranger'])
      const env = {
        CNI_COMMAND: 'ADD',
        CNI_CONTAINERID: stranger,
        CNI_NETNS: '/run/netns/stranger',
        CNI_IFNAME: 'eth0',
        CNI_PATH: '/opt/cni/bin',
      }
      const input = JSON.stringify({ cniVersion: '1.0.0', name: 'e2e', ...conflist.plugins[0] })
      const added = await lab.run('/opt/cni/bin/trestle', [], { env, input })
      expect(added.exitCode, added.stdout).toBe(0)
      await makeOld(stranger)
      await gc('--apply')
      expect(await verdictOf(stranger)).toMatchObject({ verdict: 'report' })
      await lab.run('ip', ['netns', 'delete', 'stranger'])
      const why = 'unlisted, and its network namespace is gone'
      expect(await verdictOf(stranger)).toMatchObject({ verdict: 'collect', why })
      await removePod(cri, pod)
    } finally {
      cri.close()
    }
  })

  it('has nothing to collect of a pod whose network has another name by the time of its DEL', async () => {
    const cri = openCri(socket, { timeoutMs: 40_000 })
    const configure = async (name: string): Promise<void> => {
      const file = join(lab.dir, 'root/etc/cni/net.d/10-e2e.conflist')
      await writeFile(`${file}.new`, JSON.stringify({ ...conflist, name }))
      await rename(`${file}.new`, file)
      const loaded = async () => (await cri.call('Status', { verbose: true })).info['cniconfig']
      await vi.waitFor(async () => expect(await loaded()).toContain(`"Name":"${name}"`), { timeout: 30_000 })
    }
    try {
      const pod = await runPod(cri, { name: 'renamed' })
      await configure('other')
      expect(await verdictOf(pod.id)).toMatchObject({ verdict: 'keep', why: 'the runtime lists it' })
      // containerd sends DEL with the name `other`: the container and its interface say whose the record is.
      await removePod(cri, pod)
      expect(await verdictOf(pod.id)).toBeUndefined()
      expect((await lab.run('grep', ['-rl', pod.id, usualStateDir])).stdout).toBe('')
    } finally {
      await configure('e2e')
      cri.close()
    }
  })
})
