// SPDX-License-Identifier: Apache-2.0
// What `trestle lint` says each runtime will use, against the runtimes themselves: containerd and cnitool on a private
// machine, with the same directory.
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Cri, openCri } from '../support/cri.ts'
import { type Lab, missingParts, openContainerdLab, peers, pluginType, prepareLab } from './lab/lab.ts'
import { clear, directories, type Files, lint, list, marker, put, type Said } from './lab/net-dirs.ts'
import { runPod } from './lab/pods.ts'

const parts = [
  'bin/containerd',
  'bin/containerd-shim-runc-v2',
  'bin/ctr',
  'bin/runc',
  'bin/cnitool',
  'cni/loopback',
  'images/lab.tar',
]
const missing = missingParts(parts, 'cni containerd')
if (pluginType !== 'trestle') missing.push('this file is about trestle')

describe.skipIf(missing.length > 0)('lint says what the runtimes do', () => {
  let lab: Lab
  let cri: Cri
  let etc: string
  let dir: string

  beforeAll(async () => {
    const scratch = await prepareLab({})
    await writeFile(join(scratch, 'root/opt/cni/bin/marker'), marker, { mode: 0o755 })
    lab = await openContainerdLab(scratch)
    cri = openCri(join(scratch, 'containerd.sock'), { timeoutMs: 40_000 })
    etc = join(scratch, 'root/etc/cni')
    dir = join(etc, 'net.d')
  })
  afterAll(async () => {
    cri?.close()
    await lab?.close()
  })
  // The next test's files are not to be taken for those of this one.
  afterEach(async () => {
    await clear(etc)
    // One of the tests ends containerd.
    await settled(undefined).catch(() => undefined)
  })

  /** The file of the network that containerd has loaded, as its marker says, or undefined; and why not. */
  async function loaded(): Promise<{ file: string | undefined; reason: string }> {
    const { info } = await cri.call('Status', { verbose: true })
    const found = /\\"from\\":\\"([^"\\]+)\\"/.exec(info['cniconfig'] ?? '')?.[1]
    return { file: found, reason: info['lastCNILoadStatus'] ?? '' }
  }
  /** Waits until containerd has seen the change: its answer is then what is expected, or still not after 20 s. */
  async function settled(file: string | undefined): Promise<{ file: string | undefined; reason: string }> {
    let now = await loaded()
    for (let waitedMs = 0; now.file !== file && waitedMs < 20_000; waitedMs += 50) {
      await sleep(50)
      now = await loaded()
    }
    return now
  }

  it.each(directories)(
    '%s (containerd#11209: cni plugin not initialized; cni#258: the wrong file is chosen)',
    async (_, files, used, finding) => {
      await put(etc, files)
      const said = await lint(lab)
      expect(said.runtimes?.containerd.file).toBe(used)
      const ids = said.findings.map(({ id }) => id)
      expect(ids).toEqual(finding === undefined ? [] : expect.arrayContaining([finding]))
      const { file, reason } = await settled(used)
      expect({ file, isLoaded: reason === 'OK' }).toEqual({ file: used, isLoaded: used !== undefined })
      const { status } = await cri.call('Status', {})
      const ready = status?.conditions.find(({ type }) => type === 'NetworkReady')
      expect(ready?.status).toBe(used !== undefined)
      if (used === undefined) expect(ready?.message).toContain('cni plugin not initialized')
      if (used === undefined) expect(await explained(reason)).not.toEqual([])
      await expectCnitool(said, files)
    },
  )

  /** cnitool finds each network in the file that lint says, or not at all. */
  async function expectCnitool({ runtimes }: Said, files: Files): Promise<void> {
    for (const { network, choice } of runtimes?.cnitool ?? []) {
      await lab.run('rm', ['-f', '/run/marker.seen'])
      await lab.run('ip', ['netns', 'add', 'pod'])
      const env = { CNI_PATH: '/opt/cni/bin' }
      const ran = await lab.run(join(peers, 'bin/cnitool'), ['add', network, '/run/netns/pod'], { env })
      await lab.run('ip', ['netns', 'delete', 'pod'])
      const seen = (await lab.run('cat', ['/run/marker.seen'])).stdout
      const isAbsent = Object.values(files).some((text) => text.includes('"absent"'))
      if (isAbsent) expect(ran.stderr + ran.stdout).toContain('failed to find plugin')
      else expect(/"from":"([^"]+)"/.exec(seen)?.[1], ran.stderr).toBe(choice.file)
    }
  }

  /** The ids that `trestle explain` finds in a text. */
  async function explained(text: string): Promise<readonly string[]> {
    const { stdout } = await lab.run('/opt/cni/bin/trestle', ['explain', '-o', 'json', '-'], { input: text })
    return (JSON.parse(stdout) as { diagnoses: { id: string }[] }).diagnoses.map(({ id }) => id)
  }

  async function doctorIds(): Promise<readonly string[]> {
    const { stdout } = await lab.run('/opt/cni/bin/trestle', ['doctor', '--only', 'runtime', '-o', 'json'])
    return (JSON.parse(stdout) as { findings: { id: string }[] }).findings.map(({ id }) => id)
  }

  it('explain knows what containerd says of a pod that got no address, and of a plugin that is missing', async () => {
    await put(etc, { '10-a.conflist': list('10-a.conflist', 'a') })
    await settled('10-a.conflist')
    const noAddress = await runPod(cri, { name: 'bare' }).catch(String)
    expect(await explained(String(noAddress))).toEqual(['no-pod-address'])
    await put(etc, { '05-b.conflist': list('05-b.conflist', 'b').replace('"marker"', '"absent"') })
    await settled('05-b.conflist')
    const noPlugin = await runPod(cri, { name: 'none' }).catch(String)
    expect(await explained(String(noPlugin))).toEqual(['plugin-not-found'])
  })

  it('a link to nothing stops it (containerd#11209: cni plugin not initialized)', async () => {
    await symlink('/nonexistent/target', join(dir, '05-b.conflist'))
    await put(etc, { '10-a.conflist': list('10-a.conflist', 'a') })
    const said = await lint(lab)
    expect(said.findings.map(({ id }) => id)).toEqual(expect.arrayContaining(['file-unreadable']))
    expect(said.runtimes?.containerd.file).toBeUndefined()
    expect((await settled(undefined)).file).toBeUndefined()
  })

  it('a directory that is not the one containerd watches (containerd#11209: cni plugin not initialized)', async () => {
    await put(etc, { '10-a.conflist': list('10-a.conflist', 'a') })
    expect((await settled('10-a.conflist')).file).toBe('10-a.conflist')
    expect(await doctorIds()).not.toContain('dir-not-watched')
    await lab.run('mount', ['-t', 'tmpfs', 'tmpfs', '/etc/cni/net.d'])
    try {
      await lab.run('tee', ['/etc/cni/net.d/10-b.conflist'], { input: list('10-b.conflist', 'b') })
      const said = await lint(lab)
      expect(await doctorIds()).toContain('dir-not-watched')
      expect(said.runtimes?.containerd.file).toBe('10-b.conflist')
      // What it would use if it looked; it does not.
      await sleep(500)
      expect((await loaded()).file).toBe('10-a.conflist')
    } finally {
      await lab.run('umount', ['/etc/cni/net.d'])
    }
  })

  it('a directory that is gone; containerd ends without it (containerd#11209: cni plugin not initialized)', async () => {
    await rm(dir, { recursive: true })
    expect((await lint(lab)).findings.map(({ id }) => id)).toEqual(['dir-missing'])
    const isReady = async (): Promise<boolean> => {
      const answer = await cri.call('Status', {}, { timeoutMs: 2000 }).catch(() => undefined)
      return answer?.status?.conditions.some(({ type, status }) => type === 'NetworkReady' && status) ?? false
    }
    for (let waitedMs = 0; (await isReady()) && waitedMs < 20_000; waitedMs += 50) await sleep(50)
    expect(await isReady()).toBe(false)
    await mkdir(dir)
  })
})
