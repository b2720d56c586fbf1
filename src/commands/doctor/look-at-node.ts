// SPDX-License-Identifier: Apache-2.0
// Gathers all facts. A part that cannot be examined is named with its reason, and the rest goes on.

import { openContext } from '../../../src-before/commands/call/context.ts'
import { allNetworks } from '../../../src-before/core.ts'
import type { NetworkSpec } from '../../../src-before/model/attachment.ts'
import { emptyNamespace } from '../../../src-before/model/observed.ts'
import type { AttachmentRecord } from '../../../src-before/model/record.ts'
import { observeHost } from '../../../src-before/system/kernel/observe.ts'
import { readAgentProblems } from '../../../src-before/system/store/agent-problems.ts'
import { CniError } from '../../cni/errors.ts'
import { defined } from '../../cni/json.ts'
import type { Run } from '../../process/runner.ts'
import type { Progress } from '../output.ts'
import { askRuntime } from '../runtimes/runtime-list.ts'
import { type Group, type NodeFacts, type NotLooked, type ProbeFacts, unnamedSource } from './facts.ts'
import { lookAtFirewalls } from './firewalls.ts'
import { lookAtKernel } from './kernel.ts'
import { lookAtLimits } from './limits.ts'
import { errorsIn, readLog } from './log.ts'
import { lookAtPools, lookAtReadiness, podNetworks } from './networks.ts'
import { lookAtPod } from './one-pod.ts'
import { probeNode } from './probe.ts'
import {
  containerReason,
  defaults,
  groupsOfNode,
  lookAtRuntimes,
  type Named,
  namedDirectories,
  type Runtimes,
} from './runtimes.ts'
import { hasOwnLinks, hasState, livePods, lookAtState, podsOfOthers } from './state.ts'
import { lookAtAgents, lookAtConfiguration } from './used-configuration.ts'

/**
 * `isRuntimeAsked`: over CRI. `logFile`: replaces the journal. `pod`: NAMESPACE/NAME or a container id, to be examined
 * as well.
 */
interface LookOptions extends Named {
  readonly isRuntimeAsked: boolean
  readonly logFile?: string
  readonly isProbed?: boolean
  /** An address that the probe sends packets of full length to. */
  readonly peer?: string
  readonly pod?: string
  readonly progress: Progress
}

/** The facts of this node. Throws only CniError 106, when interrupted. */
export async function lookAtNode(options: LookOptions): Promise<NodeFacts> {
  const look = openLook(options.progress)
  const why = containerReason()
  if (why !== undefined) for (const group of groupsOfNode.filter(isMeant(options))) look.add({ group, why })
  const { pod: asked } = options
  const nowMs = Date.now()
  const none = { facts: [], found: [] }
  const { facts: runtimes, found } = options.isRuntimeAsked
    ? await look.at('runtime', () => lookAtRuntimes(options), none)
    : none
  // A container's own files are not the node's.
  const isHidden = why !== undefined && options.confDir === undefined
  const nobody = { name: 'containerd', text: 'no runtime found', ...defaults, source: unnamedSource }
  const configurations = configurationsOf(look, {
    facts: runtimes.length > 0 || isHidden ? runtimes : [{ ...nobody, ...namedDirectories(options) }],
    found,
  })
  const nothing = { listed: undefined, sandboxes: [], inUse: [] }
  const { listed, sandboxes, inUse } = options.isRuntimeAsked
    ? await look.at('runtime', () => askRuntime(options.endpoint, options.progress), nothing)
    : nothing
  // The deadline of the context starts after the runtime's, which may be slow.
  const context = openContext(new AbortController().signal)
  const { run } = context
  const host = await look.at('network', () => observeHost(run, undefined, 'all'), emptyNamespace)
  const [specs, live] = await look.at('network', recorded, [[], []])
  const networks = podNetworks({ networks: specs, records: live, configurations, host })
  const plugins = configurations.flatMap((each) => each.plugins)
  // A container may see the node's links, and never has its state.
  const others = await look.at('network', podsOfOthers, [])
  const isStateSeen = hasState() || (why === undefined && hasOwnLinks(host))
  const state = isStateSeen
    ? await look.asRoot(['network', 'addresses', 'ports'], () => lookAtState(host, listed))
    : undefined
  // If a tool does not run in pods, the rest of the state is still examined.
  for (const each of state?.podsNotSeen ?? []) look.add({ group: 'network', why: each })
  return {
    nowMs,
    networks,
    runtimes,
    socketsInUse: inUse,
    configurations,
    agents: lookAtAgents(plugins),
    agentProblems: await look.at('agents', readAgentProblems, []),
    readiness: (await look.asRoot('host', () => eachOf(configurations, (each) => lookAtReadiness(each)))) ?? [],
    pools: await look.at('addresses', () => configurations.flatMap((each) => lookAtPools(each, listed)), []),
    ...defined({
      kernel: await look.at('kernel', () => lookAtKernel(run, { host, networks, records: live }), undefined),
      state,
      firewalls: await look.asRoot('firewall', () => lookAtFirewalls(run, { specs, networks })),
      limits: await look.at('limits', lookAtLimits, undefined),
      log: await look.at('log', () => logged(run, nowMs, options.logFile, look), undefined),
      pod: asked === undefined ? undefined : await look.asRoot('network', () => lookAtPod(context, asked, sandboxes)),
      probe:
        options.isProbed === true ? await look.asRoot('probe', () => probed(configurations, options.peer)) : undefined,
    }),
    notLooked: [...look.notLooked, ...others],
  }
}

/** Probes the list of the first runtime. */
function probed(configurations: NodeFacts['configurations'], peer?: string): Promise<ProbeFacts> {
  const used = configurations.find(({ file }) => file !== undefined)
  return probeNode(used === undefined ? undefined : { ...used.runtime, ...used }, peer)
}

/** A directory that a person named is examined even in a container. */
function isMeant({ confDir }: Named): (group: Group) => boolean {
  return (group) => group !== 'configuration' || confDir === undefined
}

type Recorded = readonly [readonly NetworkSpec[], readonly AttachmentRecord[]]

function recorded(): Recorded {
  return hasState() ? [allNetworks(), livePods()] : [[], []]
}

type Groups = readonly Group[]

type Look = ReturnType<typeof openLook>

function openLook(progress: Progress) {
  const notLooked: NotLooked[] = []
  const at = async <T, E>(group: Group | Groups, body: () => T | Promise<T>, otherwise: E): Promise<T | E> => {
    const groups = [group].flat()
    progress(`looking at ${groups[0]}`)
    try {
      return await body()
    } catch (error) {
      if (error instanceof CniError && error.id === 'call-interrupted') throw error
      const why = whyOf(error)
      const isNews = (each: Group) => !notLooked.some((other) => other.group === each && other.why === why)
      notLooked.push(...groups.filter(isNews).map((each) => ({ group: each, why })))
      return otherwise
    }
  }
  /** Rules, namespaces and state are visible to root only. */
  const asRoot = async <T>(group: Group | Groups, body: () => Promise<T>): Promise<T | undefined> =>
    await at(group, isRoot() ? body : () => Promise.reject(new Error(needsRoot)), undefined)
  return { at, asRoot, notLooked: notLooked as readonly NotLooked[], add: (each: NotLooked) => notLooked.push(each) }
}

const isRoot = () => process.geteuid?.() === 0
const needsRoot = 'it needs root: run it with sudo'

function whyOf(error: unknown): string {
  if (error instanceof CniError) return `${error.message}${error.details === undefined ? '' : `: ${error.details}`}`
  return (error as Error).message
}

function configurationsOf(look: Look, { facts, found }: Runtimes) {
  const byDirectory = new Map(facts.map((runtime) => [`${runtime.name} ${runtime.confDir}`, runtime]))
  return [...byDirectory.values()].map((runtime) => {
    const configuration = lookAtConfiguration(runtime, found)
    if (configuration.couldNotLook === true)
      look.add({ group: 'configuration', why: `a file of ${runtime.confDir} may not be read` })
    return configuration
  })
}

async function eachOf<A, B>(all: readonly A[], body: (one: A) => Promise<readonly B[]>): Promise<readonly B[]> {
  const found: B[] = []
  for (const one of all) found.push(...(await body(one)))
  return found
}

async function logged(run: Run, nowMs: number, file: string | undefined, look: Look) {
  const lines = await readLog(run, nowMs, file)
  if (lines !== undefined) return errorsIn(lines)
  // The journal is silently empty for other users; an unreadable file has failed earlier.
  if (!isRoot()) throw new Error(needsRoot)
  const why = 'neither the journal nor a log file has a line of a runtime or kubelet of the last hour (--log FILE)'
  look.add({ group: 'log', why, isPartial: true })
  return undefined
}
