// SPDX-License-Identifier: Apache-2.0
// The manifests of conf-examples: that they parse, that they ask for what the agent needs, and that what docs/ shows of them
// is so.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { loadAllYaml, loadYaml } from '@kubernetes/client-node'
import { describe, expect, it } from 'vitest'
// @ts-expect-error the build has no types
import { allocatorSettings } from '../../scripts/image/environment.mjs'
import { conflistOf, emptyTemplate, lookAtTemplate } from '../../src/agent/configuration.ts'
import { agentCommand, readSettings } from '../../src/agent/settings.ts'

interface PodSpec {
  readonly containers: readonly {
    readonly args: readonly string[]
    readonly image: string
    readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
    readonly resources: { readonly requests: object; readonly limits?: object }
    readonly securityContext: object
  }[]
  readonly volumes: readonly { readonly name: string; readonly hostPath?: { readonly path: string } }[]
  readonly [key: string]: unknown
}

const base = 'conf-examples/kubernetes'
const read = (file: string) => readFileSync(file, 'utf8')
const docs = read('docs/kubernetes.md')
const { version } = JSON.parse(read('package.json')) as { version: string }
const kustomization = loadYaml<{
  resources: string[]
  images: object[]
  configMapGenerator: { files: string[] }[]
}>(read(`${base}/kustomization.yaml`))
const daemonSet = loadYaml<{ spec: { updateStrategy: object; template: { spec: PodSpec } } }>(
  read(`${base}/daemonset.yaml`),
)
const staticPod = loadYaml<{ spec: PodSpec }>(read('conf-examples/node/trestle-agent.yaml'))
const pod = daemonSet.spec.template.spec
const pods: [string, PodSpec][] = [
  ['the DaemonSet', pod],
  ['the static pod', staticPod.spec],
]

describe('conf-examples/kubernetes', () => {
  it('is a base of every manifest beside it', () => {
    const beside = readdirSync(base).filter((name) => name !== 'kustomization.yaml')
    const generated = kustomization.configMapGenerator.flatMap(({ files }) => files)
    expect([...kustomization.resources, ...generated].sort()).toEqual(beside.sort())
    for (const file of kustomization.resources)
      for (const each of loadAllYaml(read(`${base}/${file}`))) expect(each).toHaveProperty('kind')
    expect(kustomization.images).toEqual([{ name: 'localhost/trestle', newTag: version }])
  })

  it('has a template that says what the agent writes without one', () => {
    const settings = readSettings({ values: { template: resolve(base, 'pods.conflist') } }, { NODE_NAME: 'a' })
    const pods = { mode: 'ptp', ranges: ['10.244.1.0/24', 'fd00:10:244:1::/64'] } as const
    const { good, wrong } = lookAtTemplate(settings, pods)
    expect(wrong).toBeUndefined()
    expect(conflistOf(good ?? { ...emptyTemplate, list: { isBad: true } }, settings, pods)).toEqual(
      conflistOf(emptyTemplate, settings, pods),
    )
    const mount = pod.containers[0]?.volumeMounts.find(({ name }) => name === 'template')
    expect(dirname(readSettings({ values: {} }, { NODE_NAME: 'a' }).template.file)).toBe(mount?.mountPath)
  })

  it('replaces agents one in ten at a time', () => {
    expect(daemonSet.spec.updateStrategy).toEqual({ type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '10%' } })
  })

  it('is changed by conf-examples/kubernetes-uninstall, and by nothing else in it', () => {
    const overlay = loadYaml<{ resources: string[]; patches: { patch: string }[] }>(
      read('conf-examples/kubernetes-uninstall/kustomization.yaml'),
    )
    expect(overlay.resources).toEqual(['../kubernetes'])
    const changes = overlay.patches.flatMap(({ patch }) => loadYaml<{ path: string; value: string }[]>(patch))
    expect(changes.map(({ value }) => value)).toEqual(['--uninstall', '100%'])
  })
})

describe.each(pods)('%s', (_, spec) => {
  const [container] = spec.containers
  it('needs no network, and shares what it works on with the host', () => {
    expect(spec).toMatchObject({
      hostNetwork: true,
      hostPID: true,
      dnsPolicy: 'Default',
      tolerations: [{ operator: 'Exists' }],
      terminationGracePeriodSeconds: 0,
      priorityClassName: 'system-node-critical',
    })
    expect(container?.securityContext).toMatchObject({
      privileged: true,
      seLinuxOptions: { type: 'spc_t' },
      appArmorProfile: { type: 'Unconfined' },
    })
    expect(Object.keys(container?.resources ?? {})).toEqual(['requests'])
  })
  it('mounts each volume, and namespaces of pods that come later', () => {
    const mounts = container?.volumeMounts ?? []
    expect(mounts.map(({ name }) => name).sort()).toEqual(spec.volumes.map(({ name }) => name).sort())
    expect(mounts.find(({ name }) => name === 'netns')).toMatchObject({ mountPropagation: 'HostToContainer' })
  })
  it('calls the agent with options that it has', () => {
    const [command, ...options] = container?.args ?? []
    expect(command).toBe('agent')
    const names = options.map((option) => option.replace(/^--([a-z-]+)=.*/, '$1'))
    expect(names.filter((name) => !Object.hasOwn(agentCommand.options, name))).toEqual([])
    const values = Object.fromEntries(options.map((option) => option.replace(/^--/, '').split('=') as [string, string]))
    expect(readSettings({ values }, { NODE_NAME: 'a' })).toMatchObject({ hostRoot: '/proc/1/root', node: 'a' })
  })
})

it('the static pod is the DaemonSet, but for its token', () => {
  const [ofSet, ofPod] = [pod, staticPod.spec].map(({ containers: [container], volumes }) => ({ container, volumes }))
  // A ConfigMap is nothing for a static pod: its template is beside the token.
  expect(ofPod?.volumes.filter(({ name }) => name !== 'token')).toEqual(
    ofSet?.volumes.filter(({ name }) => name !== 'template'),
  )
  const mountOf = (name: string) =>
    [ofSet, ofPod].flatMap((each) => each?.container?.volumeMounts ?? []).find((mount) => mount.name === name)
  expect(mountOf('token')?.mountPath).toBe(mountOf('template')?.mountPath)
  expect(ofPod?.container?.args).toEqual([...(ofSet?.container?.args ?? []), '--token-file=/etc/trestle/token'])
  expect(ofPod?.container?.image).toBe(`${ofSet?.container?.image}:${version}`)
})

describe('docs/kubernetes.md', () => {
  it('shows an overlay of the base, with components that there are', () => {
    const [, shown = ''] = /```yaml\n([^`]*)```/.exec(docs) ?? []
    const overlay = loadYaml<{ resources: string[]; components: string[] }>(shown)
    expect(overlay.resources).toEqual(['../kubernetes'])
    expect(overlay.components.filter((path) => !existsSync(join(base, path)))).toEqual([])
  })
  it("gives the service of systemd the image's settings for glibc", () => {
    expect(read('conf-examples/node/trestle-agent.service')).toContain(
      `Environment=${(allocatorSettings as readonly string[]).join(' ')}\n`,
    )
  })
  it.each(readdirSync('conf-examples/kubernetes-paths'))(
    'names the component %s, which patches volumes that there are',
    (name) => {
      expect(docs).toContain(`\`${name}\``)
      const file = `conf-examples/kubernetes-paths/${name}/kustomization.yaml`
      const component = loadYaml<{ kind: string; patches: { patch: string }[] }>(read(file))
      expect(component.kind).toBe('Component')
      const patch = loadYaml<{ spec: { template: { spec: PodSpec } } }>(component.patches[0]?.patch ?? '')
      const patched = patch.spec.template.spec.volumes.map((volume) => volume.name)
      expect(patched.length).toBeGreaterThan(0)
      const names = pod.volumes.map((volume) => volume.name)
      expect(patched.filter((each) => !names.includes(each))).toEqual([])
    },
  )
  it('applies folders that there are', () => {
    const folders = [...docs.matchAll(/kubectl \w+ -[kf] (conf-examples[\w./-]*\w)/g)].map(([, path = '']) => path)
    expect(folders.length).toBeGreaterThan(3)
    expect(folders.filter((path) => !existsSync(path))).toEqual([])
  })
})
