// SPDX-License-Identifier: Apache-2.0
// `trestle uninstall`: lists what trestle made on this machine, and with --apply removes it, once no pod is attached.

import { removeFile } from '../state/files.ts'
import { describeRecord, isDead } from '../state/records.ts'
import { type Context, openRemovingContext } from '../verbs/context.ts'
import { judgeAll } from '../verbs/garbage.ts'
import { planUninstall, type UninstallPlan, uninstall } from '../verbs/uninstall.ts'
import { type Command, exitCode, type Input } from './command.ts'
import { forgetInstalled, installedFiles } from './installed-files.ts'
import { print } from './output.ts'
import { requireRoot } from './self.ts'

export const uninstallCommand: Command = {
  name: 'uninstall',
  words: '',
  maxWords: 0,
  summary: "remove all of trestle's own on this machine: bridges, rules, state",
  description: [
    'Removes bridges, nftables tables, accepts in other chains, garbage, state, and the files that `trestle install`',
    'wrote, once no pod is attached. Forwarding stays on. Exit code 1: there is something to remove.',
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

const fileText = (file: string) => `file ${file}`

async function run(input: Input): Promise<number> {
  requireRoot('uninstall', 'uninstall reads the state and the rules of the node')
  const isApplied = input.values['apply'] === true
  const context = openRemovingContext()
  const plan = await planUninstall(context)
  const { stays } = plan
  const { configurations, programs } = installedFiles()
  const removes = [...configurations.map(fileText), ...plan.removes, ...programs.map(fileText)]
  const live = await attached(plan, context)
  const failures: string[] = []
  if (isApplied && live.length === 0) {
    // Without it the runtime calls no plugin for a new pod; the executable goes when all else has gone.
    for (const file of configurations) removeFile(file)
    failures.push(...(await uninstall(plan, context)).map(({ message }) => message))
    if (failures.length === 0) for (const file of programs) removeFile(file)
    if (failures.length === 0) forgetInstalled()
  }
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
