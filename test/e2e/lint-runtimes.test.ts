// SPDX-License-Identifier: Apache-2.0
// Which directories `trestle lint` says that containerd uses, and where `trestle install` writes, against containerd itself:
// in the layouts of k3s, k0s and MicroK8s, on a read-only /opt, and when it does not answer.
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
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
  const k3sSocket = '/run/k3s/containerd/containerd.sock'
  const settings = (cni: string, socket = k3sSocket) =>
    [`version = 3`, `root = '${base}/containerd'`, `state = '/run/lab/state'`, `[grpc]`, `address = '${socket}'`]
      .concat(`[plugins.'io.containerd.cri.v1.runtime'.cni]`, cni)
      .join('\n')

  async function start(socket = k3sSocket): Promise<string> {
    const script = `mkdir -p ${dirname(socket)}; ${peers}/bin/containerd -c ${file()} >${lab.dir}/containerd.log 2>&1 & echo $!
      for _ in $(seq 300); do ${peers}/bin/ctr -a ${socket} version >/dev/null 2>&1 && break; sleep 0.1; done`
    return (await lab.run('bash', ['-c', script])).stdout.trim()
  }
  const lint = async (program = '/opt/cni/bin/trestle'): Promise<Said> =>
    JSON.parse((await lab.run(program, ['lint', '-o', 'json'])).stdout) as Said
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

  const layouts = [
    // k3s writes its bin_dir for each version; rke2 has the same paths.
    {
      of: 'k3s',
      socket: k3sSocket,
      conf: '/var/lib/rancher/k3s/agent/etc/cni/net.d',
      bin: '/var/lib/rancher/k3s/data/cni',
    },
    { of: 'k0s', socket: '/run/k0s/containerd.sock', conf: '/etc/cni/net.d', bin: '/opt/cni/bin' },
    {
      of: 'MicroK8s',
      socket: '/var/snap/microk8s/common/run/containerd.sock',
      conf: '/var/snap/microk8s/current/args/cni-network',
      bin: '/var/snap/microk8s/current/opt/cni/bin',
    },
  ]
  it.each(layouts)(
    'install writes where the containerd of $of looks, and it uses the file',
    async ({ conf, bin, socket }) => {
      const program = await movedProgram()
      await lab.run('sh', ['-c', `mount -t tmpfs tmpfs /var && mkdir -p ${conf} ${bin}`])
      await writeFile(file(), settings(`conf_dir = '${conf}'\nbin_dirs = ['${bin}']`, socket))
      await start(socket)
      const { stdout } = await lab.run(program, ['install', join(base, 'pods.conflist'), '-o', 'json'])
      const conflist = `${conf}/10-pods.conflist`
      const files = [`${bin}/trestle`, `${bin}/loopback`, conflist]
      expect(JSON.parse(stdout)).toMatchObject({ applied: true, files })
      expect((await lab.run('readlink', [`${bin}/loopback`])).stdout).toBe('trestle')
      const { findings, node } = await lint(program)
      const used = { confDir: conf, binDirs: [bin] }
      expect({ findings, node }).toMatchObject({ findings: [], node: [{ settings: used, source: 'CRI Status' }] })
      const removed = await lab.run(program, ['uninstall', '--apply'])
      expect(removed.stdout).toContain(`removed   file ${conflist}`)
      expect((await lab.run('ls', ['-A', bin])).stdout).toBe('')
    },
  )

  it('a read-only /opt: says which setting moves the directory, and writes there when it did', async () => {
    const program = await movedProgram()
    await lab.run('mount', ['-o', 'remount,bind,ro', '/opt/cni'])
    const install = () => lab.run(program, ['install', join(base, 'pods.conflist')])
    await writeFile(file(), settings(`conf_dir = '/etc/cni/net.d'\nbin_dirs = ['/opt/cni/bin']`))
    const pid = await start()
    const refused = await install()
    expect(refused.stderr).toMatch(/\/opt\/cni\/bin cannot be written to: it is read-only[\s\S]*bin_dirs/)
    expect((await lab.run('ls', ['-A', '/etc/cni/net.d'])).stdout).toBe('')
    await lab.run('kill', [pid])
    await writeFile(file(), settings(`conf_dir = '/etc/cni/net.d'\nbin_dirs = ['/opt/cni/bin', '${base}/cni']`))
    await start()
    expect((await install()).stdout).toContain(`written   ${base}/cni/trestle`)
  })

  /** The executable outside of containerd's directories, as it was unpacked, beside a configuration of its own. */
  async function movedProgram(): Promise<string> {
    const plugins = [{ type: 'trestle', podcidr: '10.89.0.0/24' }]
    await writeFile(join(base, 'pods.conflist'), JSON.stringify({ cniVersion: '1.0.0', name: 'pods', plugins }))
    await lab.run('sh', ['-c', `mv /opt/cni/bin/trestle ${base}/ && rm /opt/cni/bin/*`])
    return join(base, 'trestle')
  }
})
