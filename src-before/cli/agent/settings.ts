// SPDX-License-Identifier: Apache-2.0
// Reads and checks the agent's options.

import { hostname } from 'node:os'
import type { Cidr } from '../../cni/address.ts'
import { isSupported, supportedVersions } from '../../cni/result.ts'
import type { Mode } from '../../model/attachment.ts'
import { soundRange } from '../../plan/agent/node-ranges.ts'
import { type Input, UsageError } from '../shell/command.ts'

/** The mount point of every ServiceAccount's credentials. */
export const serviceAccountDir = '/var/run/secrets/kubernetes.io/serviceaccount'

/**
 * Sources of the API server's address. `kubeconfigs`: files of the host at `hostRoot`; the first readable one counts.
 */
export interface AccessSettings {
  readonly server?: string
  readonly caFile?: string
  readonly tokenFile: string
  readonly kubeconfigs: readonly string[]
  readonly hostRoot: string
}

/** `listen`: address of health and metrics; absent: none. Times in milliseconds; `gcMs` 0: never. */
export interface Settings {
  readonly node: string
  readonly mode: Mode
  readonly network: string
  readonly cniVersion: string
  readonly confDir: string
  readonly confName: string
  readonly binDir: string
  /** The operator's part of the configuration. `isAsked`: the option was given, so the file must exist. */
  readonly template: { readonly file: string; readonly isAsked: boolean }
  /** The host's root directory; empty without a container. */
  readonly hostRoot: string
  /** Remove everything of the agent and of trestle, and do nothing else. */
  readonly isUninstall: boolean
  readonly isCloudRouted: boolean
  /** The ranges of the cluster; empty without the option. */
  readonly clusterCidrs: readonly Cidr[]
  readonly listen?: { readonly host: string; readonly port: number }
  readonly lookMs: number
  readonly gcMs: number
  readonly runtimeEndpoint?: string
  readonly access: AccessSettings
}

/** The kubelet's kubeconfig of kubeadm and most others, of k3s, rke2, k0s and MicroK8s. */
const kubeconfigs = [
  '/etc/kubernetes/kubelet.conf',
  '/var/lib/rancher/k3s/agent/kubelet.kubeconfig',
  '/var/lib/rancher/rke2/agent/kubelet.kubeconfig',
  '/var/lib/k0s/kubelet.conf',
  '/var/snap/microk8s/current/credentials/kubelet.config',
]

/** The mount point of the template in the manifest. */
const usualTemplate = '/etc/trestle/pods.conflist'

/** The settings. Throws UsageError for an invalid value. */
export function settingsOf({ values }: Pick<Input, 'values'>, env = process.env): Settings {
  const text = (name: string) => (typeof values[name] === 'string' && values[name] !== '' ? values[name] : undefined)
  const [server, caFile, kubeconfig] = [text('api-server'), text('ca-file'), text('kubeconfig')]
  const endpoint = text('runtime-endpoint')
  const hostRoot = pathOf('host-root', text('host-root') ?? '/')
  const listen = listenOf(text('listen') ?? '127.0.0.1:9917')
  return {
    node: nameOf(text('node-name') ?? env['NODE_NAME'] ?? hostname().toLowerCase()),
    mode: modeOf(text('mode') ?? 'bridge'),
    network: 'pods',
    cniVersion: versionOf(text('cni-version') ?? '1.1.0'),
    confDir: pathOf('conf-dir', text('conf-dir') ?? '/etc/cni/net.d'),
    confName: '10-trestle.conflist',
    binDir: pathOf('bin-dir', text('bin-dir') ?? '/opt/cni/bin'),
    template: { file: pathOf('template', text('template') ?? usualTemplate), isAsked: text('template') !== undefined },
    hostRoot,
    isUninstall: values['uninstall'] === true,
    isCloudRouted: values['cloud-routes'] === true,
    clusterCidrs: cidrsOf('cluster-cidr', values['cluster-cidr']),
    ...(listen === undefined ? {} : { listen }),
    lookMs: secondsOf('look', text('look') ?? '60', 1),
    gcMs: secondsOf('gc', text('gc') ?? '600', 0),
    ...(endpoint === undefined ? {} : { runtimeEndpoint: endpoint }),
    access: {
      ...(server === undefined ? {} : { server }),
      ...(caFile === undefined ? {} : { caFile }),
      tokenFile: text('token-file') ?? `${serviceAccountDir}/token`,
      kubeconfigs: kubeconfig === undefined ? kubeconfigs : [kubeconfig],
      hostRoot,
    },
  }
}

function nameOf(name: string): string {
  // Names of nodes are DNS subdomains (RFC 1123).
  if (/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(name)) return name
  throw new UsageError(`--node-name ${JSON.stringify(name)}: not a name of a node`)
}

/** The modes whose pods have their gateway on the node. */
const gatewayModes = ['bridge', 'ptp'] as const satisfies readonly Mode[]

function modeOf(name: string): Mode {
  const mode = gatewayModes.find((each) => each === name)
  if (mode !== undefined) return mode
  throw new UsageError(`--mode ${name}: use ${gatewayModes.join(' or ')}`)
}

function versionOf(version: string): string {
  if (isSupported(version)) return version
  throw new UsageError(`--cni-version ${version}: use ${supportedVersions.join(', ')}`)
}

function pathOf(option: string, path: string): string {
  if (path.startsWith('/')) return path.replace(/\/+$/, '')
  throw new UsageError(`--${option} ${path}: use an absolute path`)
}

/** As kube-controller-manager has them: one of a family, with a comma between two. */
function cidrsOf(option: string, list: unknown): readonly Cidr[] {
  if (typeof list !== 'string') return []
  return list.split(',').map((part) => {
    const cidr = soundRange(part.trim())
    if (typeof cidr !== 'string') return cidr
    const given = `--${option} ${JSON.stringify(list)}: ${JSON.stringify(part.trim())} ${cidr}`
    throw new UsageError(`${given}; use CIDRs like 10.244.0.0/16,fd00:10:244::/48`)
  })
}

function secondsOf(option: string, text: string, least: number): number {
  const seconds = Number(text)
  if (/^\d+$/.test(text) && seconds >= least && seconds <= 86_400) return seconds * 1000
  throw new UsageError(`--${option} ${text}: use ${least} to 86400 seconds`)
}

/** Reads `ADDRESS:PORT`, with an IPv6 address in brackets, or `off`. */
function listenOf(text: string): Settings['listen'] {
  if (text === 'off') return undefined
  const [, v6, plain, digits] = /^(?:\[([0-9a-fA-F:]+)\]|([0-9.]+)):(\d{1,5})$/.exec(text) ?? []
  const [host, port] = [v6 ?? plain, Number(digits)]
  if (host !== undefined && port <= 65_535) return { host, port }
  throw new UsageError(`--listen ${text}: use ADDRESS:PORT, like 127.0.0.1:9917, or off`)
}
