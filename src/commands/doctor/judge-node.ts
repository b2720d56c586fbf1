// SPDX-License-Identifier: Apache-2.0
// Findings about runtimes, configuration, agents, pools and the log.

import { basename, join } from 'node:path'
import type { Problem } from '../../agent/cluster.ts'
import { diagnosis } from '../../catalogue/diagnosis.ts'
import { counted, type Finding, findingOf } from '../findings.ts'
import { skipsFaultyFiles } from '../runtimes/ask-runtime.ts'
import {
  type ConfigurationFacts,
  type Group,
  type NodeFacts,
  type PoolFacts,
  type ReadinessFacts,
  type RuntimeFacts,
  unnamedSource,
} from './facts.ts'
import { shellWord } from './judge-kernel.ts'
import { few } from './judge-state.ts'

/** Runtimes without an answer, or with a network that is not ready unless a configuration finding explains that. */
export function judgeRuntimes(facts: NodeFacts, others: readonly Finding[]): readonly Finding[] {
  const isExplained = others.some(({ severity, group }) => severity === 'error' && group === 'configuration')
  return facts.runtimes.flatMap((runtime) => {
    const { text, silent, notReady } = runtime
    if (silent !== undefined) return [findingOf({ id: 'runtime-silent', on: text, message: silent })]
    if (notReady === undefined || isExplained) return []
    const severity = isUnused(runtime, facts) ? 'note' : undefined
    return [findingOf({ id: 'runtime-not-ready', on: text, message: notReady, severity })]
  })
}

/** A runtime without pods and without a configuration, beside a ready one: Docker's containerd beside that of k3s. */
function isUnused(
  { socket, notReady, confDir }: RuntimeFacts,
  { runtimes, socketsInUse, configurations }: NodeFacts,
): boolean {
  const isReady = (other: RuntimeFacts) => other.silent === undefined && other.notReady === undefined && other.socket
  const ownFiles = configurations.filter(({ runtime }) => runtime.confDir === confDir).flatMap(({ files }) => files)
  const isWithout = notReady !== undefined && ownFiles.length === 0 && !socketsInUse.includes(socket ?? '')
  return isWithout && runtimes.some((other) => other.confDir !== confDir && isReady(other))
}

/** If no runtime was found and nobody named a directory, an empty directory is normal: the node has no pods. */
function isMeantForPods({ runtime, files }: ConfigurationFacts, { runtimes, state }: NodeFacts): boolean {
  const isDefault = runtimes.length === 0 && runtime.source === unnamedSource
  return !isDefault || files.length > 0 || (state?.podsOf.size ?? 0) > 0
}

/** Findings of lint about other runtimes. */
const ofThoseThatSkip = ['runtimes-differ', 'cri-o-skips', 'cnitool-stops']
const ofThoseThatStop = ['runtimes-differ', 'containerd-stops', 'cnitool-stops']

/** A second file of the used network: it is unused, or shares the network's state. */
function isSecondOfUsed({ id, on }: Finding, { network, files }: ConfigurationFacts): boolean {
  const own = files.find((each) => each.file === on)
  return id === 'same-network' && own !== undefined && own.network === network
}

/**
 * Findings about the directory, the used file and its network; another file counts only if it hides the intended one.
 */
export function judgeConfiguration(facts: NodeFacts): readonly Finding[] {
  return facts.configurations
    .filter((each) => isMeantForPods(each, facts))
    .flatMap((each) => {
      const skips = skipsFaultyFiles(each.runtime.name)
      const stopper = skips ? undefined : each.prediction?.containerd
      const stoppedBy = stopper !== undefined && 'stoppedBy' in stopper ? stopper.stoppedBy : undefined
      const about = [each.file, stoppedBy]
      const files = [
        each.runtime.confDir,
        ...about.flatMap((name) => (name === undefined ? [] : [join(each.runtime.confDir, name)])),
      ]
      const skipped: readonly string[] = skips ? ofThoseThatStop : ofThoseThatSkip
      const isMeant = (finding: Finding) =>
        finding.severity !== 'note' &&
        (files.includes(finding.on) || isSecondOfUsed(finding, each)) &&
        !skipped.includes(finding.id)
      const inTheWay = join(each.runtime.confDir, stoppedBy ?? '')
      // A valid file behind it is used once the broken file is moved away.
      const hasAnother = each.files.some(({ file, isOwn }) => isOwn && basename(file) !== stoppedBy)
      const more = stoppedBy !== undefined && hasAnother ? { run: aside(inTheWay) } : {}
      const found = each.findings
        .filter(isMeant)
        .map((each) => ({ ...ofLint(each), ...(each.on === inTheWay ? more : {}) }))
      if (isUnused(each.runtime, facts)) return found.map((finding) => ({ ...finding, severity: 'note' as const }))
      return withoutShadowing(found, shadowed(each, facts))
    })
}

/** A file that hides the intended one and lacks its plugin is renamed, and needs no plugin then. */
function withoutShadowing(found: readonly Finding[], [shadow]: readonly Finding[]): readonly Finding[] {
  if (shadow === undefined) return found
  const effects = found.filter(({ id, on }) => id === 'plugin-missing' && on.startsWith(`${shadow.on}:`))
  const severity = effects.length > 0 ? 'error' : shadow.severity
  const message = [shadow, ...effects].map((each) => each.message).join('; ')
  return [...found.filter((each) => !effects.includes(each)), { ...shadow, severity, message }]
}

/** Renames a file so that no runtime reads it. */
function aside(path: string): string {
  return `mv ${shellWord(path)} ${shellWord(`${path}.disabled`)}`
}

function ofLint({ line, column, excerpt: _, file, ...finding }: Finding): Finding {
  const on = line === undefined ? finding.on : `${file}:${line}:${column}`
  return { ...finding, group: 'configuration', on, consequence: finding.message }
}

/** Multus and similar plugins delegate to the other files. */
const delegators = ['multus', 'multus-shim', 'genie', 'danm']

/**
 * Another file is meant if kubelet's pods live in its network; a person or nerdctl may use any file. If pods live in
 * the used network too, it is meant as well.
 */
function shadowed(
  { file, network = '', plugins, files, runtime, hasPods }: ConfigurationFacts,
  { state }: NodeFacts,
): readonly Finding[] {
  const countOf = (other: { readonly network: string }) => state?.podsOfKubelet.get(other.network) ?? 0
  const isMeantToo = hasPods === true || (state?.podsOf.get(network) ?? 0) > 0
  if (file === undefined || isMeantToo || plugins.some(({ type }) => delegators.includes(type))) return []
  const others = files.filter((other) => other.network !== network && other.isOwn)
  const hasOwn = plugins.some(({ isOwn }) => isOwn)
  const meant = others.find((other) => countOf(other) > 0) ?? (hasOwn ? undefined : others[0])
  if (meant === undefined) return []
  const count = countOf(meant)
  const pods = count === 0 ? '' : `, and ${count} of the pods here live in network ${meant.network} of ${meant.file}`
  const message = `the runtime uses it instead of ${meant.file}: new pods get network ${network}${pods}`
  const path = join(runtime.confDir, file)
  // Without pods nobody knows which network is meant: without a used one the cluster has none.
  return [findingOf({ id: 'config-shadowed', on: path, message, run: count === 0 ? undefined : aside(path) })]
}

export function judgeAgents({ agents, agentProblems }: NodeFacts): readonly Finding[] {
  const absent = agents.filter(({ isThere }) => !isThere)
  return [
    ...absent.map(({ plugin, id, path }) => findingOf({ id, on: `plugin ${plugin}`, message: `${path} is not there` })),
    ...agentProblems.map(({ id, node, text }) =>
      findingOf({ id: diagnosisOfProblem(id), on: `node ${node}`, message: text }),
    ),
  ]
}

export function judgePools({ pools, readiness }: NodeFacts): readonly Finding[] {
  return [...readiness.map(notReady), ...pools.flatMap(ofPool)]
}

/** The group of a STATUS error; any other error is about the host. */
const groupsOfStatus: Readonly<Record<string, Group>> = {
  'not-ready-pool': 'addresses',
}

function notReady({ network, id, message, details }: ReadinessFacts): Finding {
  return findingOf({
    id,
    group: groupsOfStatus[id] ?? 'host',
    on: `network ${network}`,
    message: `${message.replace('not ready: ', '')}; ${details}`,
    consequence: 'no further pod starts: the next ADD fails',
  })
}

function ofPool({ network, ranges, taken, total, leaked, isAnyListed, directory }: PoolFacts): readonly Finding[] {
  const on = `network ${network}`
  // The files alone that were judged: other networks of the directory may be of other runtimes.
  const run = leaked.length === 0 ? undefined : `(cd ${shellWord(directory)} && rm -v ${leaked.join(' ')})`
  const lost = `of containers that no runtime lists: ${few(leaked)}`
  if (BigInt(taken) >= total) {
    const isLeaked = run === undefined ? '' : `, ${leaked.length} of them ${lost}`
    const message = `${taken} of ${total} addresses of ${ranges} are reserved in ${directory}${isLeaked}`
    const cure = run === undefined ? (isAnyListed ? largerRange : askByHand) : diagnosis('host-local-leaked').cure
    const { run: _, ...found } = findingOf({ id: 'host-local-full', on, message, cure })
    return [run === undefined ? found : { ...found, run }]
  }
  if (run === undefined) return []
  const message = `${leaked.length} of ${taken} reservations in ${directory} are ${lost}`
  return [findingOf({ id: 'host-local-leaked', on, message, run })]
}

const largerRange = 'no file is of a container that is gone: give the network a larger range'
const askByHand =
  'no runtime told which containers live: `trestle explain host-local-full` has a way to find leaked files'

/** A runtime retries within minutes: a newer error is still current. */
const stillMs = 5 * 60 * 1000

/** The message of a line of klog or logfmt, without source and time. */
function messageOf(text: string): string {
  const bare = text.replace(/^.*?\b[IWEF]\d{4} [\d:.]+ +\d+ \S+\] /, '').replace(/^time=\S+ level=\w+ msg=/, '')
  return bare.length > mostLength ? `${bare.slice(0, mostLength)}…` : bare
}

const mostLength = 500

/**
 * A current error is a warning, an old one is a note. An error that another group reports is left out, as is a missing
 * configuration that is there by now: containerd logs it at each other file of the directory.
 */
export function judgeLog(facts: NodeFacts, others: readonly Finding[]): readonly Finding[] {
  const { log = [], nowMs, configurations } = facts
  const isOver = (id: string) => id === 'no-network-config' && configurations.every(({ file }) => file !== undefined)
  return log
    .filter(({ id }) => !isOver(id) && !others.some((other) => other.id === id))
    .map(({ id, count, lastMs, pods, units, text }) =>
      findingOf({
        id,
        group: 'log',
        severity: nowMs - lastMs < stillMs ? 'warning' : 'note',
        on: pods.length > 0 ? few(pods) : few(units),
        message:
          `${counted(count, 'time')} in the last hour, last ${new Date(lastMs).toISOString()}: ` + `${messageOf(text)}`,
      }),
    )
}

/** The id of a problem's diagnosis in the catalogue: `agent-no-pod-cidr`. */
function diagnosisOfProblem(id: Problem['id']): string {
  return `agent-${id.replace(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase()}`
}
