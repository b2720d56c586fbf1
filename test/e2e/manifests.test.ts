// SPDX-License-Identifier: Apache-2.0
// What `kubectl kustomize` makes of conf-examples: the base, its removal, each component of paths, and the overlays that
// docs/kubernetes.md shows.

import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadAllYaml } from '@kubernetes/client-node'
import { execaSync } from 'execa'
import { afterAll, describe, expect, it } from 'vitest'
import { peers } from './lab/lab.ts'

const env = { PATH: `${process.env['PATH']}:${join(peers, 'bin')}` }
const isKubectlThere = !execaSync('kubectl', ['version', '--client'], { env, reject: false }).failed
if (!isKubectlThere) console.warn('skipped, missing: kubectl (scripts/peers.sh control-plane)')
const scratch = mkdtempSync(join(tmpdir(), 'trestle-manifests-'))
cpSync('conf-examples', scratch, { recursive: true })
afterAll(() => rmSync(scratch, { recursive: true }))
const paths = readdirSync('conf-examples/kubernetes-paths')

interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly data?: Readonly<Record<string, string>>
  readonly spec?: { readonly template: { readonly spec: PodSpec } }
}

interface PodSpec {
  readonly containers: readonly { readonly args: readonly string[] }[]
  readonly volumes: readonly {
    readonly name: string
    readonly hostPath?: { readonly path: string; readonly type: string }
    readonly configMap?: { readonly name: string }
  }[]
}

function build(directory: string) {
  const { stdout } = execaSync('kubectl', ['kustomize', join(scratch, directory)], { env })
  const all = (loadAllYaml(stdout) as (Manifest | null)[]).filter((each) => each !== null)
  const pod = all.find(({ kind }) => kind === 'DaemonSet')?.spec?.template.spec
  const configMap = all.find(({ kind }) => kind === 'ConfigMap')
  if (pod === undefined || configMap === undefined) throw new Error(`no DaemonSet or ConfigMap in ${directory}`)
  const pathOf = (name: string) => pod.volumes.find((volume) => volume.name === name)?.hostPath
  return { all, pod, configMap, pathOf }
}

/** An overlay in a folder beside the base. */
function overlay(name: string, text: string): string {
  mkdirSync(join(scratch, name))
  writeFileSync(join(scratch, name, 'kustomization.yaml'), text)
  return name
}

/**
 * Where each distribution has configuration, plugins and its runtime's socket, by the sources of each: k3s sets
 * directories for flannel alone (pkg/agent/config), and leaves containerd its own without it.
 */
const placesOf: Readonly<Record<string, readonly string[]>> = {
  crio: ['/etc/cni/net.d', '/opt/cni/bin', '/run/crio'],
  k0s: ['/etc/cni/net.d', '/opt/cni/bin', '/run/k0s'],
  k3s: ['/etc/cni/net.d', '/opt/cni/bin', '/run/k3s/containerd'],
  microk8s: [
    '/var/snap/microk8s/current/args/cni-network',
    '/var/snap/microk8s/current/opt/cni/bin',
    '/var/snap/microk8s/common/run',
  ],
}

const head = 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n'

describe.skipIf(!isKubectlThere)('kubectl kustomize', () => {
  it('makes the base, with the template that the agent mounts', () => {
    const { all, pod, configMap } = build('kubernetes')
    const kinds = all.map(({ kind }) => kind)
    for (const kind of ['Namespace', 'ServiceAccount', 'ClusterRole', 'DaemonSet', 'ValidatingAdmissionPolicy'])
      expect(kinds).toContain(kind)
    expect(configMap.metadata.namespace).toBe('trestle')
    expect(pod.volumes.find(({ name }) => name === 'template')?.configMap?.name).toBe(configMap.metadata.name)
    expect(configMap.data?.['pods.conflist']).toBe(readFileSync('conf-examples/kubernetes/pods.conflist', 'utf8'))
  })

  it.each(paths)('patches the paths of %s, also where it is taken away', (name) => {
    const text = (base: string) => `${head}resources: [../${base}]\ncomponents: [../kubernetes-paths/${name}]\n`
    const on = build(overlay(`on-${name}`, text('kubernetes')))
    const off = build(overlay(`off-${name}`, text('kubernetes-uninstall')))
    const usual = build('kubernetes')
    const names = on.pod.volumes.map((volume) => volume.name)
    expect(names.toSorted()).toEqual(usual.pod.volumes.map((volume) => volume.name).toSorted())
    expect(['cni-conf', 'cni-bin', 'runtime'].map((volume) => on.pathOf(volume)?.path)).toEqual(placesOf[name])
    for (const volume of ['state', 'netns']) expect(on.pathOf(volume)).toEqual(usual.pathOf(volume))
    for (const volume of names) expect(off.pathOf(volume)).toEqual(on.pathOf(volume))
    expect(off.pod.containers[0]?.args).toEqual([...(on.pod.containers[0]?.args ?? []), '--uninstall'].toSorted(byBase))
  })

  it('makes what docs/kubernetes.md shows', () => {
    const shown = [...readFileSync('docs/kubernetes.md', 'utf8').matchAll(/```yaml\n([^`]*)```/g)]
    expect(shown.length).toBeGreaterThan(0)
    for (const [at, [, text = '']] of shown.entries()) {
      const name = overlay(`shown-${at}`, text)
      writeFileSync(join(scratch, name, 'pods.conflist'), '{ "plugins": [ { "type": "trestle", "mtu": 1400 } ] }')
      const { configMap, pod } = build(name)
      if (text.includes('kubernetes-uninstall')) expect(pod.containers[0]?.args).toContain('--uninstall')
      else expect(configMap.data?.['pods.conflist']).toContain('1400')
    }
  })
})

/** --uninstall is put in before the arguments of a component. */
function byBase(a: string, b: string): number {
  const at = (word: string) => (word === '--uninstall' ? 1 : word.startsWith('--runtime-endpoint') ? 2 : 0)
  return at(a) - at(b)
}
