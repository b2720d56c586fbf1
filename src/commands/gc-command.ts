// SPDX-License-Identifier: Apache-2.0
// `trestle gc`: removes what runtimes left behind, for a person, a timer or the agent.

import { endKilledCalls } from '../process/killed-calls.ts'
import { networkNames, requireStateIfThere } from '../state/layout.ts'
import { sweepState } from '../state/records.ts'
import { recoverIfLost } from '../state/recover.ts'
import { type Context, openRemovingContext } from '../verbs/context.ts'
import { type Judged, judgeAll } from '../verbs/garbage.ts'
import { settleKilledCalls } from '../verbs/settle.ts'
import { collectByList } from './by-hand/collect-by-list.ts'
import { type Command, exitCode, type Input, UsageError } from './command.ts'
import { type Progress, print, withProgress } from './output.ts'
import { askRuntime, type PodSandbox } from './runtimes/runtime-list.ts'
import { requireRoot } from './self.ts'

export const gcCommand: Command = {
  name: 'gc',
  words: '[NET --valid LIST]',
  maxWords: 1,
  summary: 'collect garbage of dead pods: addresses, ports, links, rules',
  description: [
    'Collects attachments that no runtime lists, whose namespace is gone and that are older than five minutes, and',
    'reservations, links and rules without a record. What a pod may use is reported and stays. Exit code 1: there is',
    "garbage, or something to look at. With --valid it is GC of CNI: DEL of all other attachments of NET in libcni's",
    'cache, of runtimes too, then GC of every plugin.',
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
  const { values, words } = input
  if (values['valid'] !== undefined) return await collectByList(input)
  if (words.length > 0) throw new UsageError(`unexpected argument "${words[0]}": it goes with --valid`)
  requireRoot('gc', 'gc reads the state of the node')
  const request = {
    endpoint: values['runtime-endpoint'] as string | undefined,
    isAsked: values['no-runtime'] !== true,
    isApplied: values['apply'] === true,
  }
  const swept = await withProgress(input.isJson, (progress) => sweep(request, progress))
  const { judged, failures, isApplied } = swept
  const isOpen = judged.some(({ verdict }) => verdict === 'report' || (verdict === 'collect' && !isApplied))
  const code = isOpen || failures.length > 0 ? exitCode.findings : exitCode.fine
  return print(input, { command: 'gc', document: asDocument(swept), text: asText(swept), code })
}

/** `endpoint`: the socket given as an option. `isAsked`: false with --no-runtime. */
export interface SweepRequest {
  readonly endpoint?: string | undefined
  readonly isAsked: boolean
  readonly isApplied: boolean
  /** Absent: tools of this process's own root. */
  readonly open?: () => Context
}

interface Swept {
  readonly judged: readonly Judged[]
  readonly failures: readonly string[]
  readonly source: string
  /** Every runtime of the node has answered. */
  readonly isComplete: boolean
  readonly sandboxes: readonly PodSandbox[]
  readonly isApplied: boolean
  readonly collected: number
}

/** Judges everything, and with `isApplied` removes the garbage. Throws CniError 5 when a runtime does not answer. */
export async function sweep(
  { endpoint, isAsked, isApplied, open = openRemovingContext }: SweepRequest,
  progress: Progress,
): Promise<Swept> {
  const { listed, source, sandboxes } = isAsked
    ? await askRuntime(endpoint, progress)
    : { listed: undefined, source: 'not asked', sandboxes: [] }
  requireStateIfThere()
  const context = open()
  if (isApplied) await recoverIfLost(context.machine)
  progress('looking at attachments, reservations, links and rules')
  const judged = await judgeAll(context, listed)
  const failures: string[] = []
  const garbage = judged.filter(({ verdict }) => verdict === 'collect')
  if (isApplied) {
    await endKilledCalls()
    sweepState()
    for (const [at, { remove, text }] of garbage.entries()) {
      progress(`collecting ${at + 1} of ${garbage.length}: ${text}`)
      // Each has the time of a call.
      const errors = (await remove?.(open())) ?? []
      failures.push(...errors.map(({ message }) => message))
    }
    for (const network of networkNames()) await settleKilledCalls(network, open())
  }
  return {
    judged,
    failures,
    source,
    sandboxes,
    isComplete: listed !== undefined,
    isApplied,
    collected: isApplied ? garbage.length : 0,
  }
}

function asDocument({ judged, failures, source, isApplied }: Swept) {
  const of = (part: Judged['part']) =>
    judged
      .filter((each) => each.part === part && !(isApplied && each.verdict === 'collect' && part === 'orphans'))
      .map(({ document, verdict, why }) => ({ ...document, verdict, why }))
  const parts = { attachments: of('attachments'), reservations: of('reservations'), orphans: of('orphans') }
  return { runtime: source, applied: isApplied, ...parts, failures }
}

function asText({ judged, failures, source, isApplied, collected }: Swept): string {
  const count = (verdict: Judged['verdict']) => judged.filter((each) => each.verdict === verdict).length
  const toCollect = count('collect')
  const ending = isApplied
    ? `${collected} collected`
    : `${toCollect} to collect${toCollect > 0 ? ' (--apply does it)' : ''}`
  const kept = judged.filter(({ verdict }) => verdict === 'keep')
  const reasons = [...Map.groupBy(kept, ({ why }) => why)].sort()
  const because = reasons.map(([why, all]) => (reasons.length > 1 ? `${all.length}: ${why}` : why)).join('; ')
  const hasReport = judged.some(({ part, verdict }) => part === 'attachments' && verdict === 'report')
  return [
    `runtime: ${source}`,
    ...judged
      .filter(({ verdict }) => verdict !== 'keep')
      .map(({ verdict, text, why }) => `  ${verdict.padEnd(7)}  ${text}: ${why}`),
    ...failures.map((failure) => `  pending  ${failure}`),
    `${ending}, ${count('report')} to look at, ${kept.length} kept${because === '' ? '' : ` (${because})`}`,
    ...(hasReport ? [namespaceHint] : []),
    '',
  ].join('\n')
}

const namespaceHint =
  'ip netns pids NAME lists the processes in a namespace of /run/netns; without any, ip netns delete NAME makes the\n' +
  'attachment garbage, and trestle gc --apply collects it.'
