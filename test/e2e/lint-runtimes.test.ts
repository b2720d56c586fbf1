// SPDX-License-Identifier: Apache-2.0
// Which directories `trestle lint` says that containerd uses, against containerd itself: in k3s' layout, and when it does
// not answer.
import { mkdir, readdir, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Lab, missingParts, openBareLab, peers, pluginType, prepareLab } from './lab/lab.ts'

const missing = missingParts(['bin/containerd', 'cni/bridge'], 'cni containerd')
if (pluginType !== 'trestle') missing.push('this file is about trestle')

interface Said {
  readonly findings: readonly { readonly id: string; readonly file: string; readonly message: string }[]
  readonly node: readonly {
    readonly settings: { readonly confDir: string; readonly binDirs: readonly string[] }
    readonly source: string
    readonly silent?: string
  }[]
  readonly exitCode: number
}

describe.skipIf(missing.length > 0)('lint looks where containerd looks', () => {
  let lab: Lab
  let base: string
  beforeEach(async () => {
    lab = await openBareLab(await prepareLab({}))
    // One path inside and outside.
    base = join(lab.dir, 'rancher/k3s/agent')
    await mkdir(join(base, 'etc/containerd'), { recursive: true })
    await mkdir(join(base, 'etc/cni/net.d'), { recursive: true })
  })
  afterEach(() => lab.close())

  const file = () => join(base, 'etc/containerd/config.toml')
  const settings = (cni: string) =>
    [`version = 3`, `root = '${base}/containerd'`, `state = '/run/k3s/state'`, `[grpc]`]
      .concat(`address = '/run/k3s/containerd/containerd.sock'`)
      .concat(`[plugins.'io.containerd.cri.v1.runtime'.cni]`, cni)
      .join('\n')

  async function start(): Promise<string> {
    const script = `mkdir -p /run/k3s/containerd; ${peers}/bin/containerd -c ${file()} >${lab.dir}/containerd.log 2>&1 & echo $!
      for _ in $(seq 300); do ${peers}/bin/ctr -a /run/k3s/containerd/containerd.sock version >/dev/null 2>&1 && break; sleep 0.1; done`
    return (await lab.run('bash', ['-c', script])).stdout.trim()
  }
  const lint = async (...words: readonly string[]): Promise<Said> =>
    JSON.parse((await lab.run('/opt/cni/bin/trestle', ['lint', '-o', 'json', ...words])).stdout) as Said
  const list = JSON.stringify({ cniVersion: '1.0.0', name: 'pods', plugins: [{ type: 'ptp' }] })
  const above = ({ findings }: Said) => findings.map(({ id }) => id)

  it("k3s' layout: its own directory", async () => {
    await writeFile(file(), settings(`conf_dir = '${base}/etc/cni/net.d'\nbin_dirs = ['/opt/cni/bin']`))
    await writeFile(join(base, 'etc/cni/net.d/10-pods.conflist'), list)
    await start()
    const said = await lint()
    expect(said.node).toMatchObject([
      {
        settings: { confDir: `${base}/etc/cni/net.d`, binDirs: ['/opt/cni/bin'] },
        source: 'CRI Status',
      },
    ])
    expect(above(said)).toEqual([])
    // What is in the usual place is not read.
    await lab.run('tee', ['/etc/cni/net.d/10-other.conflist'], { input: list })
    expect(above(await lint())).toEqual(['dir-not-used'])
  })

  it('without an answer over CRI the usual directories count', async () => {
    await writeFile(file(), settings(`conf_dir = '${base}/etc/cni/net.d'`))
    const pid = await start()
    await lab.run('kill', ['-STOP', pid])
    try {
      const { exitCode, node } = await lint()
      const silent = expect.stringContaining('DEADLINE_EXCEEDED')
      expect(node).toMatchObject([{ settings: { confDir: '/etc/cni/net.d' }, source: 'the defaults', silent }])
      expect(exitCode).toBe(3)
    } finally {
      await lab.run('kill', ['-CONT', pid])
    }
  })

  it('install writes where containerd looks, and containerd uses the file', async () => {
    const binDir = join(base, 'bin')
    await writeFile(file(), settings(`conf_dir = '${base}/etc/cni/net.d'\nbin_dirs = ['${binDir}']`))
    await start()
    await writeFile(
      join(base, 'pods.conflist'),
      JSON.stringify({ ...JSON.parse(list), plugins: [{ type: 'trestle' }] }),
    )
    const { stdout } = await lab.run('/opt/cni/bin/trestle', ['install', join(base, 'pods.conflist'), '-o', 'json'])
    const conflist = `${base}/etc/cni/net.d/10-pods.conflist`
    expect(JSON.parse(stdout)).toMatchObject({
      applied: true,
      files: [`${binDir}/trestle`, `${binDir}/loopback`, conflist],
    })
    expect(await readlink(`${binDir}/loopback`)).toBe('trestle')
    const { findings, node } = await lint()
    expect({ findings, node }).toMatchObject({ findings: [], node: [{ settings: { binDirs: [binDir] } }] })
    const removed = await lab.run('/opt/cni/bin/trestle', ['uninstall', '--apply'])
    expect(removed.stdout).toContain(`removed   file ${conflist}`)
    expect(await readdir(binDir)).toEqual([])
  })
})
