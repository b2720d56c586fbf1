// SPDX-License-Identifier: Apache-2.0
// `trestle doctor`: finds faults of the pod network on this node.

import { setTimeout as sleep } from 'node:timers/promises'
import { restore, type SweepRequest, sweep } from '../../../src-before/core.ts'
import { type Diagnosis, diagnoses } from '../../catalogue/diagnosis.ts'
import { parseAddress } from '../../cni/addresses.ts'
import { defined } from '../../cni/json.ts'
import { type Command, exitCode, type Input, UsageError } from '../command.ts'
import { type Finding, listDiagnoses, wordsOf } from '../findings.ts'
import { type Progress, print, withProgress } from '../output.ts'
import { versionText } from '../version.ts'
import { type Report, reportText, shortText } from './doctor-report.ts'
import { type Group, groups, type NodeFacts, type NotLooked } from './facts.ts'
import { judge } from './judge.ts'
import { kernelRelease } from './kernel.ts'
import { lookAtNode } from './look-at-node.ts'
import { concerns, isUnknown } from './one-pod.ts'

export const doctorCommand: Command = {
  name: 'doctor',
  words: '[PEER]',
  maxWords: 1,
  summary: 'find the faults of the pod network of this node',
  description: [
    'Looks at the runtime and the directories that it uses, the configuration in use, agents of other plugins, the',
    'kernel (forwarding, rp_filter, IPv6, br_netfilter, policy rules), state against the links, routes and rules',
    'that exist, the inside of pods, addresses and host ports, leftovers of dead pods, other firewalls, limits, and',
    'the last hour of the logs of runtimes and kubelet. It changes nothing. Works beside other plugins too, without',
    'trestle. Each finding has an id: `trestle explain forwarding-off`. Exit code 1: an error or a warning; 3:',
    'nothing was found, and not all could be looked at.',
  ].join('\n'),
  options: {
    only: { type: 'string', value: 'WORDS', help: 'only these groups or ids, commas between' },
    skip: { type: 'string', value: 'WORDS', help: 'leave these groups or ids out' },
    list: { type: 'boolean', help: 'list the ids of findings, and look at nothing' },
    short: { type: 'boolean', help: 'one line, with versions' },
    wait: { type: 'string', value: 'SECONDS', help: 'repeat the look until nothing is found, for at most SECONDS' },
    fix: { type: 'boolean', help: "list the repairs of trestle's own network" },
    apply: { type: 'boolean', help: 'with --fix: repair, then look again' },
    'config-dir': { type: 'string', value: 'DIR', help: 'in place of the directory that the runtime uses' },
    'bin-dir': { type: 'string', value: 'DIR', help: 'in place of the directories of plugins; several with : between' },
    'runtime-endpoint': { type: 'string', value: 'SOCKET', help: 'the runtime to ask; default: all that are found' },
    'no-runtime': { type: 'boolean', help: 'ask no runtime' },
    pod: { type: 'string', value: 'POD', help: 'NAMESPACE/NAME or a container id: its facts and its findings' },
    probe: {
      type: 'boolean',
      help: 'make two throw-away pods, test their network, and full packets to PEER',
    },
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

async function run(input: Input): Promise<number> {
  const { values, isJson, output } = input
  if (values['list'] === true) return listDiagnoses(input, 'doctor', ownDiagnoses())
  if (values['apply'] === true && values['fix'] !== true) throw new UsageError('--apply goes with --fix')
  const selection = readSelection(values)
  requirePodName(values['pod'])
  requirePeer(input)
  if (selection.groups.length === 0) throw new UsageError('nothing is left to look at: probe goes with --probe')
  const endsAtMs = Date.now() + secondsOf(values['wait']) * 1000
  const report = await withProgress(isJson, (progress) => examine(input, { progress, selection, endsAtMs }))
  const code = exitCodeOf(report)
  const text =
    values['short'] === true
      ? shortText(report, `${versionText}, Linux ${kernelRelease()}`)
      : reportText(report, { hasColour: output.hasColour, width: process.stdout.columns ?? 120 })
  return print(input, { command: 'doctor', document: asDocument(report), text, code })
}

interface Selection {
  readonly groups: readonly Group[]
  readonly isMeant: (finding: Pick<Finding, 'id' | 'group'>) => boolean
}

interface Examining {
  readonly progress: Progress
  readonly selection: Selection
  readonly endsAtMs: number
}

const pauseMs = 1000

async function examine(input: Input, { progress, selection, endsAtMs }: Examining): Promise<Report> {
  const { values } = input
  const done: string[] = []
  for (;;) {
    const facts = await lookAtNode(lookOptions(input, progress))
    const report = reportOf(facts, selection, done)
    const toFix = values['apply'] === true && done.length === 0 ? fixable(report.findings) : []
    if (toFix.length > 0) {
      done.push(...(await fix(toFix, { ...runtimeOf(values), progress })))
      continue
    }
    if (exitCodeOf(report) === exitCode.fine || Date.now() >= endsAtMs) return withPlan(report, values)
    await sleep(pauseMs)
  }
}

function runtimeOf(values: Input['values']) {
  return { endpoint: values['runtime-endpoint'] as string | undefined, isAsked: values['no-runtime'] !== true }
}

function lookOptions({ values, words: [peer] }: Input, progress: Progress) {
  const text = (name: string) => values[name] as string | undefined
  const named = { confDir: text('config-dir'), endpoint: text('runtime-endpoint'), logFile: text('log') }
  return {
    progress,
    isRuntimeAsked: values['no-runtime'] !== true,
    isProbed: values['probe'] === true,
    ...defined({ ...named, peer, pod: text('pod'), binDirs: text('bin-dir')?.split(':') }),
  }
}

function reportOf(facts: NodeFacts, { groups: selected, isMeant }: Selection, done: readonly string[]): Report {
  const { pod, log = [] } = facts
  const all = judge(facts).filter(isMeant)
  const findings = pod === undefined ? all : all.filter((finding) => concerns(pod, finding, log))
  const missing = 'is not known on this node: no record, no result of libcni, no sandbox, and nothing in the log'
  const isMissing = pod !== undefined && isUnknown(pod, log)
  const unknown: readonly NotLooked[] = isMissing ? [{ group: 'network', why: `${pod.asked} ${missing}` }] : []
  const notLooked = [...facts.notLooked, ...unknown].filter(({ group }) => selected.includes(group))
  return { facts, findings, notLooked, selected, done: [...done] }
}

/** With --fix alone: the list of repairs that --apply would make. */
function withPlan(report: Report, values: Input['values']): Report {
  if (values['fix'] !== true || values['apply'] === true) return report
  const plan = fixable(report.findings).map(({ id, on }) => `--apply mends ${id}: ${on}`)
  return { ...report, done: plan.length > 0 ? plan : ['no finding can be repaired by --fix'] }
}

function exitCodeOf({ findings, notLooked }: Pick<Report, 'findings' | 'notLooked'>): number {
  if (findings.some(({ severity }) => severity !== 'note')) return exitCode.findings
  return notLooked.some(({ isPartial }) => isPartial !== true) ? exitCode.couldNotLook : exitCode.fine
}

function asDocument({ facts, findings, notLooked, done }: Report) {
  const { runtimes, configurations, networks, pod, probe } = facts
  return {
    runtimes,
    uses: configurations.map(({ runtime, file, network }) => ({ ...runtime, file, network })),
    networks,
    findings: findings.map((finding): Finding => ({ ...finding, seen: finding.message })),
    notLooked: notLooked.map(({ group, why }) => ({ group, why })),
    done,
    pod,
    probe,
  }
}

/** Throws UsageError if a word is neither a group nor the id of a finding. */
function readSelection(values: Input['values']): Selection {
  const checks = ownDiagnoses()
  const known = [...groups, ...checks.map(({ id }) => id)]
  const [only = [], skip = []] = ['only', 'skip'].map((name) => wordsOf(name, values[name], known))
  const isNamed = (words: readonly string[], { id, group }: Pick<Finding, 'id' | 'group'>) =>
    words.includes(id) || words.includes(group ?? '')
  const isMeant = (finding: Pick<Finding, 'id' | 'group'>) =>
    (only.length === 0 || isNamed(only ?? [], finding)) && !isNamed(skip ?? [], finding)
  const isShown = (group: Group) =>
    (group !== 'probe' || values['probe'] === true) &&
    !skip.includes(group) &&
    (only.length === 0 || only.includes(group) || checks.some((each) => each.group === group && only.includes(each.id)))
  return { groups: groups.filter(isShown), isMeant }
}

/** Throws UsageError for another word than the address of `--probe PEER`. */
function requirePeer({ words: [peer], values }: Input): void {
  if (peer === undefined || (values['probe'] === true && parseAddress(peer) !== undefined)) return
  throw new UsageError(`${peer}: the only word is the address of a peer, with --probe`)
}

/** Throws UsageError if the value is neither a pod's NAMESPACE/NAME nor a container id. */
function requirePodName(value: string | boolean | undefined): void {
  if (value === undefined || /^[\w.-]+(?:\/[\w.-]+)?$/.test(String(value))) return
  throw new UsageError(`--pod ${value}: use NAMESPACE/NAME, or a container id`)
}

function secondsOf(value: string | boolean | undefined): number {
  const text = String(value ?? '0')
  if (/^\d{1,5}$/.test(text)) return Number(text)
  throw new UsageError(`--wait ${text}: use a number of seconds`)
}

export function ownDiagnoses(): readonly Diagnosis[] {
  const all = [...diagnoses().values()].filter(({ group }) => group !== undefined)
  return groups.flatMap((group) => all.filter((each) => each.group === group))
}

// Repairs by doctor: rules, links and forwarding of trestle's own networks, and leftovers of dead pods. Rules, files,
// services and modules of other programs and rp_filter are left alone.

/** Findings that `trestle restore` repairs. */
const restored: readonly string[] = [
  ...['forwarding-off', 'rules-missing', 'bridge-differs', 'route-missing', 'port-differs', 'alias-missing'],
  ...['limit-missing', 'setting-differs', 'accept-missing', 'state-lacks'],
]

/** Findings that `trestle gc --apply` repairs. */
const collected: readonly string[] = ['dead-attachments', 'reservations-leaked', 'orphans', 'pending-cleanup']

function fixable(findings: readonly Finding[]): readonly Finding[] {
  return findings.filter(({ id }) => [...restored, ...collected].includes(id))
}

/**
 * Repairs the findings; `endpoint` and `isAsked` are of the runtime. Returns the repairs in words. Throws CniError as
 * `restore` and `gc` do.
 */
async function fix(
  findings: readonly Finding[],
  { endpoint, isAsked, progress }: Omit<SweepRequest, 'isApplied'> & { readonly progress: Progress },
): Promise<readonly string[]> {
  const isAny = (ids: readonly string[]) => findings.some(({ id }) => ids.includes(id))
  const done: string[] = []
  if (isAny(restored)) {
    const { missing } = await restore(true)
    done.push(...missing.map((text) => `restored: ${text}`))
  }
  if (isAny(collected)) {
    const { collected: attachments, failures } = await sweep({ endpoint, isAsked, isApplied: true }, progress)
    done.push(`removed leftovers of dead pods (${attachments} attachments)`, ...failures)
  }
  return done
}
