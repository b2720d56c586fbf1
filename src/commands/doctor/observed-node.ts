// SPDX-License-Identifier: Apache-2.0
// What every check of doctor starts from: the runtimes, the configuration that each uses, the links and routes of the
// node, trestle's records, and the pod networks. Changes nothing.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { firstOf, formatAddress, parseCidr } from '../../cni/addresses.ts'
import { defined, lookUp } from '../../cni/json.ts'
import { lookAtHost } from '../../kernel/look.ts'
import { netnsState } from '../../kernel/netns.ts'
import type { Place } from '../../kernel/observed.ts'
import type { Machine } from '../../process/machine.ts'
import { stateRoot } from '../../state/layout.ts'
import { type AttachmentRecord, allRecords, findFinished, isDead, knownNetworks } from '../../state/records.ts'
import { openContext } from '../../verbs/context.ts'
import type { Finding } from '../findings.ts'
import { linkIfThere } from '../if-there.ts'
import { subnetsOf } from '../lint/contradictions.ts'
import { lintDirectory } from '../lint/directory.ts'
import type { FileLint } from '../lint/file.ts'
import { openNode } from '../lint/node.ts'
import { openPrograms, type Programs } from '../lint/programs.ts'
import { otherBinDirs, targetOf } from '../lint/runtime-directories.ts'
import type { Progress } from '../output.ts'
import { skipsFaultyFiles } from '../runtimes/ask-runtime.ts'
import { type NodeRuntime, nodeRuntimes, runtimeText } from '../runtimes/node-runtimes.ts'
import { processesOf } from '../runtimes/processes.ts'
import { askRuntime, type PodSandbox } from '../runtimes/runtime-list.ts'
import { defaultBinDir, defaultConfDir } from '../runtimes/runtime-settings.ts'

export const groups = [
  ...(['host', 'kernel', 'runtime', 'configuration', 'agents', 'network'] as const),
  ...(['addresses', 'ports', 'firewall', 'log', 'probe'] as const),
] as const

export type Group = (typeof groups)[number]

/** A group that was not examined, with the reason. `isPartial`: a part of it, which the exit code ignores. */
export interface NotLooked {
  readonly group: Group
  readonly why: string
  readonly isPartial?: true
}

/** What a person asked for. `isRuntimeAsked`: over CRI. */
export interface Options {
  readonly confDir?: string
  readonly binDirs?: readonly string[]
  readonly endpoint?: string
  readonly isRuntimeAsked: boolean
  readonly logFile?: string
  readonly pod?: string
  readonly isProbed: boolean
  readonly peer?: string
}

export interface Runtime {
  readonly name: string
  /** The name with its process or socket. */
  readonly text: string
  readonly socket?: string
  readonly confDir: string
  readonly binDirs: readonly string[]
  /** The file, flag or answer that names the directories; undefined: nobody does. */
  readonly source?: string
  readonly silent?: string
  /** The runtime's own words about a network that is not ready. */
  readonly notReady?: string
}

/** A plugin of the used list. */
export interface Plugin {
  readonly type: string
  readonly conf: Readonly<Record<string, unknown>>
  readonly isOwn: boolean
}

/** A directory of configurations as its runtime sees it. `file`, `network`: what it uses. */
export interface Configuration {
  readonly runtime: Runtime
  readonly findings: readonly Finding[]
  readonly file?: string
  readonly network?: string
  readonly stoppedBy?: string
  readonly plugins: readonly Plugin[]
  /** Valid files: the network of each, and whether trestle is in the list. */
  readonly files: readonly { readonly file: string; readonly network: string; readonly isOwn: boolean }[]
}

/** A pod network of this node, of trestle's state or of the used configuration. */
export interface PodNetwork {
  readonly name: string
  readonly subnets: readonly string[]
  /** Links of the node that the pods' packets pass: bridges, or the host ends of routed pods. */
  readonly links: readonly string[]
  readonly bridges: readonly string[]
  /** trestle puts accepts into chains that drop. */
  readonly accepts: boolean
  /** It has pods. */
  readonly isSetUp: boolean
}

export interface Node {
  readonly options: Options
  readonly machine: Machine
  readonly host: Place
  readonly runtimes: readonly Runtime[]
  readonly configurations: readonly Configuration[]
  /** Of pods that live, of trestle. */
  readonly records: readonly AttachmentRecord[]
  readonly networks: readonly PodNetwork[]
  readonly sandboxes: readonly PodSandbox[]
  /** Container ids that runtimes list; undefined where not all have answered. */
  readonly listed: ReadonlySet<string> | undefined
  readonly hasState: boolean
  /** The process sees the processes and files of its node. */
  readonly isHidden: boolean
  readonly skip: (skipped: NotLooked) => void
  readonly progress: Progress
}

const timeoutMs = 5000

export async function lookAtNode(options: Options, skip: Node['skip'], progress: Progress): Promise<Node> {
  const why = containerReason()
  if (why !== undefined) {
    for (const group of groups) {
      const isNamed = group === 'configuration' && options.confDir !== undefined
      if (group !== 'probe' && !isNamed) skip({ group, why })
    }
  }
  progress('asking the runtimes')
  const found = options.isRuntimeAsked ? await ofThisNode(options.endpoint) : []
  const asked = found.map(runtimeOf)
  const named = defined({
    confDir: options.confDir,
    binDirs: options.binDirs,
    source: options.confDir && '--config-dir',
  })
  const nobody = { name: 'containerd', text: 'no runtime found', confDir: defaultConfDir, binDirs: [defaultBinDir] }
  const isEmpty = asked.length === 0 && (why === undefined || options.confDir !== undefined)
  const runtimes = (isEmpty ? [nobody] : asked).map((runtime): Runtime => ({ ...runtime, ...named }))
  const { machine } = openContext()
  const living = { listed: undefined, sandboxes: [], source: '' }
  const { listed, sandboxes } = await at(skip, 'runtime', living, () =>
    options.isRuntimeAsked ? askRuntime(options.endpoint, progress) : living,
  )
  const isHere = new Map(runtimes.map((runtime) => [`${runtime.name} ${runtime.confDir}`, runtime]))
  const configurations = [...isHere.values()].map((runtime) => configurationOf(runtime, found, skip))
  const host = await at(skip, 'network', { links: new Map(), routes: [] }, () => lookAtHost(machine, 'all', true))
  const hasState = existsSync(stateRoot())
  const records = await at(skip, 'network', [], () => (hasState ? allRecords().filter(isLive) : []))
  return {
    ...{ options, machine, host, configurations, records, sandboxes, listed, hasState, skip, progress },
    runtimes: isEmpty ? [] : runtimes,
    networks: await at(skip, 'network', [], () => podNetworks(hasState, records, { configurations, host })),
    isHidden: why !== undefined,
  }
}

async function at<T>(skip: Node['skip'], group: Group, otherwise: T, look: () => T | Promise<T>): Promise<T> {
  try {
    return await look()
  } catch (error) {
    skip({ group, why: (error as Error).message })
    return otherwise
  }
}

/** A runtime in another network namespace belongs to another node, in a container of this one. */
async function ofThisNode(endpoint: string | undefined): Promise<readonly NodeRuntime[]> {
  const own = linkIfThere('/proc/self/ns/net')
  const all = await nodeRuntimes({ timeoutMs, endpoint })
  return all.filter(({ pid }) => pid === undefined || linkIfThere(`/proc/${pid}/ns/net`) === own)
}

function runtimeOf(found: NodeRuntime): Runtime {
  const { runtime, pid, socket, settings, source, root, notReady, isDenied } = found
  const isSilent = pid !== undefined && socket === undefined && isDenied !== true && process.geteuid?.() === 0
  return {
    name: runtime,
    text: runtimeText(found),
    confDir: `${root}${settings.confDir}`,
    binDirs: settings.binDirs.map((directory) => `${root}${directory}`),
    source,
    ...defined({ socket, notReady }),
    ...(isSilent ? { silent: `${runtimeText(found)} runs, and does not answer over CRI` } : {}),
  }
}

/** `found`: all runtimes of the node. */
function configurationOf(runtime: Runtime, found: readonly NodeRuntime[], skip: Node['skip']): Configuration {
  const installed = openPrograms(runtime.binDirs, otherBinDirs(runtime.binDirs, found))
  const programs: Programs = installed.absence === undefined ? { ...installed, hostLinks: openNode() } : installed
  const { readers, isOfCrio } = targetOf(runtime.confDir, found)
  const { files, findings, prediction } = lintDirectory(runtime.confDir, programs, { readers, isOfCrio })
  if (prediction === undefined && existsSync(runtime.confDir)) {
    skip({ group: 'configuration', why: `a file of ${runtime.confDir} may not be read` })
  }
  const choice = skipsFaultyFiles(runtime.name) ? prediction?.crio : prediction?.containerd
  const used =
    choice?.file === undefined ? undefined : files.find(({ file }) => file === join(runtime.confDir, choice.file))
  return {
    runtime,
    findings,
    ...(choice?.file === undefined
      ? defined({ stoppedBy: choice?.stoppedBy })
      : { file: choice.file, network: choice.network }),
    plugins: used === undefined ? [] : pluginsOf(used, programs),
    files: files.flatMap((each) => {
      const isOwn = pluginsOf(each, programs).some((plugin) => plugin.isOwn)
      return each.list?.name === undefined ? [] : [{ file: each.file, network: each.list.name, isOwn }]
    }),
  }
}

function pluginsOf({ list }: FileLint, { isOwn }: Programs): readonly Plugin[] {
  return (list?.plugins ?? []).map(({ conf }) => {
    const type = String(lookUp(conf, 'type') ?? '')
    return { type, conf, isOwn: isOwn(type) }
  })
}

/** The namespace of a record that was found again is not known. */
function isLive(record: AttachmentRecord): boolean {
  const { id, netns, spec } = record
  if (findFinished(id) === undefined) return false
  return netnsState(netns) === 'live' || (netns.path === '' && spec !== undefined && !isDead(record))
}

/** The networks of the state, and those of trestle in a used configuration that has no pods yet. */
function podNetworks(
  hasState: boolean,
  records: readonly AttachmentRecord[],
  { configurations, host }: Pick<Node, 'configurations' | 'host'>,
): readonly PodNetwork[] {
  const found: PodNetwork[] = []
  for (const { name, role, bridge, ranges, accept } of hasState ? knownNetworks() : []) {
    if (role !== 'main') continue
    const pods = records.filter(({ id }) => id.network === name)
    const ends = pods.flatMap(({ spec }) => spec?.host?.name ?? [])
    const gateway = bridge?.vlanGateway === undefined ? [] : [bridge.vlanGateway.name]
    found.push({
      name,
      subnets: ranges,
      links: bridge === undefined ? ends : [...gateway, bridge.name],
      bridges: bridge === undefined ? [] : [bridge.name],
      accepts: accept !== undefined,
      isSetUp: pods.length > 0,
    })
  }
  for (const { network = '', plugins } of configurations) {
    const [main] = plugins
    // Networks of other plugins are not judged.
    if (main === undefined || !main.isOwn || found.some(({ name }) => name === network)) continue
    const { conf } = main
    const bridge = lookUp(conf, 'bridge') || 'cni0'
    const links = (lookUp(conf, 'mode') ?? 'bridge') === 'bridge' ? [String(bridge)] : []
    found.push({
      name: network,
      subnets: subnetsOf({ conf, steps: [], index: 0 }),
      links,
      bridges: links,
      accepts: lookUp(conf, 'firewall') !== undefined,
      isSetUp: links.some((link) => host.links.has(link)),
    })
  }
  return found
}

/** A likely pod address of the range: the third, behind the gateway. */
export function podOf(subnet: string): string | undefined {
  const cidr = parseCidr(subnet)
  if (cidr === undefined) return undefined
  const { family, value } = firstOf(cidr)
  return formatAddress({ family, value: value + 2n })
}

/** The pod of a record in words. */
export function podText({ id, pod }: AttachmentRecord): string {
  return pod === undefined
    ? `container ${id.containerId.slice(0, 13)}, ${id.ifName}`
    : `${pod.namespace}/${pod.name} (${id.containerId.slice(0, 13)}, ${id.ifName})`
}

/** The first texts, and the number of the rest. */
export function few(texts: readonly string[]): string {
  const most = 4
  const more = texts.length - most
  return [...texts.slice(0, most), ...(more > 0 ? [`and ${more} more`] : [])].join('; ')
}

// Whether this process is in a container that hides its node: then missing parts say nothing about the node.

/** The pid namespace that the kernel starts with (include/linux/proc_ns.h, PROC_PID_INIT_INO). */
const firstPidNamespace = 'pid:[4026531836]'

const nodePrograms = ['containerd', 'crio', 'dockerd', 'kubelet', 'k3s', 'k3s-server', 'k3s-agent']

/** The reason if the node is hidden. A node in a container, as with kind, has its runtime beside us. */
function containerReason(): string | undefined {
  const { env } = process
  const isMarked = env['KUBERNETES_SERVICE_HOST'] || env['container'] || existsSync('/run/.containerenv')
  if (linkIfThere('/proc/self/ns/pid') === firstPidNamespace || !isMarked) return undefined
  if (processesOf(nodePrograms).length > 0) return undefined
  const cure = 'run it on the node itself, or with its pid and network namespaces and its directories'
  return `it runs in a container that sees neither the processes nor the files of its node: ${cure}`
}
