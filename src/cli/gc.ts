// SPDX-License-Identifier: Apache-2.0
// `trestle gc`: collects what runtimes left behind. containerd never asks a plugin to (go-cni has no
// caller for GC), so a person or a timer does.

import { type Collected, collect, judgeAll } from '../commands/collect.ts'
import { openContext } from '../commands/context.ts'
import type { Verdict } from '../plan/garbage.ts'
import { type Command, exitCode, type Input } from './command.ts'
import { askRuntime, type Living } from './living.ts'

export const gcCommand: Command = {
  name: 'gc',
  words: '',
  maxWords: 0,
  summary: 'collect what dead pods left: addresses, ports, links, rules',
  description:
    'Judges every attachment of every network. Collected is only what the runtime does not list, whose network ' +
    'namespace is gone, and which is older than five minutes; an unlisted one whose namespace exists is told and ' +
    'stays. Without --apply nothing changes, and exit code 1 says that there is something to collect or to look at.',
  options: {
    apply: { type: 'boolean', help: 'collect; without it only tell' },
    'runtime-endpoint': {
      type: 'string',
      value: 'SOCKET',
      help: 'the CRI socket to ask; default: the first one found',
    },
    'no-runtime': { type: 'boolean', help: 'go by network namespaces alone' },
  },
  examples: ['trestle gc', 'trestle gc --apply', 'trestle gc -o json --runtime-endpoint unix:///run/crio/crio.sock'],
  run,
}

async function run({ values, isJson, output }: Input): Promise<number> {
  const context = openContext(new AbortController().signal)
  const endpoint = values['runtime-endpoint'] as string | undefined
  const living = values['no-runtime'] === true ? { listed: undefined, source: 'not asked' } : await askRuntime(endpoint)
  const verdicts = judgeAll(context, living.listed, Date.now())
  const isApplied = values['apply'] === true
  const collected = isApplied ? await collect(context, verdicts) : []
  const code = exitCodeFor(verdicts, isApplied ? collected : undefined)
  if (isJson) {
    const attachments = verdicts.map(({ record, verdict, why }) => ({ ...record.key, pod: record.pod, verdict, why }))
    const failures = collected.flatMap(({ failures: each }) => each)
    const document = {
      formatVersion: 1,
      command: 'gc',
      runtime: living.source,
      applied: isApplied,
      attachments,
      failures,
      exitCode: code,
    }
    output.out(`${JSON.stringify(document, undefined, 2)}\n`)
  } else output.out(asText({ verdicts, collected, living, isApplied }))
  return code
}

function exitCodeFor(verdicts: readonly Verdict[], collected: readonly Collected[] | undefined): number {
  const isOpen = verdicts.some(
    ({ verdict }) => verdict === 'report' || (verdict === 'collect' && collected === undefined),
  )
  const hasFailed = collected?.some(({ failures }) => failures.length > 0) ?? false
  return isOpen || hasFailed ? exitCode.findings : exitCode.fine
}

function asText(told: {
  verdicts: readonly Verdict[]
  collected: readonly Collected[]
  living: Living
  isApplied: boolean
}): string {
  const { verdicts, collected, living, isApplied } = told
  const open = verdicts.filter(({ verdict }) => verdict !== 'keep')
  const lines = open.map(({ record, verdict, why }) => {
    const { network, containerId, ifName } = record.key
    const pod = record.pod ? ` (${record.pod.namespace}/${record.pod.name})` : ''
    return `  ${verdict.padEnd(7)}  ${network}  ${containerId.slice(0, 13)}  ${ifName}${pod}: ${why}\n`
  })
  const failures = collected.flatMap((each) => each.failures.map((failure) => `  owed     ${failure}\n`))
  const count = (verdict: Verdict['verdict']) => verdicts.filter((each) => each.verdict === verdict).length
  const ending = isApplied ? `${collected.length} collected` : `${count('collect')} to collect (--apply does it)`
  return `runtime: ${living.source}\n${lines.join('')}${failures.join('')}${ending}, ${count('report')} to look at, ${count('keep')} kept\n`
}
