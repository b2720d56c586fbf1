// SPDX-License-Identifier: Apache-2.0
// `trestle restore`: makes bridges, ports, rules and limits again that the state has and the host lacks.

import { describeRecord } from '../state/records.ts'
import { openRemovingContext } from '../verbs/context.ts'
import { restoreNetworks } from '../verbs/restore.ts'
import { type Command, exitCode, type Input } from './command.ts'
import { print } from './output.ts'
import { requireRoot } from './self.ts'

export const restoreCommand: Command = {
  name: 'restore',
  words: '',
  maxWords: 0,
  summary: 'rebuild bridges, ports, rules and limits from state after a flush',
  description: [
    'Makes bridges, ports, rules, limits and forwarding again that state has and the host lacks. Exit code 1:',
    'something is missing (--dry-run), or a live pod has lost its interface and is to be made again.',
  ].join('\n'),
  options: {
    'dry-run': { type: 'boolean', help: 'list missing parts, change nothing' },
  },
  examples: ['trestle restore', 'trestle restore --dry-run', 'trestle restore -o json'],
  run,
}

async function run(input: Input): Promise<number> {
  const { values } = input
  requireRoot('restore', 'restore reads the state and the rules of the node')
  const isDry = values['dry-run'] === true
  const report = await restoreNetworks(openRemovingContext(), isDry)
  const { missing } = report
  const [lost, ended] = [report.lost.map(describeRecord), report.ended.map(describeRecord)]
  const code = (isDry && missing.length > 0) || lost.length > 0 ? exitCode.findings : exitCode.fine
  const verb = isDry ? 'missing ' : 'restored'
  const lines = [
    ...missing.map((text) => `  ${verb}  ${isDry ? text : afterwards(text)}`),
    ...lost.map((text) => `  lost      ${text}: the interface is gone, recreate the pod`),
    ...ended.map((text) => `  ended     ${text}: the namespace is gone; DEL or trestle gc removes the rest`),
    `${missing.length} ${verb.trim()}, ${lost.length} lost${ended.length > 0 ? `, ${ended.length} ended` : ''}`,
  ]
  const document = { applied: !isDry, missing, lost, ended }
  return print(input, { command: 'restore', document, text: `${lines.join('\n')}\n`, code })
}

/** What restore made right, said afterwards. */
function afterwards(difference: string): string {
  return difference.replace(/ is missing$/, '').replace(/ is (.+), not (.+)$/, ' was $1, is $2 again')
}
