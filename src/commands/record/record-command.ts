// SPDX-License-Identifier: Apache-2.0
// `trestle record`: switches the recording of calls, and shows what was recorded. No configuration is touched.

import { rmSync } from 'node:fs'
import { defined } from '../../cni/json.ts'
import { readSwitch, type Settings, writeSwitch } from '../../recording/record-settings.ts'
import { type Kept, keptRecords } from '../../recording/ring.ts'
import { requireStateIfThere, stateRoot } from '../../state/layout.ts'
import { type Command, exitCode, type Input, UsageError } from '../command.ts'
import { orElse } from '../if-there.ts'
import { print } from '../output.ts'
import { requireRoot } from '../self.ts'
import { tableText } from '../table.ts'
import { type CallRecord, pathOfRecord, readRecord } from './read-record.ts'
import { ageOf, errorIdOf, outcomeOf, podOf, wholeText } from './record-text.ts'

const actions = ['on', 'off', 'list', 'show', 'clear'] as const

export const recordCommand: Command = {
  name: 'record',
  words: '[ACTION] [ID]',
  maxWords: 2,
  summary: 'record CNI calls with all that they read, ran and answered',
  description: [
    'ACTION is on, off, list (default), show or clear. on records each call with all that it read, ran and answered,',
    'secrets masked; failed calls are kept without it. show has all of one call, the newest without ID.',
    'docs/record.md: how to wrap another plugin.',
  ].join('\n'),
  options: {
    only: { type: 'string', value: 'NAME', help: 'on: calls of this network or pod (NAME or NAMESPACE/NAME) only' },
  },
  examples: ['trestle record on --only shop/web', 'trestle record list', 'trestle record show', 'trestle record off'],
  run,
}

function run(input: Input): number {
  const [action = 'list', id] = input.words
  if (id !== undefined && action !== 'show') throw new UsageError(`unexpected argument "${id}"`)
  requireRoot('record', 'records of calls are files that only root may read')
  if (action !== 'on' && input.values['only'] !== undefined) throw new UsageError('--only goes with `record on`')
  switch (action as (typeof actions)[number]) {
    case 'on':
    case 'off':
      return switchRecord(input, action === 'on')
    case 'list':
      return list(input)
    case 'show':
      return show(input, id)
    case 'clear':
      return clear(input)
    default:
      throw new UsageError(`there is no "record ${action}"; use ${actions.join(', ')}`)
  }
}

function switchRecord(input: Input, isOn: boolean): number {
  const { only } = input.values
  if (only === '') throw new UsageError('--only: name a network or a pod')
  const settings = defined({ only }) as Settings
  writeSwitch(isOn ? settings : undefined)
  const whose = only === undefined ? 'each call' : `calls of ${String(only)}`
  const text = isOn
    ? `trestle records ${whose} from now on; \`trestle record list\` shows them, \`trestle record off\` ends it\n`
    : 'trestle records no calls; the records stay until `trestle record clear`\n'
  return print(input, { command: 'record', document: { record: isOn }, text, code: exitCode.fine })
}

/** One that cannot be read is shown by its id alone. */
function recordOf({ path }: Kept): CallRecord | undefined {
  return orElse(() => readRecord(path), undefined)
}

function list(input: Input): number {
  requireStateIfThere()
  const all = keptRecords(stateRoot())
  // A failure that was recorded is in both rings.
  const records = all
    .filter(({ id, ring }) => ring === 'records' || !all.some((each) => each.id === id && each.ring === 'records'))
    .map((kept): Listed => ({ ...kept, record: recordOf(kept) }))
  const title = ['ID', 'WHEN', 'VERB', 'POD', 'NETWORK', 'OUTCOME']
  const switched = readSwitch()
  const only = switched?.only === undefined ? '' : ` of ${switched.only}`
  const state = `recording${only} is ${switched === undefined ? 'off' : 'on'}; failed calls are kept\n`
  const text = records.length === 0 ? state : `${tableText(title, records.map(rowOf))}${state}`
  const document = { records: records.map(listedDocument), record: switched ?? false }
  return print(input, { command: 'record', document, text, code: exitCode.fine })
}

type Listed = Kept & { readonly record: CallRecord | undefined }

function listedDocument({ id, ring, verb, path, record }: Listed): object {
  if (record === undefined) return { id, ring, verb, file: path, outcome: 'not readable' }
  const { header, call, result } = record
  const about = { time: header.startedAt, pod: podOf(record), network: call.network, outcome: outcomeOf(record) }
  return defined({ id, ring, verb, file: path, ...about, ms: result.ms, errorId: errorIdOf(result.msg) })
}

function rowOf({ record, ...kept }: Listed): readonly string[] {
  if (record === undefined) return [kept.id, '', kept.verb, '', '', 'not readable']
  const { header, call, result } = record
  const { msg = result.stdout.trim() } = result
  const id = errorIdOf(msg)
  // The id stands first, since a long message is cut.
  const failed = id === undefined ? msg.slice(0, 60) : `[${id}] ${msg.slice(0, -`[${id}]`.length).trim().slice(0, 60)}`
  const said = result.exit === 0 ? `${result.ms} ms` : failed
  const age = `${ageOf(Date.now() - Date.parse(header.startedAt))} ago`
  return [kept.id, age, call.verb, podOf(record), call.network ?? '', `${outcomeOf(record)}: ${said}`]
}

function show(input: Input, id: string | undefined): number {
  const record = readRecord(pathOfRecord(id))
  const document = { record: record.lines, file: record.path }
  return print(input, { command: 'record', document, text: wholeText(record), code: exitCode.fine })
}

function clear(input: Input): number {
  requireStateIfThere()
  const all = keptRecords(stateRoot())
  for (const { path } of all) rmSync(path, { force: true })
  const ids = new Set(all.map(({ id }) => id))
  const text = `${ids.size} record${ids.size === 1 ? '' : 's'} removed\n`
  return print(input, { command: 'record', document: { removed: [...ids] }, text, code: exitCode.fine })
}
