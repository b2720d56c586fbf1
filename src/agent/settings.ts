// SPDX-License-Identifier: Apache-2.0
// `trestle agent`: its options for help, and what they mean.

import { hostname } from 'node:os'
import { type Command, type Input, UsageError } from '../commands/command.ts'
import { type Range, readPodRange } from './node-ranges.ts'

/** Where a ServiceAccount's credentials are mounted. */
export const serviceAccountDirectory = '/var/run/secrets/kubernetes.io/serviceaccount'

const option = (value: string, help: string) => ({ type: 'string', value, help }) as const

export const agentCommand: Command = {
  name: 'agent',
  words: '',
  maxWords: 0,
  summary: 'keep a Kubernetes node in its cluster: configuration, routes, repair',
  description: [
    "Runs on every node until a signal. The agent waits for the node's podCIDRs and writes the configuration, keeps",
    'routes to the podCIDRs of all other nodes, repairs damage, and collects garbage. Its log is JSON, a line each.',
    'It has to list and watch nodes, to patch the status of its node, and to create events. After its end the network',
    'of pods stays. docs/kubernetes.md has the manifest.',
  ].join('\n'),
  options: {
    'node-name': option('NAME', 'name of this node; default: $NODE_NAME, else the host name'),
    mode: option('MODE', 'ptp (default): a routed link for each pod; or bridge'),
    overlay: option('WHEN', 'auto (default): encapsulate to nodes behind a router; never; or always, to all nodes'),
    'overlay-port': option('PORT', 'UDP port of the overlay; default: 4790'),
    'overlay-vni': option('VNI', 'VXLAN network identifier; default: 4790'),
    'cloud-routes': { type: 'boolean', help: 'make no routes: a cloud makes them and sets NetworkUnavailable' },
    'cluster-cidr': option('CIDR,…', 'route only podCIDRs of other nodes within these ranges; default: any range'),
    'api-server': option('URL', "default: the server of the kubelet's kubeconfig, else of the environment"),
    'ca-file': option('FILE', "CA of the API server's certificate"),
    kubeconfig: option('FILE', "the kubelet's kubeconfig on the host, for address and CA"),
    'token-file': option('FILE', "default: the ServiceAccount's token"),
    'conf-dir': option('DIR', 'default: /etc/cni/net.d'),
    'bin-dir': option('DIR', 'default: /opt/cni/bin'),
    template: option('FILE', 'further keys of the configuration; default: /etc/trestle/pods.conflist, if present'),
    'host-root': option('DIR', "in a container: the host's root directory, /proc/1/root"),
    'runtime-endpoint': option('SOCKET', 'the runtime to ask before garbage is collected'),
    uninstall: { type: 'boolean', help: 'remove all that agent and plugin made, once no pod is attached' },
    listen: option('ADDR:PORT', 'address of health and metrics; default: 127.0.0.1:9917; off: none'),
    look: option('SECONDS', 'seconds between looks for changes on the node; default: 5'),
    gc: option('SECONDS', 'seconds between garbage collections; default: 600; 0: never'),
  },
  examples: ['trestle agent', 'trestle agent --overlay never --node-name node-1', 'trestle agent --cloud-routes'],
  run: () => {
    throw new Error("the agent's own bundle runs it (src/main.ts)")
  },
}

/** `kubeconfigs`: files of the host at `hostRoot`; the first readable one counts. */
export interface AccessSettings {
  readonly server?: string
  readonly caFile?: string
  readonly tokenFile: string
  readonly kubeconfigs: readonly string[]
  readonly hostRoot: string
}

export type AgentMode = 'bridge' | 'ptp'

export interface OverlaySettings {
  readonly when: 'auto' | 'never' | 'always'
  readonly port: number
  readonly vni: number
}

/** `listen`: absent where nothing is served. Times in milliseconds; `gcMs` 0: never. */
export interface Settings {
  readonly node: string
  readonly mode: AgentMode
  readonly network: string
  readonly overlay: OverlaySettings
  readonly confDir: string
  readonly confName: string
  readonly binDir: string
  /** The operator's part of the configuration. `isAsked`: the option was given, so the file must exist. */
  readonly template: { readonly file: string; readonly isAsked: boolean }
  /** The host's root directory; empty without a container. */
  readonly hostRoot: string
  readonly isUninstall: boolean
  readonly isCloudRouted: boolean
  /** The ranges of the cluster; empty without the option. */
  readonly clusterRanges: readonly Range[]
  readonly listen?: { readonly host: string; readonly port: number }
  readonly lookMs: number
  readonly gcMs: number
  readonly runtimeEndpoint?: string
  readonly access: AccessSettings
}

/** The kubelet's kubeconfig of kubeadm and most others, of k3s, rke2, k0s and MicroK8s. */
const usualKubeconfigs = [
  '/etc/kubernetes/kubelet.conf',
  '/var/lib/rancher/k3s/agent/kubelet.kubeconfig',
  '/var/lib/rancher/rke2/agent/kubelet.kubeconfig',
  '/var/lib/k0s/kubelet.conf',
  '/var/snap/microk8s/current/credentials/kubelet.config',
]

/** The port of VXLAN-GPE (IANA). VNIs have 24 bits. */
const usualPort = 4790
const largestVni = 2 ** 24 - 1

/** Throws UsageError for an invalid value. */
export function readSettings({ values }: Pick<Input, 'values'>, env = process.env): Settings {
  const text = (name: string) => (typeof values[name] === 'string' && values[name] !== '' ? values[name] : undefined)
  const [server, caFile, kubeconfig, endpoint] = ['api-server', 'ca-file', 'kubeconfig', 'runtime-endpoint'].map(text)
  const hostRoot = readPath('host-root', text('host-root') ?? '/')
  const listen = readListen(text('listen') ?? '127.0.0.1:9917')
  const isCloudRouted = values['cloud-routes'] === true
  return {
    node: readName(text('node-name') ?? env['NODE_NAME'] ?? hostname().toLowerCase()),
    mode: readWord('mode', text('mode') ?? 'ptp', ['bridge', 'ptp']),
    network: 'pods',
    overlay: {
      when: isCloudRouted ? 'never' : readWord('overlay', text('overlay') ?? 'auto', ['auto', 'never', 'always']),
      port: readNumber('overlay-port', text('overlay-port') ?? `${usualPort}`, 1, 65_535),
      vni: readNumber('overlay-vni', text('overlay-vni') ?? `${usualPort}`, 1, largestVni),
    },
    confDir: readPath('conf-dir', text('conf-dir') ?? '/etc/cni/net.d'),
    confName: '10-trestle.conflist',
    binDir: readPath('bin-dir', text('bin-dir') ?? '/opt/cni/bin'),
    template: {
      file: readPath('template', text('template') ?? '/etc/trestle/pods.conflist'),
      isAsked: text('template') !== undefined,
    },
    hostRoot,
    isUninstall: values['uninstall'] === true,
    isCloudRouted,
    clusterRanges: readRanges('cluster-cidr', values['cluster-cidr']),
    ...(listen === undefined ? {} : { listen }),
    lookMs: readNumber('look', text('look') ?? `${usualLookMs / 1000}`, 1, 86_400) * 1000,
    gcMs: readNumber('gc', text('gc') ?? '600', 0, 86_400) * 1000,
    ...(endpoint === undefined ? {} : { runtimeEndpoint: endpoint }),
    access: {
      ...(server === undefined ? {} : { server }),
      ...(caFile === undefined ? {} : { caFile }),
      tokenFile: text('token-file') ?? `${serviceAccountDirectory}/token`,
      kubeconfigs: kubeconfig === undefined ? usualKubeconfigs : [kubeconfig],
      hostRoot,
    },
  }
}

export const usualLookMs = 5000

/** Names of nodes are DNS subdomains (RFC 1123). */
function readName(name: string): string {
  if (/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(name)) return name
  throw new UsageError(`--node-name ${JSON.stringify(name)}: not a name of a node`)
}

function readWord<const Word extends string>(option: string, text: string, words: readonly Word[]): Word {
  const word = words.find((each) => each === text)
  if (word !== undefined) return word
  throw new UsageError(`--${option} ${text}: use ${words.join(' or ')}`)
}

function readPath(option: string, path: string): string {
  if (path.startsWith('/')) return path.replace(/\/+$/, '')
  throw new UsageError(`--${option} ${path}: use an absolute path`)
}

function readNumber(option: string, text: string, least: number, most: number): number {
  if (/^\d{1,9}$/.test(text) && Number(text) >= least && Number(text) <= most) return Number(text)
  throw new UsageError(`--${option} ${text}: use a number from ${least} to ${most}`)
}

/** As kube-controller-manager has them: one of a family, with a comma between two. */
function readRanges(option: string, list: string | boolean | undefined): readonly Range[] {
  return (typeof list === 'string' ? list.split(',') : []).map((part) => {
    const range = readPodRange(part.trim())
    if (typeof range !== 'string') return range
    const given = `--${option} ${JSON.stringify(list)}: ${JSON.stringify(part.trim())} ${range}`
    throw new UsageError(`${given}; use CIDRs like 10.244.0.0/16,fd00:10:244::/48`)
  })
}

/** `ADDRESS:PORT`, with an IPv6 address in brackets, or `off`. */
function readListen(text: string): Settings['listen'] {
  if (text === 'off') return undefined
  const [, v6, v4, digits] = /^(?:\[([0-9a-fA-F:]+)\]|([0-9.]+)):(\d{1,5})$/.exec(text) ?? []
  const [host, port] = [v6 ?? v4, Number(digits)]
  if (host !== undefined && port <= 65_535) return { host, port }
  throw new UsageError(`--listen ${text}: use ADDRESS:PORT, like 127.0.0.1:9917, or off`)
}
