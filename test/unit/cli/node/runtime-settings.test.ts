// SPDX-License-Identifier: Apache-2.0
// What the answers of runtimes say of CNI: texts as containerd, CRI-O, k3s and others write them.
import { parse } from 'smol-toml'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../../../src/cni/json.ts'
import { crioSettings, statusSettings } from '../../../../src/commands/runtimes/runtime-settings.ts'

const usual = { confDir: '/etc/cni/net.d', binDirs: ['/opt/cni/bin'], maxConfNum: 1 }

describe('an answer to CRI Status', () => {
  const config = (cni: object) => ({ config: JSON.stringify({ cni, containerd: {} }) })

  it('has the directories of containerd 1 and 2', () => {
    expect(statusSettings(config({ binDir: '/usr/lib/cni', confDir: '/etc/cni/net.d', maxConfNum: 1 }))).toEqual({
      ...usual,
      binDirs: ['/usr/lib/cni'],
    })
    expect(statusSettings(config({ useInternalLoopback: true }))).toEqual({ ...usual, hasInternalLoopback: true })
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
  const settings = (text: string) => crioSettings(parse(text) as JsonObject)

  it('are those of [crio.network]', () => {
    const text = '[crio.network]\nnetwork_dir = "/etc/cni/net.d/"\nplugin_dirs = ["/usr/libexec/cni/", "/opt/cni/bin"]'
    expect(settings(text)).toEqual({ confDir: '/etc/cni/net.d', binDirs: ['/usr/libexec/cni', '/opt/cni/bin'] })
    expect(settings('[crio.network]\ncni_default_network = "pods"')).toMatchObject({ defaultNetwork: 'pods' })
    expect(settings('')).toEqual({ confDir: '/etc/cni/net.d', binDirs: ['/opt/cni/bin'] })
  })
})
