// SPDX-License-Identifier: Apache-2.0
// The runtimes' configuration directories, as `trestle lint` sees them, and the files that the used configuration
// needs.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { asObject, isObject, lookUp } from '../../cni/json.ts'
import { orElse } from '../if-there.ts'
import { lintDirectory } from '../lint/directory.ts'
import type { FileLint } from '../lint/file.ts'
import { openNode } from '../lint/node.ts'
import { openPrograms, type Programs } from '../lint/programs.ts'
import { otherBinDirs, targetOf } from '../lint/runtime-directories.ts'
import { skipsFaultyFiles } from '../runtimes/ask-runtime.ts'
import type { NodeRuntime } from '../runtimes/node-runtimes.ts'
import type { ConfigurationFacts, PluginFacts, RuntimeFacts } from './facts.ts'
import { liveCached } from './state.ts'

/** Looks at the directory of a runtime. `found`: all runtimes of the node. `couldNotLook`: a file is not readable. */
export function lookAtConfiguration(
  runtime: RuntimeFacts,
  found: readonly NodeRuntime[],
): ConfigurationFacts & { readonly couldNotLook?: true } {
  const installed = openPrograms(runtime.binDirs, otherBinDirs(runtime.binDirs, found))
  const programs: Programs = installed.hasDirectory ? { ...installed, host: openNode() } : installed
  const { readers, isOfCrio } = targetOf(runtime.confDir, found)
  const lint = lintDirectory(runtime.confDir, programs, { readers, isOfCrio })
  const choice = skipsFaultyFiles(runtime.name) ? lint.prediction?.crio : lint.prediction?.containerd
  const lints = lint.lints ?? []
  const used = lints.find(({ file }) => file === join(runtime.confDir, choice?.file ?? ''))
  return {
    runtime,
    findings: lint.findings,
    ...(lint.prediction === undefined ? {} : { prediction: lint.prediction }),
    ...(choice?.file === undefined ? {} : { file: choice.file, network: choice.network }),
    ...(choice?.file !== undefined && hasPods(choice.network) ? { hasPods: true } : {}),
    plugins: used === undefined ? [] : pluginsOf(used, programs),
    files: lints.flatMap((each) => {
      const isOwn = pluginsOf(each, programs).some((plugin) => plugin.isOwn)
      return each.list?.name === undefined ? [] : [{ file: each.file, network: each.list.name, isOwn }]
    }),
    ...(lint.couldNotLook === true && existsSync(runtime.confDir) ? { couldNotLook: true } : {}),
  }
}

/** A cache that only root may read is told with the group `network`. */
function hasPods(network: string): boolean {
  return orElse(() => liveCached(network).length > 0, false)
}

function pluginsOf({ list }: FileLint, { isOwn }: Programs): readonly PluginFacts[] {
  return (list?.plugins ?? []).map(({ conf }) => {
    const type = String(lookUp(conf, 'type') ?? '')
    const ipam = lookUp(conf, 'ipam')
    const ipamType = isObject(ipam) ? lookUp(ipam, 'type') : undefined
    return { type, conf, isOwn: isOwn(type), ...(typeof ipamType === 'string' ? { ipamType } : {}) }
  })
}

/** The file or socket that a plugin's agent provides, and the finding about its absence. */
interface Agent {
  readonly type: string
  readonly id: string
  readonly path: string
  /** The key that names another path, or with `name` the directory of that file. */
  readonly key?: string
  readonly name?: string
  /** With this key, the plugin goes without the file. */
  readonly optionalBy?: string
}

const agents: readonly Agent[] = [
  { type: 'flannel', id: 'flannel-subnet-env', key: 'subnetFile', path: '/run/flannel/subnet.env' },
  {
    type: 'calico',
    id: 'calico-nodename',
    key: 'nodename_file',
    optionalBy: 'nodename_file_optional',
    path: '/var/lib/calico/nodename',
  },
  { type: 'cilium-cni', id: 'cilium-agent', path: '/var/run/cilium/cilium.sock' },
  {
    type: 'multus-shim',
    id: 'multus-daemon',
    key: 'daemonSocketDir',
    name: 'multus.sock',
    path: '/run/multus/multus.sock',
  },
  { type: 'multus', id: 'kubeconfig-missing', key: 'kubeconfig', path: '' },
  { type: 'ovn-k8s-cni-overlay', id: 'ovn-agent', path: '/var/run/ovn-kubernetes/cni/ovn-cni-server.sock' },
  { type: 'antrea', id: 'antrea-agent', path: '/var/run/antrea/cni.sock' },
  { type: 'dhcp', id: 'dhcp-daemon', key: 'daemonSocketPath', path: '/run/cni/dhcp.sock' },
]

/** The files that agents of the used plugins should provide, and whether each exists. */
export function lookAtAgents(plugins: readonly PluginFacts[]) {
  const types = plugins.flatMap(({ type, ipamType = '', conf }) => [
    { type, conf },
    { type: ipamType, conf: asObject(lookUp(conf, 'ipam')) },
  ])
  return types.flatMap(({ type, conf }) => {
    const agent = agents.find((each) => each.type === type)
    if (agent === undefined || (agent.optionalBy && lookUp(conf, agent.optionalBy) === true)) return []
    const named = agent.key === undefined ? undefined : lookUp(conf, agent.key)
    const isNamed = typeof named === 'string' && named.startsWith('/')
    const path = isNamed ? join(named, agent.name ?? '') : agent.path
    return path === '' ? [] : [{ plugin: type, id: agent.id, path, isThere: existsSync(path) }]
  })
}
