// SPDX-License-Identifier: Apache-2.0
// `trestle gc`: removes garbage that runtimes left behind. containerd never calls GC (go-cni has no caller for it), so
// a person or a timer has to run this command.

import { isDeepStrictEqual } from 'node:util'
import { CniError } from '../../cni/error.ts'
import { openContext } from '../../commands/call/context.ts'
import {
  collect,
  collectOrphans,
  collectReservations,
  judgeAll,
  judgeOrphans,
  judgeReservations,
  type Listed,
} from '../../commands/recover/collect.ts'
import { heal } from '../../commands/recover/recover.ts'
import {
  type AttachmentVerdict,
  type OrphanVerdict,
  orphanText,
  type ReservationVerdict,
  reservationText,
} from '../../plan/recovery/verdicts.ts'
import { requireState, setAside } from '../../system/files/state.ts'
import { collectByList } from '../by-hand/gc.ts'
import { blockedDirectories } from '../node/blocked-directories.ts'
import { isSocket, socketsAt } from '../node/runtimes.ts'
import { type Command, exitCode, type Input, UsageError } from '../shell/command.ts'
import { type Progress, print, withProgress } from '../shell/output.ts'
import { requireRoot } from '../shell/self.ts'

export const gcCommand: Command = {
  name: 'gc',
  words: '[NET --valid LIST]',
  maxWords: 1,
  summary: 'collect garbage of dead pods: addresses, ports, links, rules',
  description: [
    'Judges every attachment of every network. gc collects an attachment if no runtime lists it, its network namespace',
    'is gone, and it is older than five minutes. gc reports and keeps an unlisted attachment whose namespace exists.',
    'gc also collects reservations of lost records, damaged files that no pod can have, and links and rules of trestle',
    'without a record; it reports and keeps any that a pod without a record may use. gc asks runtimes over CRI, and',
    'containerd also for containers of ctr and nerdctl. Without --apply nothing changes, and exit code 1 means that',
    'there is garbage, or an attachment to look at.',
    '',
    'With --valid, gc is the verb GC of CNI for the network NET: DEL of every attachment that libcni has in its cache',
    'and the list lacks, of runtimes too, then GC of every plugin, by which trestle removes further attachments of NET',
    'that it knows. Here too, only --apply changes anything.',
  ].join('\n'),
  options: {
    apply: { type: 'boolean', help: 'collect; without --apply only list' },
    'runtime-endpoint': {
      type: 'string',
      value: 'SOCKET',
      help: "the runtime's socket; default: all sockets of this node's runtimes",
    },
    'no-runtime': { type: 'boolean', help: 'ask no runtime: judge by network namespaces alone' },
    valid: {
      type: 'string',
      value: 'ID/IFNAME',
      many: true,
      help: 'attachments of NET to keep, separated by commas or repeated; ids: `trestle nets`',
    },
  },
  examples: [
    'trestle gc',
    'trestle gc --apply',
    'trestle gc pods --valid cnitool-77383ca0a1715733ca6f/eth0 --apply',
    'trestle gc -o json --runtime-endpoint unix:///run/crio/crio.sock',
  ],
  run,
}

async function run(input: Input): Promise<number> {
  if (input.values['valid'] !== undefined) return await collectByList(input)
  if (input.words.length > 0) throw new UsageError(`unexpected argument "${input.words[0]}": it goes with --valid`)
  requireRoot('gc', 'gc reads the state of the node')
  const swept = await withProgress(input.isJson, (progress) => sweep(askedIn(input), progress))
  const code = exitCodeFor(swept)
  return print(input, { command: 'gc', document: asDocument(swept), text: asText(swept), code })
}

/** `endpoint`: the socket given as an option. `isAsked`: false with --no-runtime. */
export interface SweepRequest {
  readonly endpoint?: string | undefined
  readonly isAsked: boolean
  readonly isApplied: boolean
}

function askedIn({ values }: Input): SweepRequest {
  return {
    endpoint: values['runtime-endpoint'] as string | undefined,
    isAsked: values['no-runtime'] !== true,
    isApplied: values['apply'] === true,
  }
}

/**
 * Judges all attachments, reservations, links and rules, and with `isApplied` removes the garbage. Throws CniError 5
 * when a runtime at `endpoint` does not answer.
 */
export async function sweep({ endpoint, isAsked, isApplied }: SweepRequest, progress: Progress): Promise<Swept> {
  const context = openContext(new AbortController().signal)
  const living = isAsked
    ? await askRuntime(endpoint, progress)
    : { listed: undefined, source: 'not asked', sandboxes: [], inUse: [] }
  progress('looking at attachments')
  if (isApplied) requireState()
  let verdicts = await judgeAll(context, living.listed)
  const inTheWay = blockedDirectories()
  if (isApplied) {
    for (const path of inTheWay) setAside(path)
    await heal(context)
    verdicts = await judgeAll(context, living.listed)
  }
  progress(`looking at reservations of ${verdicts.length} attachments, and others`)
  const judged = await judgeReservations(context, living.listed)
  const orphans = await judgeOrphans(context, living.listed)
  const collected = isApplied ? await collect(context, verdicts, progress) : []
  // Reservations of the removed records became garbage only now.
  const latest = collected.length === 0 ? judged : await judgeReservations(context, living.listed)
  const toCollect = judged.filter(({ verdict }) => verdict === 'collect')
  const isNew = ({ reservation }: ReservationVerdict) =>
    !toCollect.some((each) => isDeepStrictEqual(each.reservation, reservation))
  const reservations = [...toCollect, ...latest.filter(isNew)]
  const failures = [
    ...collected.flatMap((each) => each.failures),
    ...(isApplied ? await collectReservations(context, reservations) : []),
    ...(isApplied ? await collectOrphans(context, orphans) : []),
  ]
  return { verdicts, reservations, orphans, inTheWay, collected: collected.length, failures, living, isApplied }
}

/** The verdicts, and the number of removed attachments (`collected`). */
interface Swept {
  readonly verdicts: readonly AttachmentVerdict[]
  readonly reservations: readonly ReservationVerdict[]
  readonly orphans: readonly OrphanVerdict[]
  readonly inTheWay: readonly string[]
  readonly collected: number
  readonly failures: readonly string[]
  readonly living: Living
  readonly isApplied: boolean
}

function exitCodeFor({ verdicts, reservations, orphans, inTheWay, failures, isApplied }: Swept): number {
  const all = [...verdicts, ...reservations, ...orphans]
  const toDo = all.some(({ verdict }) => verdict === 'collect') || inTheWay.length > 0
  const isOpen = all.some(({ verdict }) => verdict === 'report') || (toDo && !isApplied) || failures.length > 0
  return isOpen ? exitCode.findings : exitCode.fine
}

function asDocument(swept: Swept) {
  const { verdicts, reservations, orphans, inTheWay, failures, living, isApplied } = swept
  return {
    runtime: living.source,
    applied: isApplied,
    attachments: verdicts.map(({ record, verdict, why }) => ({ ...record.key, pod: record.pod, verdict, why })),
    reservations: reservations
      .filter(({ verdict }) => verdict !== 'keep')
      .map(({ reservation, verdict, why }) => ({ ...reservation, verdict, why })),
    orphans: orphans.map(({ orphan, verdict, why }) => ({ ...orphan, verdict, why })),
    inTheWay,
    failures,
  }
}

function asText({ verdicts, reservations, orphans, inTheWay, collected, failures, living, isApplied }: Swept): string {
  const attachments = verdicts
    .filter(({ verdict }) => verdict !== 'keep')
    .map(({ record, verdict, why }) => {
      const { network, containerId, ifName } = record.key
      const pod = record.pod ? ` (${record.pod.namespace}/${record.pod.name})` : ''
      return `  ${verdict.padEnd(7)}  ${network}  ${containerId.slice(0, 13)}  ${ifName}${pod}: ${why}\n`
    })
  const reserved = reservations
    .filter(({ verdict }) => verdict !== 'keep')
    .map(({ reservation, verdict, why }) => `  ${verdict.padEnd(7)}  ${reservationText(reservation)}: ${why}\n`)
  const unnamed = orphans.map(({ orphan, verdict, why }) => `  ${verdict.padEnd(7)}  ${orphanText(orphan)}: ${why}\n`)
  const paths = inTheWay.map((path) => `  collect  ${path}: not a directory, and in the way of one\n`)
  const pending = failures.map((failure) => `  pending  ${failure}\n`)
  const all = [...verdicts, ...reservations, ...orphans]
  const count = (verdict: AttachmentVerdict['verdict']) => all.filter((each) => each.verdict === verdict).length
  const others = count('collect') - verdicts.filter(({ verdict }) => verdict === 'collect').length + inTheWay.length
  const toCollect = count('collect') + inTheWay.length
  const ending = isApplied
    ? `${collected + others} collected`
    : `${toCollect} to collect${toCollect === 0 ? '' : ' (--apply does it)'}`
  const lines = [...attachments, ...reserved, ...unnamed, ...paths, ...pending].join('')
  const hint = verdicts.some(({ verdict }) => verdict === 'report') ? namespaceHint : ''
  return `runtime: ${living.source}\n${lines}${ending}, ${count('report')} to look at, ${keptText(verdicts)}\n${hint}`
}

/** How many are kept, and why: an operator who looks for a free address wants to know of each. */
function keptText(verdicts: readonly AttachmentVerdict[]): string {
  const kept = verdicts.filter(({ verdict }) => verdict === 'keep')
  const reasons = [...new Set(kept.map(({ why }) => why))].sort()
  const counted = reasons.map((reason) => `${kept.filter(({ why }) => why === reason).length}: ${reason}`)
  const because = (reasons.length > 1 ? counted : reasons).join('; ')
  return `${kept.length} kept${because === '' ? '' : ` (${because})`}`
}

const namespaceHint =
  'ip netns pids NAME lists the processes in a namespace of /run/netns; without any, ip netns delete NAME makes the\n' +
  'attachment garbage, and trestle gc --apply collects it.\n'

// The containers that runtimes list: sandboxes over CRI, and all containers of containerd.

const timeoutMs = 5000

export interface PodSandbox {
  readonly id: string
  /** NAMESPACE/NAME, by kubelet's names. */
  readonly pod: string
  readonly isReady: boolean
}

/** `sandboxes`: of the runtimes that answered. `inUse`: sockets of those that have some. */
interface Living {
  readonly listed: Listed
  readonly source: string
  readonly sandboxes: readonly PodSandbox[]
  readonly inUse: readonly string[]
}

/**
 * Asks the runtime at `endpoint`, or all runtimes of the node. Without an answer of each runtime the list would be
 * incomplete, and is undefined. Throws CniError 5 when a given `endpoint` does not answer.
 */
export async function askRuntime(endpoint: string | undefined, progress: Progress): Promise<Living> {
  const found = socketsAt(endpoint)
  if (endpoint !== undefined && !found.every(isSocket)) throw silent(endpoint, 'there is no such socket')
  if (found.length === 0) return { listed: undefined, source: 'no runtime socket found', sandboxes: [], inUse: [] }
  const listed = new Set<string>()
  const sandboxes: PodSandbox[] = []
  const inUse: string[] = []
  let failure: string | undefined
  for (const socket of found) {
    progress(`asking the runtime at ${socket}`)
    try {
      const all = await listAll(socket)
      for (const id of [...all.containers, ...all.sandboxes.map(({ id }) => id)]) listed.add(id)
      sandboxes.push(...all.sandboxes)
      if (all.sandboxes.length > 0) inUse.push(socket)
    } catch (error) {
      if (endpoint !== undefined) throw silent(endpoint, (error as Error).message)
      failure ??= `${socket} did not answer: ${(error as Error).message}`
    }
  }
  return { listed: failure === undefined ? listed : undefined, source: failure ?? found.join(', '), sandboxes, inUse }
}

/** Asks both services: containerd may lack CRI (`disabled_plugins = ["cri"]`), CRI-O lacks containerd's services. */
async function listAll(socket: string) {
  // Loaded late, because other commands need no gRPC.
  const { CriError, openCri, sandboxReady } = await import('../cri/client.ts')
  const { listContainerd } = await import('../cri/containerd.ts')
  const cri = openCri(socket, { timeoutMs })
  try {
    const containers = await listContainerd(socket, timeoutMs)
    const { items } = await cri.call('ListPodSandbox', {}).catch((error: unknown) => {
      const isWithout = error instanceof CriError && error.code === 'UNIMPLEMENTED'
      if (isWithout && containers !== undefined) return { items: [] }
      throw error
    })
    const sandboxes = items.map(({ id, metadata, state }) => ({
      id,
      pod: `${metadata?.namespace}/${metadata?.name}`,
      isReady: state === sandboxReady,
    }))
    return { containers: containers ?? [], sandboxes }
  } finally {
    cri.close()
  }
}

function silent(endpoint: string, why: string): CniError {
  const details =
    'name the socket of a running runtime, like unix:///run/containerd/containerd.sock, or use --no-runtime'
  return new CniError('runtime-silent', `the runtime at ${endpoint} does not answer: ${why}`, { details })
}
