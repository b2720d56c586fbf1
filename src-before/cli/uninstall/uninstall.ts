// SPDX-License-Identifier: Apache-2.0
// `trestle uninstall`: removes all that trestle made on the machine, to the last rule.

import { openContext } from '../../commands/call/context.ts'
import { type Uninstalled, uninstall } from '../../commands/verbs/uninstall.ts'
import { type Command, exitCode, type Input } from '../shell/command.ts'
import { print } from '../shell/output.ts'
import { requireRoot } from '../shell/self.ts'

export const uninstallCommand: Command = {
  name: 'uninstall',
  words: '',
  maxWords: 0,
  summary: "remove all of trestle's own on this machine: bridges, rules, state",
  description: [
    'Removes the bridges that trestle made, its nftables tables, its accepts in foreign chains, garbage of dead pods,',
    'and its state. Remove the configuration first, then the pods: while a pod is attached, uninstall removes nothing.',
    'Remove configuration, executable and the unit trestle-restore.service yourself; uninstall prints the command for',
    'the unit, if it exists. Without --apply nothing changes, and exit code 1 means that there is something to',
    'remove.',
  ].join('\n'),
  options: { apply: { type: 'boolean', help: 'remove; without --apply only list' } },
  examples: ['trestle uninstall', 'trestle uninstall --apply', 'trestle uninstall -o json'],
  run,
}

async function run(input: Input): Promise<number> {
  const { values } = input
  requireRoot('uninstall', 'uninstall reads the state and the rules of the node')
  const isApplied = values['apply'] === true
  const found = await uninstall(openContext(new AbortController().signal), isApplied)
  const isDone = isApplied && found.live.length === 0 && found.failures.length === 0
  const isNothing = found.live.length === 0 && found.removes.length === 0
  const code = isDone || isNothing ? exitCode.fine : exitCode.findings
  const document = { applied: isApplied, ...found }
  return print(input, { command: 'uninstall', document, text: asText(found, isApplied, isDone), code })
}

function asText({ live, removes, stays, failures }: Uninstalled, isApplied: boolean, isDone: boolean): string {
  const lines = [
    ...live.map((text) => `  attached  ${text}: remove the pod first, or where no runtime lists it, see trestle gc`),
    ...removes.map((text) => `  ${isDone ? 'removed ' : 'remove  '}  ${text}`),
    ...stays.map((text) => `  stays     ${text}`),
    ...failures.map((text) => `  failed    ${text}`),
  ]
  const counts = `${removes.length} ${isDone ? 'removed' : 'to remove'}, ${live.length} attached, ${stays.length} stay`
  return `${lines.map((line) => `${line}\n`).join('')}${counts}${endOf({ live, removes }, isApplied)}\n`
}

/** The next step, or the reason why nothing was removed. */
function endOf({ live, removes }: Pick<Uninstalled, 'live' | 'removes'>, isApplied: boolean): string {
  if (live.length > 0) return isApplied ? ': nothing is removed while a pod is attached' : ''
  return isApplied || removes.length === 0 ? '' : ' (--apply does it)'
}
