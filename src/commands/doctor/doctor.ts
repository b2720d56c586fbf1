// SPDX-License-Identifier: Apache-2.0
// `trestle doctor`: finds faults of the pod network on this node.

import { type Diagnosis, diagnoses } from '../../catalogue/diagnosis.ts'
import { parseAddress } from '../../cni/addresses.ts'
import { CniError } from '../../cni/errors.ts'
import { openContext } from '../../verbs/context.ts'
import { restoreNetworks } from '../../verbs/restore.ts'
import { type Command, exitCode, type Input, UsageError } from '../command.ts'
import { type Finding, findingOf, wordsOf } from '../findings.ts'
import { sweep } from '../gc-command.ts'
import { type Progress, print, withProgress } from '../output.ts'
import { probeNode } from '../probe/on-node.ts'
import type { Step } from '../probe/pods.ts'
import { type Report, reportText } from './doctor-report.ts'
import { checkFirewalls } from './firewalls.ts'
import { checkKernel } from './kernel.ts'
import { type LoggedError, readErrors } from './log.ts'
import { few, type Group, groups, lookAtNode, type Node, type NotLooked, type Options } from './observed-node.ts'
import { concerns, isUnknown, lookAtPod } from './one-pod.ts'
import { checkAgent, checkConfiguration, checkReadiness, checkRuntimes } from './runtime-configuration.ts'
import { checkLeftovers, checkNetwork, checkPorts } from './state.ts'

export const doctorCommand: Command = {
  name: 'doctor',
  words: '[PEER]',
  maxWords: 1,
  summary: 'find the faults of the pod network of this node',
  description: [
    'Looks at runtimes, configuration, kernel, state, pods, addresses, host ports, firewalls and logs',
    '(docs/commands.md). Only --fix --apply repairs, and only --probe makes pods. Exit code 1: an error or a warning; 3:',
    'nothing was found, and not all could be looked at.',
  ].join('\n'),
  options: {
    only: { type: 'string', value: 'WORDS', help: 'only these groups or ids, commas between' },
    fix: { type: 'boolean', help: "list the repairs of trestle's own network" },
    apply: { type: 'boolean', help: 'with --fix: repair, then look again' },
    'config-dir': { type: 'string', value: 'DIR', help: 'in place of the directory that the runtime uses' },
    'bin-dir': { type: 'string', value: 'DIR', help: 'in place of the directories of plugins; several with : between' },
    'runtime-endpoint': { type: 'string', value: 'SOCKET', help: 'the runtime to ask; default: all that are found' },
    'no-runtime': { type: 'boolean', help: 'ask no runtime' },
    pod: { type: 'string', value: 'POD', help: 'NAMESPACE/NAME or a container id: its facts and its findings' },
    probe: { type: 'boolean', help: 'make two temporary pods, and test what they reach; full packets to PEER' },
    log: { type: 'string', value: 'FILE', help: 'read this file in place of the journal' },
  },
  examples: [
    'trestle doctor',
    'trestle doctor --only kernel,firewall',
    'trestle doctor --pod default/web',
    'trestle doctor --probe 10.244.2.7',
    'trestle doctor --fix --apply',
    'trestle doctor -o json',
  ],
  run,
}

/** What is examined. Rules, namespaces and state are visible to root only. */
const checks: readonly {
  readonly group: Group
  readonly run: (node: Node) => readonly Finding[] | Promise<readonly Finding[]>
  readonly needsRoot?: true
}[] = [
  { group: 'host', run: checkReadiness, needsRoot: true },
  { group: 'kernel', run: checkKernel },
  { group: 'runtime', run: checkRuntimes },
  { group: 'configuration', run: checkConfiguration },
  { group: 'agents', run: checkAgent },
  { group: 'network', run: checkNetwork, needsRoot: true },
  { group: 'addresses', run: checkLeftovers, needsRoot: true },
  { group: 'ports', run: checkPorts, needsRoot: true },
  { group: 'firewall', run: checkFirewalls, needsRoot: true },
]

async function run(input: Input): Promise<number> {
  const { values, words, isJson, output } = input
  const [peer] = words
  const pod = values['pod'] as string | undefined
  if (values['apply'] === true && values['fix'] !== true) throw new UsageError('--apply goes with --fix')
  if (pod !== undefined && !/^[\w.-]+(?:\/[\w.-]+)?$/.test(pod)) {
    throw new UsageError(`--pod ${pod}: use NAMESPACE/NAME, or a container id`)
  }
  if (peer !== undefined && (values['probe'] !== true || parseAddress(peer) === undefined)) {
    throw new UsageError(`${peer}: the only word is the address of a peer, with --probe`)
  }
  const selection = readSelection(values)
  if (selection.groups.length === 0) throw new UsageError('nothing is left to look at: probe goes with --probe')
  const report = await withProgress(isJson, (progress) => examine(input, selection, progress))
  const code = exitCodeOf(report)
  return print(input, { command: 'doctor', document: documentOf(report), text: reportText(report, output), code })
}

interface Selection {
  readonly groups: readonly Group[]
  readonly isMeant: (finding: Pick<Finding, 'id' | 'group'>) => boolean
}

/** Throws UsageError if a word is neither a group nor the id of a finding. */
function readSelection(values: Input['values']): Selection {
  const all = ownDiagnoses()
  const only = wordsOf('only', values['only'], [...groups, ...all.map(({ id }) => id)])
  const isMeant = ({ id, group = '' }: Pick<Finding, 'id' | 'group'>) =>
    only.length === 0 || only.includes(id) || only.includes(group)
  return {
    groups: groups.filter((group) => {
      if (group === 'probe' && values['probe'] !== true) return false
      return isMeant({ id: '', group }) || all.some(({ id, group: own }) => own === group && isMeant({ id, group }))
    }),
    isMeant,
  }
}

export function ownDiagnoses(): readonly Diagnosis[] {
  const all = [...diagnoses().values()].filter(({ group }) => group !== undefined)
  return groups.flatMap((group) => all.filter((each) => each.group === group))
}

/** Looks, and with --fix lists the repairs, or with --apply makes them and looks again. */
async function examine(input: Input, selection: Selection, progress: Progress): Promise<Report> {
  const { values } = input
  const report = await look(input, selection, progress)
  if (values['fix'] !== true) return { ...report, done: [] }
  const fixable = report.findings.filter(({ id }) => [...restored, ...collected].includes(id))
  if (values['apply'] === true && fixable.length > 0) {
    const done = await fix(fixable, input, progress)
    return { ...(await look(input, selection, progress)), done }
  }
  const plan = fixable.map(({ id, on }) => `--apply repairs ${id}: ${on}`)
  return { ...report, done: plan.length > 0 ? plan : ['no finding can be repaired by --fix'] }
}

function optionsOf({ values, words: [peer] }: Input): Options {
  const text = (name: string) => values[name] as string | undefined
  return {
    confDir: text('config-dir'),
    binDirs: text('bin-dir')?.split(':'),
    endpoint: text('runtime-endpoint'),
    isRuntimeAsked: values['no-runtime'] !== true,
    logFile: text('log'),
    peer,
  }
}

/** Runs all checks. One that fails is named with its reason, and the rest goes on. Throws CniError 106 alone. */
async function look(input: Input, selection: Selection, progress: Progress): Promise<Omit<Report, 'done'>> {
  const { groups: selected, isMeant } = selection
  const notLooked: NotLooked[] = []
  const skip = (skipped: NotLooked) => {
    const isKnown = notLooked.some(({ group, why }) => group === skipped.group && why === skipped.why)
    if (!isKnown && selected.includes(skipped.group)) notLooked.push(skipped)
  }
  const attempt = async <T>(group: Group, needsRoot: boolean, otherwise: T, body: () => T | Promise<T>): Promise<T> => {
    if (!selected.includes(group)) return otherwise
    progress(`looking at ${group}`)
    try {
      if (needsRoot && process.geteuid?.() !== 0) throw new Error('it needs root: run it with sudo')
      return await body()
    } catch (error) {
      if (error instanceof CniError && error.id === 'call-interrupted') throw error
      const { message, details } = error as CniError
      skip({ group, why: details === undefined ? message : `${message}: ${details}` })
      return otherwise
    }
  }
  const options = optionsOf(input)
  const node = await lookAtNode(options, skip, progress)
  const found: Finding[] = []
  for (const { group, run: check, needsRoot = false } of checks) {
    found.push(...(await attempt(group, needsRoot, [], () => check(node))))
  }
  const log = await attempt('log', options.logFile === undefined, [], () => readErrors(node))
  const probe = await attempt('probe', true, undefined, () => probeNode(node))
  const all = withoutEchoes(found, log, probe?.steps ?? []).filter(isMeant)
  const about = { node, notLooked, selected, log, probe }
  const asked = input.values['pod'] as string | undefined
  const pod = asked === undefined ? undefined : await attempt('network', true, undefined, () => lookAtPod(node, asked))
  if (pod === undefined) return { ...about, findings: all, pod }
  if (isUnknown(pod, log)) {
    const missing = 'is not known on this node: no record of trestle, no sandbox, and nothing in the log'
    skip({ group: 'network', why: `${pod.asked} ${missing}; \`trestle ps\` lists pods of other plugins` })
  }
  return { ...about, findings: all.filter((finding) => concerns(pod, finding, log)), pod }
}

/** Groups whose errors explain a failed probe: then the failure is a note. */
const causing: readonly string[] = ['kernel', 'network', 'firewall', 'configuration', 'host', 'addresses']

/** One cause is one finding: what follows from another finding is left out. */
function withoutEchoes(
  found: readonly Finding[],
  log: readonly LoggedError[],
  steps: readonly Step[],
): readonly Finding[] {
  const has = (id: string) => found.some((finding) => finding.id === id)
  const isConfigured = found.some(({ severity, group }) => severity === 'error' && group === 'configuration')
  const echoes: Readonly<Record<string, boolean>> = {
    'runtime-not-ready': isConfigured,
    // restore puts the accept there.
    'firewall-drops': has('accept-missing'),
    'route-elsewhere': has('network-differs') || has('ipv6-disabled'),
  }
  const own = found.filter(({ id, message }) => {
    // With IPv6 off its addresses are missing.
    const isOfIpv6 = message.split('; ').every((text) => /^[\da-f]*:[\da-f:]*\/\d+ is missing/.test(text))
    return echoes[id] !== true && !(has('ipv6-disabled') && id === 'network-differs' && isOfIpv6)
  })
  const news = log.filter(({ id }) => !has(id)).map(({ finding }) => finding)
  const isExplained = own.some(({ severity, group = '' }) => severity === 'error' && causing.includes(group))
  const failed = steps.filter(({ outcome }) => outcome === 'failed')
  const idOf = ({ known, target }: Step) => known ?? `probe-${target === 'own-port' ? 'host-port' : target}`
  for (const [id, same] of Map.groupBy(failed, idOf)) {
    if (has(id)) continue
    const message = few(same.map(({ what, detail = '' }) => `${what}: ${detail.replaceAll('\n', '; ')}`))
    const isNote = isExplained && id !== 'probe-del'
    const more = isNote ? ({ severity: 'note', message: `${message} (see the errors above)` } as const) : { message }
    news.push(findingOf({ id, group: 'probe', on: 'temporary pods', ...more }))
  }
  return [...own, ...news]
}

function exitCodeOf({ findings, notLooked }: Report): number {
  if (findings.some(({ severity }) => severity !== 'note')) return exitCode.findings
  return notLooked.some(({ isPartial }) => isPartial !== true) ? exitCode.couldNotLook : exitCode.fine
}

function documentOf({ node, findings, notLooked, done, pod, probe }: Report) {
  return {
    uses: node.configurations.map(({ who, confDir, binDirs, file, network }) => ({
      ...{ runtime: who, confDir, binDirs, file, network },
    })),
    networks: node.networks,
    findings: findings.map((finding): Finding => ({ ...finding, seen: finding.message })),
    notLooked: notLooked.map(({ group, why }) => ({ group, why })),
    ...{ done, pod, probe },
  }
}

// Repairs: rules, links and forwarding of trestle's own networks, and leftovers of dead pods. Rules, files, services and
// modules of other programs and rp_filter are left alone.

/** Findings that `trestle restore` repairs. */
const restored: readonly string[] = ['forwarding-off', 'network-differs', 'accept-missing', 'state-lacks']

/** Findings that `trestle gc --apply` repairs. */
const collected: readonly string[] = ['dead-attachments', 'reservations-leaked', 'orphans', 'pending-cleanup']

/** Returns the repairs in words. Throws CniError as `restore` and `gc` do. */
async function fix(findings: readonly Finding[], { values }: Input, progress: Progress): Promise<readonly string[]> {
  const isAny = (ids: readonly string[]) => findings.some(({ id }) => ids.includes(id))
  const done: string[] = []
  if (isAny(restored)) {
    const { missing } = await restoreNetworks(openContext())
    done.push(...missing.map((text) => `restored: ${text}`))
  }
  if (isAny(collected)) {
    const endpoint = values['runtime-endpoint'] as string | undefined
    const request = { endpoint, isAsked: values['no-runtime'] !== true, isApplied: true }
    const { collected: attachments, failures } = await sweep(request, progress)
    done.push(`removed leftovers of dead pods (${attachments} attachments)`, ...failures)
  }
  return done
}
