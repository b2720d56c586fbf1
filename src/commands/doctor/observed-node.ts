// SPDX-License-Identifier: Apache-2.0
// What every check of doctor starts from: the runtimes, the configuration that each uses, the links and routes of the
// node, trestle's records, and the pod networks. Changes nothing.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { lookUp } from '../../cni/json.ts'
import { lookAtHost } from '../../kernel/look.ts'
import { netnsState } from '../../kernel/netns.ts'
import type { Place } from '../../kernel/observed.ts'
import type { Machine } from '../../process/machine.ts'
import { stateRoot } from '../../state/layout.ts'
import { type AttachmentRecord, allRecords, findFinished, isDead, knownNetworks } from '../../state/records.ts'
import { openContext } from '../../verbs/context.ts'
import type { Finding } from '../findings.ts'
import { subnetsOf } from '../lint/contradictions.ts'
import { lintDirectory } from '../lint/directory.ts'
import type { FileLint } from '../lint/file.ts'
import { openPrograms, type Programs } from '../lint/programs.ts'
import type { Progress } from '../output.ts'
import { type NodeRuntime, nodeRuntimes, runtimeText } from '../runtimes/node-runtimes.ts'
import { askRuntime, type PodSandbox } from '../runtimes/runtime-list.ts'
import { defaultSettings } from '../runtimes/runtime-settings.ts'

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
  readonly confDir: string | undefined
  readonly binDirs: readonly string[] | undefined
  readonly endpoint: string | undefined
  readonly isRuntimeAsked: boolean
  readonly logFile: string | undefined
  /** An address that gets packets of full length with --probe. */
  readonly peer: string | undefined
}

/** A plugin of the used list. */
export interface Plugin {
  readonly type: string
  readonly conf: Readonly<Record<string, unknown>>
  readonly isOwn: boolean
}

/** A directory of configurations as a runtime sees it. `who`: the runtime in words. `file`, `network`: what it uses. */
export interface Configuration {
  readonly who: string
  /** Absent where none runs here, or none was asked. */
  readonly runtime?: NodeRuntime
  readonly confDir: string
  readonly binDirs: readonly string[]
  readonly findings: readonly Finding[]
  readonly file?: string
  readonly network?: string
  readonly stoppedBy?: string | undefined
  /** Why it uses none. */
  readonly reason?: string | undefined
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
  readonly configurations: readonly Configuration[]
  /** Of pods that live, of trestle. */
  readonly records: readonly AttachmentRecord[]
  readonly networks: readonly PodNetwork[]
  readonly sandboxes: readonly PodSandbox[]
  /** Container ids that runtimes list; undefined where not all have answered. */
  readonly listed: ReadonlySet<string> | undefined
  readonly hasState: boolean
  readonly skip: (skipped: NotLooked) => void
}

const timeoutMs = 5000

export async function lookAtNode(options: Options, skip: Node['skip'], progress: Progress): Promise<Node> {
  const { endpoint, isRuntimeAsked } = options
  const attempt = async <T>(group: Group, otherwise: T, look: () => T | Promise<T>): Promise<T> => {
    try {
      return await look()
    } catch (error) {
      skip({ group, why: (error as Error).message })
      return otherwise
    }
  }
  progress('asking the runtimes')
  const runtimes = isRuntimeAsked ? await nodeRuntimes({ timeoutMs, endpoint }) : []
  const unknown = { listed: undefined, sandboxes: [], source: '' }
  const { listed, sandboxes } = await attempt('runtime', unknown, () => {
    return isRuntimeAsked ? askRuntime(endpoint, progress) : unknown
  })
  const ofDirectory = new Map(runtimes.map((runtime) => [`${runtime.runtime} ${runtime.settings.confDir}`, runtime]))
  const configurations = (runtimes.length === 0 ? [undefined] : [...ofDirectory.values()]).map((runtime) => {
    return configurationOf(runtime, options, skip)
  })
  const { machine } = openContext()
  const host = await attempt('network', { links: new Map(), routes: [] }, () => lookAtHost(machine, 'all', true))
  const hasState = existsSync(stateRoot())
  const records = await attempt('network', [], () => (hasState ? allRecords().filter(isLive) : []))
  const known = await attempt('network', [], () => (hasState ? networksOfState(records) : []))
  const networks = [...known, ...networksToCome(configurations, known, host)]
  return { options, machine, host, configurations, records, networks, sandboxes, listed, hasState, skip }
}

function configurationOf(runtime: NodeRuntime | undefined, options: Options, skip: Node['skip']): Configuration {
  const { confDir: usual, binDirs: usualBinDirs } = runtime?.settings ?? defaultSettings
  const confDir = options.confDir ?? usual
  const binDirs = options.binDirs ?? usualBinDirs
  const programs = openPrograms(binDirs)
  const { files, findings, prediction } = lintDirectory(confDir, programs, runtime === undefined ? [] : [runtime])
  if (prediction === undefined && existsSync(confDir)) {
    skip({ group: 'configuration', why: `a file of ${confDir} may not be read` })
  }
  const choice = runtime?.runtime === 'CRI-O' ? prediction?.crio : prediction?.containerd
  const used = files.find(({ file }) => choice?.file !== undefined && file === join(confDir, choice.file))
  return {
    who: runtime === undefined ? 'no runtime found' : runtimeText(runtime),
    ...(runtime === undefined ? {} : { runtime }),
    ...{ confDir, binDirs, findings },
    ...(choice?.file === undefined
      ? { stoppedBy: choice?.stoppedBy, reason: choice?.reason }
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

function networksOfState(records: readonly AttachmentRecord[]): readonly PodNetwork[] {
  const found: PodNetwork[] = []
  for (const { name, role, bridge, ranges, accept } of knownNetworks()) {
    if (role !== 'main') continue
    const pods = records.filter(({ id }) => id.network === name)
    const ends = pods.flatMap(({ spec }) => spec?.host?.name ?? [])
    const gateway = bridge?.vlanGateway === undefined ? [] : [bridge.vlanGateway.name]
    const links = bridge === undefined ? ends : [...gateway, bridge.name]
    const bridges = bridge === undefined ? [] : [bridge.name]
    found.push({ name, subnets: ranges, links, bridges, accepts: accept !== undefined, isSetUp: pods.length > 0 })
  }
  return found
}

/** Networks of trestle in a used configuration that have no pods yet. */
function networksToCome(
  configurations: readonly Configuration[],
  known: readonly PodNetwork[],
  host: Place,
): readonly PodNetwork[] {
  const found: PodNetwork[] = []
  for (const { network = '', plugins } of configurations) {
    const [main] = plugins
    // Networks of other plugins are not judged.
    if (main === undefined || !main.isOwn || [...known, ...found].some(({ name }) => name === network)) continue
    const { conf } = main
    const isBridge = (lookUp(conf, 'mode') ?? 'bridge') === 'bridge'
    const links = isBridge ? [String(lookUp(conf, 'bridge') || 'cni0')] : []
    const subnets = subnetsOf({ conf, steps: [], index: 0 })
    const accepts = lookUp(conf, 'firewall') !== undefined
    const isSetUp = links.some((link) => host.links.has(link))
    found.push({ name: network, subnets, links, bridges: links, accepts, isSetUp })
  }
  return found
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

/** A word that a shell takes literally: commands are pasted, and what others wrote may contain anything. */
export function shellWord(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
