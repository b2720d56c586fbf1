// SPDX-License-Identifier: Apache-2.0
// What lint makes of the runtimes of a node: which directories it looks at, and what it finds about them.

import fs, { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { choicesText, predict } from '../../../../src/commands/lint/choice.ts'
import { targetOf, unusedDirectory } from '../../../../src/commands/lint/directory.ts'
import { look, runtimeLine } from '../../../../src/commands/lint/lint.ts'
import type { NodeRuntime } from '../../../../src/commands/runtimes/node-runtimes.ts'

/** The usual directories, which this machine may not have, are below `root`. */
let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'trestle-lint-'))
  const moved = (path: unknown) => String(path).replace(/^\/(?=(?:etc|opt|usr\/lib)\/cni)/, `${root}/`)
  const { existsSync, readdirSync } = fs
  vi.spyOn(fs, 'existsSync').mockImplementation((path) => existsSync(moved(path)))
  vi.spyOn(fs, 'readdirSync').mockImplementation((path, options) => readdirSync(moved(path), options as never) as never)
  syncBuiltinESMExports()
})
afterEach(() => {
  vi.restoreAllMocks()
  syncBuiltinESMExports()
  rmSync(root, { recursive: true })
})

const containerd: NodeRuntime = {
  runtime: 'containerd',
  socket: '/run/containerd/containerd.sock',
  settings: { confDir: '/etc/cni/net.d', binDirs: ['/usr/lib/cni'], maxConfNum: 1 },
  source: 'CRI Status',
}
const k3sDir = '/var/lib/rancher/k3s/agent/etc/cni/net.d'
const k3s: NodeRuntime = {
  ...containerd,
  settings: { confDir: k3sDir, binDirs: ['/var/lib/rancher/k3s/data/cni'], maxConfNum: 1 },
}

describe('which directories are looked at', () => {
  it("are the runtimes' own, each once, with those that read it", () => {
    const at = (name: string, runtime: NodeRuntime): NodeRuntime => {
      mkdirSync(join(root, name), { recursive: true })
      return { ...runtime, settings: { ...runtime.settings, confDir: join(root, name) } }
    }
    const [first, second] = [at('a', containerd), at('a', { ...containerd, runtime: 'CRI-O' })]
    const { directories, couldNotLook } = look(undefined, [first, at('b', k3s), second])
    expect(couldNotLook).toBe(false)
    expect(directories.map(({ directory, readers }) => [directory, readers.length])).toEqual([
      [join(root, 'a'), 2],
      [join(root, 'b'), 1],
    ])
  })

  it('are the usual ones where there is no runtime', () => {
    mkdirSync(join(root, 'etc/cni/net.d'), { recursive: true })
    expect(look(undefined, []).directories).toMatchObject([{ directory: '/etc/cni/net.d', readers: [] }])
    expect(targetOf('/etc/cni/net.d', []).binDirs).toEqual(['/opt/cni/bin'])
  })

  it('a directory that is named has the plugins of who reads it, and else of the first runtime', () => {
    expect(targetOf(`${k3sDir}/`, [containerd, k3s])).toMatchObject({ binDirs: k3s.settings.binDirs, readers: [k3s] })
    expect(targetOf('/tmp/draft', [containerd])).toMatchObject({ binDirs: ['/usr/lib/cni'], readers: [] })
  })
})

describe('what is found about runtimes', () => {
  it('a directory that no runtime reads is named, with the one that is read', () => {
    mkdirSync(join(root, 'etc/cni/net.d'), { recursive: true })
    writeFileSync(join(root, 'etc/cni/net.d/87-podman.conflist'), '')
    expect(unusedDirectory([k3s])).toEqual([])
    writeFileSync(join(root, 'etc/cni/net.d/10-a.conflist'), '')
    expect(unusedDirectory([k3s])).toMatchObject([
      { id: 'dir-not-used', on: '/etc/cni/net.d', cure: `move the file to ${k3sDir}` },
    ])
    expect([unusedDirectory([k3s, containerd]), unusedDirectory([])]).toEqual([[], []])
  })

  it('is said in a line each', () => {
    expect(runtimeLine(containerd)).toBe(
      'containerd at /run/containerd/containerd.sock: configurations in /etc/cni/net.d, plugins in /usr/lib/cni (CRI Status)',
    )
    const silent = { ...containerd, source: 'the defaults', silent: 'UNAVAILABLE' }
    expect(runtimeLine(silent)).toMatch(/ \(the defaults, since it does not answer: UNAVAILABLE\)$/)
    expect(look(undefined, [silent]).couldNotLook).toBe(true)
  })
})

describe('which file a runtime takes', () => {
  const broken = { name: '20-b.conflist', network: '', problem: 'it is not JSON' }
  const files = [{ name: '10-a.conflist', network: 'a' }, broken, { name: '30-c.conflist', network: 'c' }]

  it('containerd that loads all files loads none where one is broken', () => {
    expect(predict(files, {}).containerd.file).toBe('10-a.conflist')
    expect(predict(files, { maxConfNum: 0 }).containerd).toMatchObject({ stoppedBy: '20-b.conflist' })
  })

  it('CRI-O takes cni_default_network', () => {
    expect(predict(files, { defaultNetwork: 'c' }).crio.file).toBe('30-c.conflist')
    expect(predict(files, { defaultNetwork: 'x' }).crio).toMatchObject({ reason: expect.stringContaining('is x') })
  })

  it('is said of the runtimes of the node only', () => {
    const text = choicesText(predict(files, {}), ['containerd'])
    expect(text).toContain('containerd uses')
    expect(text).not.toContain('CRI-O')
    expect(choicesText(predict(files, {}), ['CRI-O'])).toContain('CRI-O skips 20-b.conflist: it is not JSON\n')
  })
})

describe('plugins that are elsewhere (/usr/lib/cni of Debian)', () => {
  const found = () => {
    const file = join(root, '10-a.conflist')
    writeFileSync(file, JSON.stringify({ cniVersion: '1.0.0', name: 'a', plugins: [{ type: 'bridge' }] }))
    mkdirSync(join(root, 'usr/lib/cni'), { recursive: true })
    writeFileSync(join(root, 'usr/lib/cni/bridge'), '')
    return look(file, [], [join(root, 'bin')]).findings
  }

  it('are said where the directory is not there', () => {
    expect(found()).toMatchObject([
      { id: 'bin-dir-missing', message: expect.stringContaining('there are plugins in /usr/lib/cni') },
    ])
  })

  it('are said where the directory has others', () => {
    mkdirSync(join(root, 'bin'))
    expect(found()).toMatchObject([
      {
        id: 'plugin-missing',
        message: expect.stringContaining('it is in /usr/lib/cni'),
        cure: expect.stringContaining(`ln -s /usr/lib/cni/bridge ${root}/bin/`),
      },
    ])
  })
})
