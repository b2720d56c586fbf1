// SPDX-License-Identifier: Apache-2.0
// What lint makes of the runtimes of a node: which directories it looks at, and what it finds about them.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { choicesText, predict } from '../../../../src/commands/lint/choice.ts'
import { look } from '../../../../src/commands/lint/lint.ts'
import {
  otherBinDirs,
  runtimeLine,
  targetOf,
  targetsOf,
  unusedDirectory,
} from '../../../../src/commands/lint/runtime-directories.ts'
import type { NodeRuntime } from '../../../../src/commands/runtimes/node-runtimes.ts'

const containerd: NodeRuntime = {
  runtime: 'containerd',
  pid: 7,
  settings: { confDir: '/etc/cni/net.d', binDirs: ['/usr/lib/cni'], maxConfNum: 1 },
  source: 'CRI Status',
  root: '',
}
const k3sDir = '/var/lib/rancher/k3s/agent/etc/cni/net.d'
const k3s: NodeRuntime = {
  ...containerd,
  pid: 8,
  settings: { confDir: k3sDir, binDirs: ['/var/lib/rancher/k3s/data/cni'], maxConfNum: 1 },
}
const inSnap: NodeRuntime = { ...containerd, pid: 9, root: '/proc/9/root' }
const crio: NodeRuntime = {
  ...containerd,
  runtime: 'CRI-O',
  settings: { confDir: '/etc/cni/net.d', binDirs: ['/opt/cni/bin'] },
}

const node = (...runtimes: readonly NodeRuntime[]) => runtimes
const idsOf = (found: readonly { readonly id: string }[]) => found.map(({ id }) => id)

describe('which directories are looked at', () => {
  it("are the runtimes' own, with their plugins, each once", () => {
    const about = targetsOf([containerd, k3s, crio, inSnap]).map(({ directory, binDirs }) => ({ directory, binDirs }))
    expect(about).toEqual([
      { directory: '/etc/cni/net.d', binDirs: ['/usr/lib/cni'] },
      { directory: k3sDir, binDirs: ['/var/lib/rancher/k3s/data/cni'] },
      { directory: '/proc/9/root/etc/cni/net.d', binDirs: ['/proc/9/root/usr/lib/cni'] },
    ])
  })

  it('are the usual ones where there is no runtime', () => {
    expect(targetsOf([])).toEqual([
      { directory: '/etc/cni/net.d', binDirs: ['/opt/cni/bin'], readers: [], isOfCrio: true },
    ])
  })

  it('a directory that is named has the plugins of who reads it, and else of the first runtime', () => {
    expect(targetOf(`${k3sDir}/`, [containerd, k3s])).toMatchObject({ binDirs: k3s.settings.binDirs, readers: [k3s] })
    expect(targetOf('/tmp/draft', [containerd])).toMatchObject({ binDirs: ['/usr/lib/cni'], readers: [] })
    expect(otherBinDirs(['/usr/lib/cni'], [containerd, k3s])).toContain('/opt/cni/bin')
    expect([containerd, crio].map((each) => targetOf('/tmp/draft', [each]).isOfCrio)).toEqual([false, true])
  })
})

describe('what is found about runtimes', () => {
  it('a directory that no runtime reads is named, with the one that is read', () => {
    const [finding] = unusedDirectory('/etc/cni/net.d', [k3s])
    expect(finding).toMatchObject({ id: 'dir-not-used', cure: `move the file to ${k3sDir}` })
    expect(unusedDirectory('/etc/cni/net.d', [containerd])).toEqual([])
    expect(unusedDirectory('/etc/cni/net.d', [])).toEqual([])
  })

  it('is said in a line each', () => {
    expect(runtimeLine(containerd)).toBe(
      'containerd (process 7): configurations in /etc/cni/net.d, plugins in /usr/lib/cni (CRI Status)',
    )
    expect(runtimeLine({ ...containerd, isDenied: true })).toMatch(/it may not be asked: run it as root$/)
  })
})

describe('which file a runtime takes', () => {
  const list = (name: string, network: string) => ({
    name,
    load: { name: network, version: '1.0.0', types: ['bridge'], isWhole: true },
  })
  const broken = { name: '20-b.conflist', load: { problem: 'it is not JSON' } }
  const files = [list('10-a.conflist', 'a'), broken, list('30-c.conflist', 'c')]

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
  })
})

describe('plugins that are elsewhere (/usr/lib/cni of Debian)', () => {
  let root: string
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'trestle-lint-'))
    mkdirSync(join(root, 'opt'))
    const text = `#!/bin/sh\necho '{"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}'\n`
    writeFileSync(join(root, 'opt/bridge'), text, { mode: 0o755 })
    const list = { cniVersion: '1.0.0', name: 'a', plugins: [{ type: 'bridge' }] }
    writeFileSync(join(root, '10-a.conflist'), JSON.stringify(list))
  })
  afterEach(() => rmSync(root, { recursive: true }))

  /** A second runtime has its plugins in ROOT/opt; so they are looked for there, too. */
  const view = () => {
    const settings = { confDir: '/elsewhere', binDirs: [join(root, 'opt')] }
    return node({ ...containerd, settings: { confDir: root, binDirs: [join(root, 'usr')] } }, { ...crio, settings })
  }

  it('are said where the directory is not there', () => {
    const found = look(join(root, '10-a.conflist'), view()).findings.filter(({ id }) => id === 'bin-dir-missing')
    expect(found).toMatchObject([{ message: expect.stringContaining(`there are plugins in ${root}/opt`) }])
  })

  it('are said where the directory has others', () => {
    mkdirSync(join(root, 'usr'))
    writeFileSync(join(root, 'usr/loopback'), '')
    const found = look(join(root, '10-a.conflist'), view()).findings.filter(({ severity }) => severity === 'error')
    expect(found).toMatchObject([{ id: 'plugin-missing', message: expect.stringContaining(`it is in ${root}/opt`) }])
    expect(found[0]?.cure).toContain(`ln -s ${root}/opt/bridge ${root}/usr/`)
  })

  it('of containerd are nothing to CRI-O, which is not on this node', () => {
    const containerdOnly = node({ ...containerd, settings: { confDir: '/elsewhere', binDirs: [join(root, 'usr')] } })
    const { directories, findings } = look(root, containerdOnly)
    expect(directories[0]?.prediction).toMatchObject({ skipped: [], crio: { file: '10-a.conflist' } })
    expect(idsOf(findings)).not.toContain('runtimes-differ')
    // Where a person says which directory it is, or CRI-O is here, its plugins count.
    expect(look(root, containerdOnly, [join(root, 'usr')]).directories[0]?.prediction.crio).not.toHaveProperty('file')
    const both = node({ ...crio, settings: { confDir: root, binDirs: [join(root, 'usr')] } })
    expect(look(root, both).directories[0]?.prediction.crio).not.toHaveProperty('file')
  })
})
