// SPDX-License-Identifier: Apache-2.0
// What the files and answers of runtimes say of CNI: texts as containerd, CRI-O, k3s and others write them.
import { parse } from 'smol-toml'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../../../src/cni/json.ts'
import { flagOf } from '../../../../src/commands/runtimes/processes.ts'
import {
  containerdSettings,
  crioSettings,
  editOf,
  statusSettings,
} from '../../../../src/commands/runtimes/runtime-settings.ts'

const table = (text: string) => parse(text) as JsonObject
const usual = { confDir: '/etc/cni/net.d', binDirs: ['/opt/cni/bin'], maxConfNum: 1 }

describe('settings of containerd', () => {
  it.each([
    ['an empty file', '', usual],
    ['version 1', '[plugins.cri.cni]\nbin_dir = "/a"\nconf_dir = "/b"', { ...usual, binDirs: ['/a'], confDir: '/b' }],
    [
      "Debian's package",
      'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\n  bin_dir = "/usr/lib/cni"\n  conf_dir = "/etc/cni/net.d"',
      { ...usual, binDirs: ['/usr/lib/cni'] },
    ],
    [
      'version 3 with two directories of plugins',
      "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['/opt/cni/bin/', '/usr/lib/cni']\nmax_conf_num = 0",
      { ...usual, binDirs: ['/opt/cni/bin', '/usr/lib/cni'], maxConfNum: 0 },
    ],
    [
      'a loopback of its own',
      "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\nuse_internal_loopback = true",
      { ...usual, hasInternalLoopback: true },
    ],
  ])('%s', (_, text, expected) => {
    expect(containerdSettings(table(text))).toEqual(expected)
  })
})

describe('an answer to CRI Status', () => {
  const config = (cni: object) => ({ config: JSON.stringify({ cni, containerd: {} }) })

  it('has the directories of containerd 1 and 2', () => {
    expect(statusSettings(config({ binDir: '/usr/lib/cni', confDir: '/etc/cni/net.d', maxConfNum: 1 }))).toEqual({
      ...usual,
      binDirs: ['/usr/lib/cni'],
    })
    expect(statusSettings(config({ binDir: '', binDirs: ['/a', '/b'], confDir: '/c', maxConfNum: 2 }))).toEqual({
      confDir: '/c',
      binDirs: ['/a', '/b'],
      maxConfNum: 2,
    })
  })

  it("has none in CRI-O's", () => {
    expect(statusSettings({ config: '{"sandboxImage":"registry.k8s.io/pause:3.9"}' })).toBeUndefined()
    expect(statusSettings({ config: 'nothing of JSON' })).toBeUndefined()
    expect(statusSettings({})).toBeUndefined()
  })
})

describe('settings of CRI-O', () => {
  const settings = (text: string, args: readonly string[] = []) =>
    crioSettings(table(text), (name) => flagOf(args, [name]))

  it('are those of [crio.network]', () => {
    const text = '[crio.network]\nnetwork_dir = "/etc/cni/net.d/"\nplugin_dirs = ["/usr/libexec/cni/", "/opt/cni/bin"]'
    expect(settings(text)).toEqual({ confDir: '/etc/cni/net.d', binDirs: ['/usr/libexec/cni', '/opt/cni/bin'] })
    expect(settings('[crio.network]\ncni_default_network = "pods"')).toMatchObject({ defaultNetwork: 'pods' })
    expect(settings('')).toEqual({ confDir: '/etc/cni/net.d', binDirs: ['/opt/cni/bin'] })
  })

  it('are changed by flags', () => {
    const args = ['--cni-config-dir=/a', '--cni-plugin-dir', '/b,/c', '--cni-default-network', 'n']
    expect(settings('[crio.network]\nnetwork_dir = "/x"\nplugin_dirs = ["/y"]', args)).toEqual({
      confDir: '/a',
      binDirs: ['/b', '/c'],
      defaultNetwork: 'n',
    })
  })
})

describe('the file to edit', () => {
  it.each([
    ['/etc/containerd/config.toml', 2, '/etc/containerd/config.toml'],
    [
      '/var/lib/rancher/k3s/agent/etc/containerd/config.toml',
      2,
      '/var/lib/rancher/k3s/agent/etc/containerd/config.toml.tmpl',
    ],
    [
      '/var/lib/rancher/rke2/agent/etc/containerd/config.toml',
      3,
      '/var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.tmpl',
    ],
    ['/data/k3s/agent/etc/containerd/config.toml', 2, '/data/k3s/agent/etc/containerd/config.toml.tmpl'],
  ])('of %s, version %i, is %s', (file, version, edit) => {
    expect(editOf(file, version).file).toBe(edit)
  })

  it('goes with what makes rke2 read it', () => {
    expect(editOf('/var/lib/rancher/rke2/agent/etc/containerd/config.toml', 3).restart).toContain('rke2-agent')
  })
})
