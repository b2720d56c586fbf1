// SPDX-License-Identifier: Apache-2.0
// `trestle uninstall`: lists what trestle made on this machine, and with --apply removes it, once no pod is attached.

import { describeRecord, isDead } from '../state/records.ts'
import { type Context, openRemovingContext } from '../verbs/context.ts'
import { judgeAll } from '../verbs/garbage.ts'
import { planUninstall, type UninstallPlan, uninstall } from '../verbs/uninstall.ts'
import { type Command, exitCode, type Input } from './command.ts'
import { print } from './output.ts'
import { requireRoot } from './self.ts'

export const uninstallCommand: Command = {
  name: 'uninstall',
  words: '',
  maxWords: 0,
  summary: "remove all of trestle's own on this machine: bridges, rules, state",
  description: [
    'Removes bridges, nftables tables, accepts in other chains, garbage and state, once no pod is attached: remove',
    'the configuration first, then the pods. Forwarding stays on. Exit code 1: there is something to remove.',
  ].join('\n'),
  options: { apply: { type: 'boolean', help: 'remove; without --apply only list' } },
  examples: ['trestle uninstall', 'trestle uninstall --apply', 'trestle uninstall -o json'],
  run,
}

/** Attachments that a pod may use, in words: with a record, and without one by their links and rules. */
export async function attached({ records }: UninstallPlan, context: Context): Promise<readonly string[]> {
  const judged = await judgeAll(context, undefined)
  const lost = judged.filter(({ part, verdict }) => part === 'orphans' && verdict === 'report')
  return [
    ...records.filter((record) => !isDead(record)).map(describeRecord),
    ...lost.map(({ text }) => `${text}, without a record`),
  ]
}

async function run(input: Input): Promise<number> {
  requireRoot('uninstall', 'uninstall reads the state and the rules of the node')
  const isApplied = input.values['apply'] === true
  const context = openRemovingContext()
  const plan = await planUninstall(context)
  const { removes, stays } = plan
  const live = await attached(plan, context)
  const errors = isApplied && live.length === 0 ? await uninstall(plan, context) : []
  const failures = errors.map(({ message }) => message)
  const isDone = isApplied && live.length === 0 && failures.length === 0
  const isNothing = live.length === 0 && removes.length === 0
  const lines = [
    ...live.map((text) => `  attached  ${text}: remove the pod first, by its runtime or \`trestle del\``),
    ...(isApplied && live.length > 0 ? [] : removes.map((text) => `  ${isDone ? 'removed ' : 'remove  '}  ${text}`)),
    ...stays.map((text) => `  stays     ${text}`),
    ...failures.map((text) => `  failed    ${text}`),
    `${removes.length} ${isDone ? 'removed' : 'to remove'}, ${live.length} attached, ${stays.length} stay${nextStep()}`,
  ]
  const document = { applied: isApplied, live, removes, stays, failures }
  const code = isDone || isNothing ? exitCode.fine : exitCode.findings
  return print(input, { command: 'uninstall', document, text: `${lines.join('\n')}\n`, code })

  function nextStep(): string {
    if (live.length > 0) return isApplied ? ': nothing is removed while a pod is attached' : ''
    return isApplied || removes.length === 0 ? '' : ' (--apply does it)'
  }
}
