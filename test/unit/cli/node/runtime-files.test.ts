// SPDX-License-Identifier: Apache-2.0
// Files and processes of runtimes, in a directory that stands for a node's.
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { flagOf, processesOf } from '../../../../src/commands/runtimes/processes.ts'
import { containerdFiles, crioFiles } from '../../../../src/commands/runtimes/runtime-settings.ts'

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'trestle-node-'))
})
afterEach(() => rm(root, { recursive: true }))

async function put(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true })
    await writeFile(join(root, name), text)
  }
}

describe('containerd', () => {
  const cri = '[plugins."io.containerd.grpc.v1.cri".cni]'

  it('imports by name, by pattern in the order of names, and from beside the file', async () => {
    await put({
      '/etc/containerd/config.toml': `version = 2\nimports = ["conf.d/*.toml", "/run/more.toml"]\n${cri}\nconf_dir = "/a"`,
      '/etc/containerd/conf.d/20.toml': `${cri}\nconf_dir = "/c"\nbin_dir = "/bin20"`,
      '/etc/containerd/conf.d/10.toml': `imports = ["/etc/containerd/config.toml"]\n${cri}\nconf_dir = "/b"`,
      '/etc/containerd/conf.d/note.txt': 'no TOML',
      '/run/more.toml': '[grpc]\naddress = "/run/other.sock"',
    })
    const { settings, files, address } = containerdFiles({ args: [], root })
    expect(settings).toMatchObject({ confDir: '/c', binDirs: ['/bin20'] })
    expect(address).toBe('/run/other.sock')
    const names = ['config.toml', 'conf.d/10.toml', 'conf.d/20.toml'].map((name) => `/etc/containerd/${name}`)
    expect(files).toEqual([...names, '/run/more.toml'])
  })

  it('has the file of its flag, seen in its own root', async () => {
    await put({
      '/k3s/agent/etc/containerd/config.toml': `version = 3\n[plugins."io.containerd.cri.v1.runtime".cni]\nconf_dir = "/k"`,
    })
    const { settings, edit } = containerdFiles({
      args: ['-c', '/k3s/agent/etc/containerd/config.toml', '-a', '/run/k3s/containerd/containerd.sock'],
      root,
    })
    expect(settings.confDir).toBe('/k')
    expect(edit.file).toBe('/k3s/agent/etc/containerd/config-v3.toml.tmpl')
  })

  it('does without a file, and says what is wrong with a broken one', async () => {
    expect(containerdFiles({ args: [], root })).toMatchObject({ settings: { confDir: '/etc/cni/net.d' }, files: [] })
    await put({ '/etc/containerd/config.toml': 'version = ' })
    expect(containerdFiles({ args: [], root }).problem?.message).toMatch(/^\/etc\/containerd\/config.toml: /)
    await rm(join(root, 'etc'), { recursive: true })
    await mkdir(join(root, 'etc/containerd/config.toml'), { recursive: true })
    expect(containerdFiles({ args: [], root }).problem?.message).toContain('no regular file')
  })

  it('passes over imports without a file', async () => {
    await put({ '/etc/containerd/config.toml': 'imports = ["/none/*.toml", "/none.toml"]' })
    expect(containerdFiles({ args: [], root })).toMatchObject({ files: ['/etc/containerd/config.toml'] })
  })

  it.each([
    ['disabled_plugins = ["cri"]', false],
    ['disabled_plugins = ["io.containerd.grpc.v1.cri"]', false],
    ['disabled_plugins = ["io.containerd.internal.v1.restart"]', true],
    ['', true],
  ])('serves CRI with %s: %s', async (text, hasCri) => {
    await put({ '/etc/containerd/config.toml': text })
    expect(containerdFiles({ args: [], root }).hasCri).toBe(hasCri)
  })

  it.each([
    ['[grpc]\naddress = "/run/k3s/containerd/containerd.sock"', '/run/k3s/containerd/containerd.sock'],
    ["version = 4\n[plugins.'io.containerd.server.v1.grpc']\naddress = '/run/c.sock'", '/run/c.sock'],
    ['', '/run/containerd/containerd.sock'],
  ])('listens where its file says: %s', async (text, address) => {
    await put({ '/etc/containerd/config.toml': text })
    expect(containerdFiles({ args: [], root }).address).toBe(address)
  })
})

describe('CRI-O', () => {
  it('has drop-ins over its file', async () => {
    await put({
      '/etc/crio/crio.conf': '[crio.network]\nnetwork_dir = "/a"\nplugin_dirs = ["/p"]',
      '/etc/crio/crio.conf.d/10-x.conf': '[crio.network]\nnetwork_dir = "/b"',
    })
    const { settings, files, edit } = crioFiles({ args: [], root })
    expect(settings).toEqual({ confDir: '/b', binDirs: ['/p'] })
    expect(files).toHaveLength(2)
    expect(edit.file).toBe('/etc/crio/crio.conf.d/99-cni.conf')
  })
})

describe('processes', () => {
  async function addProcess(
    pid: number,
    { name = 'containerd', args = [''], uid = 0, pidNs = 'pid:[1]', mntNs = 'mnt:[1]' },
  ) {
    await put({
      [`/proc/${pid}/comm`]: `${name}\n`,
      [`/proc/${pid}/cmdline`]: [`/usr/bin/${name}`, ...args].map((arg) => `${arg}\0`).join(''),
      [`/proc/${pid}/status`]: `Name:\t${name}\nUid:\t${uid}\t${uid}\t${uid}\t${uid}\n`,
    })
    await mkdir(join(root, `proc/${pid}/ns`))
    await symlink(pidNs, join(root, `proc/${pid}/ns/pid`))
    await symlink(mntNs, join(root, `proc/${pid}/ns/mnt`))
  }
  beforeEach(async () => {
    await addProcess(1, { name: 'init' })
    await symlink('1', join(root, 'proc/self'))
  })

  it("are root's of this node only, with what their paths begin with", async () => {
    await addProcess(300, { args: ['-c', '/x.toml'], mntNs: 'mnt:[2]' })
    await addProcess(20, { args: ['--config=/y.toml'] })
    await addProcess(400, { uid: 1000 })
    await addProcess(500, { pidNs: 'pid:[9]' })
    await addProcess(600, { name: 'containerd-shim' })
    const proc = join(root, 'proc')
    expect(processesOf(['containerd'], proc)).toEqual([
      { pid: 20, name: 'containerd', args: ['--config=/y.toml'], root: '' },
      { pid: 300, name: 'containerd', args: ['-c', '/x.toml'], root: `${proc}/300/root` },
    ])
  })

  it.each([
    [['-c', '/a'], '/a'],
    [['--config', '/a', '--log-level', 'info'], '/a'],
    [['--config=/a=b'], '/a=b'],
    [['--config=/a', '--config=/b'], '/b'],
    [['config', 'dump'], undefined],
    [[], undefined],
  ])('flags %j name the file %s', (args, expected) => {
    expect(flagOf(args, ['c', 'config'])).toBe(expected)
  })
})
