// SPDX-License-Identifier: Apache-2.0
// `trestle doctor`: finds faults of the pod network on this node.

import { setTimeout as sleep } from 'node:timers/promises'
import { type Diagnosis, diagnoses } from '../../catalogue/diagnosis.ts'
import { parseAddress } from '../../cni/addresses.ts'
import { CniError } from '../../cni/errors.ts'
import { defined } from '../../cni/json.ts'
import { readSysctl } from '../../kernel/proc.ts'
import { openContext } from '../../verbs/context.ts'
import { restoreNetworks } from '../../verbs/restore.ts'
import { type Command, exitCode, type Input, UsageError } from '../command.ts'
import { type Finding, findingOf, wordsOf } from '../findings.ts'
import { sweep } from '../gc-command.ts'
import { type Progress, print, withProgress } from '../output.ts'
import { type Probed, probeNode } from '../probe/on-node.ts'
import type { Step } from '../probe/pods.ts'
import { versionText } from '../version.ts'
import { type Report, reportText, shortText } from './doctor-report.ts'
import { checkFirewalls } from './foreign-firewalls.ts'
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
    'Looks at the runtime and the directories that it uses, the configuration in use, the kernel (forwarding, rp_filter,',
    'IPv6, br_netfilter), state against the links, routes and rules that exist, the inside of pods, addresses and host',
    'ports, leftovers of dead pods, other firewalls, and the last hour of the logs of runtimes and kubelet. It changes',
    'nothing. Networks of other plugins are not judged. Each finding has an id: `trestle explain forwarding-off`.',
    'Exit code 1: an error or a warning; 3: nothing was found, and not all could be looked at.',
  ].join('\n'),
  options: {
    only: { type: 'string', value: 'WORDS', help: 'only these groups or ids, commas between' },
    skip: { type: 'string', value: 'WORDS', help: 'leave these groups or ids out' },
    short: { type: 'boolean', help: 'one line, with versions' },
    wait: { type: 'string', value: 'SECONDS', help: 'repeat the look until nothing is found, for at most SECONDS' },
    fix: { type: 'boolean', help: "list the repairs of trestle's own network" },
    apply: { type: 'boolean', help: 'with --fix: repair, then look again' },
    'config-dir': { type: 'string', value: 'DIR', help: 'in place of the directory that the runtime uses' },
    'bin-dir': { type: 'string', value: 'DIR', help: 'in place of the directories of plugins; several with : between' },
    'runtime-endpoint': { type: 'string', value: 'SOCKET', help: 'the runtime to ask; default: all that are found' },
    'no-runtime': { type: 'boolean', help: 'ask no runtime' },
    pod: { type: 'string', value: 'POD', help: 'NAMESPACE/NAME or a container id: its facts and its findings' },
    probe: { type: 'boolean', help: 'make two temporary pods, test their network, and full packets to PEER' },
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
  const wait = String(values['wait'] ?? '0')
  if (!/^\d{1,5}$/.test(wait)) throw new UsageError(`--wait ${wait}: use a number of seconds`)
  const selection = readSelection(values)
  if (selection.groups.length === 0) throw new UsageError('nothing is left to look at: probe goes with --probe')
  const endsAtMs = Date.now() + Number(wait) * 1000
  const report = await withProgress(isJson, (progress) => examine(input, { progress, selection, endsAtMs }))
  const versions = `${versionText}, Linux ${readSysctl('kernel/osrelease') ?? ''}`
  const look = { hasColour: output.hasColour, width: process.stdout.columns ?? 120 }
  const text = values['short'] === true ? shortText(report, versions) : reportText(report, look)
  return print(input, { command: 'doctor', document: documentOf(report), text, code: exitCodeOf(report) })
}

interface Selection {
  readonly groups: readonly Group[]
  readonly isMeant: (finding: Pick<Finding, 'id' | 'group'>) => boolean
}

/** Throws UsageError if a word is neither a group nor the id of a finding. */
function readSelection(values: Input['values']): Selection {
  const all = ownDiagnoses()
  const known = [...groups, ...all.map(({ id }) => id)]
  const [only = [], skip = []] = ['only', 'skip'].map((name) => wordsOf(name, values[name], known))
  const isNamed = (words: readonly string[], { id, group = '' }: Pick<Finding, 'id' | 'group'>) => {
    return words.includes(id) || words.includes(group)
  }
  const isShown = (group: Group) => {
    if (skip.includes(group) || (group === 'probe' && values['probe'] !== true)) return false
    return (
      only.length === 0 || only.includes(group) || all.some((each) => each.group === group && only.includes(each.id))
    )
  }
  return {
    groups: groups.filter(isShown),
    isMeant: (finding) => (only.length === 0 || isNamed(only, finding)) && !isNamed(skip, finding),
  }
}

export function ownDiagnoses(): readonly Diagnosis[] {
  const all = [...diagnoses().values()].filter(({ group }) => group !== undefined)
  return groups.flatMap((group) => all.filter((each) => each.group === group))
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
    const report = { ...(await look(input, selection, progress)), done: [...done] }
    const fixable = report.findings.filter(({ id }) => [...restored, ...collected].includes(id))
    if (values['apply'] === true && done.length === 0 && fixable.length > 0) {
      done.push(...(await fix(fixable, input, progress)))
      continue
    }
    if (exitCodeOf(report) !== exitCode.fine && Date.now() < endsAtMs) {
      await sleep(pauseMs)
      continue
    }
    if (values['fix'] !== true || values['apply'] === true) return report
    const plan = fixable.map(({ id, on }) => `--apply repairs ${id}: ${on}`)
    return { ...report, done: plan.length > 0 ? plan : ['no finding can be repaired by --fix'] }
  }
}

function optionsOf({ values, words: [peer] }: Input): Options {
  const text = (name: string) => values[name] as string | undefined
  const named = { confDir: text('config-dir'), endpoint: text('runtime-endpoint'), logFile: text('log') }
  return {
    isRuntimeAsked: values['no-runtime'] !== true,
    isProbed: values['probe'] === true,
    ...defined({ ...named, peer, pod: text('pod'), binDirs: text('bin-dir')?.split(':') }),
  }
}

/** Runs all checks. One that fails is named with its reason, and the rest goes on. Throws CniError 106 alone. */
async function look(
  input: Input,
  { groups: selected, isMeant }: Selection,
  progress: Progress,
): Promise<Omit<Report, 'done'>> {
  const notLooked: NotLooked[] = []
  const skip = (skipped: NotLooked) => {
    const isKnown = notLooked.some(({ group, why }) => group === skipped.group && why === skipped.why)
    if (!isKnown) notLooked.push(skipped)
  }
  const attempt = async <T>(group: Group, needsRoot: boolean, otherwise: T, body: () => T | Promise<T>): Promise<T> => {
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
    if (selected.includes(group)) found.push(...(await attempt(group, needsRoot, [], () => check(node))))
  }
  const isLogRead = selected.includes('log') && !(node.isHidden && options.logFile === undefined)
  const log = isLogRead ? await attempt('log', options.logFile === undefined, [], () => readErrors(node)) : []
  const probe = options.isProbed
    ? await attempt<Probed | undefined>('probe', true, undefined, () => {
        return probeNode(
          node.configurations.find(({ file }) => file !== undefined),
          options.peer,
        )
      })
    : undefined
  const asked = options.pod
  const pod = asked === undefined ? undefined : await attempt('network', true, undefined, () => lookAtPod(node, asked))
  if (pod !== undefined && isUnknown(pod, log)) {
    const missing = 'is not known on this node: no record of trestle, no sandbox, and nothing in the log'
    skip({ group: 'network', why: `${pod.asked} ${missing}; \`trestle ps\` lists pods of other plugins` })
  }
  const all = withoutEchoes(found, log, probe).filter(isMeant)
  return {
    node,
    findings: pod === undefined ? all : all.filter((finding) => concerns(pod, finding, log)),
    notLooked: notLooked.filter(({ group }) => selected.includes(group)),
    ...{ selected, log, pod, probe },
  }
}

/** Groups whose errors explain a failed probe: then the failure is a note. */
const causing: readonly string[] = ['kernel', 'network', 'firewall', 'configuration', 'host', 'addresses']

/** One cause is one finding: what follows from another finding is left out. */
function withoutEchoes(
  found: readonly Finding[],
  log: readonly LoggedError[],
  probe: Probed | undefined,
): readonly Finding[] {
  const has = (id: string) => found.some((finding) => finding.id === id)
  const isConfigured = found.some(({ severity, group }) => severity === 'error' && group === 'configuration')
  const echoes: Readonly<Record<string, boolean>> = {
    'runtime-not-ready': isConfigured,
    // restore puts the accept there.
    'firewall-drops': has('accept-missing'),
    'route-elsewhere': ['bridge-differs', 'port-differs', 'route-missing', 'rule-refuses', 'ipv6-disabled'].some(has),
  }
  const own = found.filter(({ id, message }) => {
    // With IPv6 off its addresses are missing.
    const isOfIpv6 = message.split('; ').every((text) => /^[\da-f]*:[\da-f:]*\/\d+ is missing/.test(text))
    return echoes[id] !== true && !(has('ipv6-disabled') && id === 'bridge-differs' && isOfIpv6)
  })
  const news = log.filter(({ id }) => !has(id)).map(({ finding }) => finding)
  const isExplained = own.some(({ severity, group = '' }) => severity === 'error' && causing.includes(group))
  const failed = (probe?.steps ?? []).filter(({ outcome }) => outcome === 'failed')
  const byId = Map.groupBy(
    failed,
    ({ known, target }) => known ?? `probe-${target === 'own-port' ? 'host-port' : target}`,
  )
  const probes = [...byId]
    .filter(([id]) => !has(id))
    .map(([id, steps]) => {
      const finding = probeFinding(id, steps, probe?.network ?? '')
      return isExplained && id !== 'probe-del' ? { ...finding, severity: 'note' as const } : finding
    })
  return [...own, ...news, ...probes]
}

/** The texts are those of trestle's error, where it is one; the group is that of the probe. */
function probeFinding(id: string, steps: readonly Step[], network: string): Finding {
  const message = few(steps.map(({ what, detail = '' }) => `${what}: ${detail.replaceAll('\n', '; ')}`))
  return findingOf({ id, group: 'probe', on: `network ${network}`, message })
}

function exitCodeOf({ findings, notLooked }: Pick<Report, 'findings' | 'notLooked'>): number {
  if (findings.some(({ severity }) => severity !== 'note')) return exitCode.findings
  return notLooked.some(({ isPartial }) => isPartial !== true) ? exitCode.couldNotLook : exitCode.fine
}

function documentOf({ node, findings, notLooked, done, pod, probe }: Report) {
  return {
    runtimes: node.runtimes,
    uses: node.configurations.map(({ runtime, file, network }) => ({ ...runtime, file, network })),
    networks: node.networks,
    findings: findings.map((finding): Finding => ({ ...finding, seen: finding.message })),
    notLooked: notLooked.map(({ group, why }) => ({ group, why })),
    ...{ done, pod, probe },
  }
}

// Repairs: rules, links and forwarding of trestle's own networks, and leftovers of dead pods. Rules, files, services and
// modules of other programs and rp_filter are left alone.

/** Findings that `trestle restore` repairs. */
const restored: readonly string[] = [
  ...['forwarding-off', 'rules-missing', 'bridge-differs', 'route-missing', 'port-differs', 'alias-missing'],
  ...['limit-missing', 'setting-differs', 'accept-missing', 'state-lacks'],
]

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
