// SPDX-License-Identifier: Apache-2.0
// `trestle last`: the newest call that failed, kept without being asked, with its cause and cure.

import type { Diagnosis } from '../../catalogue/diagnosis.ts'
import { parseObject } from '../../cni/json.ts'
import { keptRecords } from '../../recording/ring.ts'
import { requireStateIfThere, stateRoot } from '../../state/layout.ts'
import { type Command, exitCode, type Input } from '../command.ts'
import { print } from '../output.ts'
import { type CallRecord, newestFailure, pathOfRecord, readRecord } from '../record/read-record.ts'
import { callText } from '../record/record-text.ts'
import { requireRoot } from '../self.ts'
import { diagnosisText, documentOf } from './explanation.ts'
import { recognise } from './recognise.ts'

export const lastCommand: Command = {
  name: 'last',
  words: '[ID]',
  maxWords: 1,
  summary: 'show the newest call that failed, its cause and its cure',
  description: [
    'What the runtime asked, what was run, what failed, cause and cure. The last 50 failed calls of each verb are',
    'kept, secrets masked. `trestle record list` shows them all. Exit code 1: a failed call is shown.',
  ].join('\n'),
  options: {},
  examples: ['trestle last', 'trestle last -o json', 'trestle record show'],
  run: (input) => showLast(input, 'last', input.words[0]),
}

/** Whether there is a failed call that this user may read. Throws CniError 5 where root cannot look. */
export function isFailureKept(): boolean {
  return process.geteuid?.() === 0 && requireStateIfThere() && keptRecords(stateRoot(), ['failures']).length > 0
}

/** Also of `trestle explain` without a text. */
export function showLast(input: Pick<Input, 'isJson' | 'output'>, command: string, id?: string): number {
  requireRoot(command, 'records of calls are files that only root may read')
  requireStateIfThere()
  const record = id === undefined ? newestFailure(input.output) : readRecord(pathOfRecord(id))
  if (record === undefined) {
    return print(input, { command, document: {}, text: 'no failed call is kept\n', code: exitCode.fine })
  }
  const known = diagnosesOf(record)
  const text = [callText(record), known.map(diagnosisText).join('')].filter((part) => part !== '').join('\n')
  const document = { record: record.lines, file: record.path, diagnoses: known.map(documentOf) }
  return print(input, { command, document, text, code: record.result.exit === 0 ? exitCode.fine : exitCode.findings })
}

/** The diagnoses of a failed call's error. */
function diagnosesOf({ call, result }: CallRecord): readonly Diagnosis[] {
  if (result.exit === 0) return []
  const { details } = parseObject(result.stdout) ?? {}
  const plugin = call.wraps === undefined ? '' : `plugin type="${call.wraps}" failed (${call.verb.toLowerCase()}): `
  const said = `${plugin}${result.msg ?? (result.stdout || result.stderr)}`
  const { own, errors, codes } = recognise(typeof details === 'string' ? `${said}\n${details}` : said)
  const found = [...own, ...errors.filter(({ role }) => role === 'cause')]
  return found.length > 0 ? found : codes
}
