// SPDX-License-Identifier: Apache-2.0
// Reads a record, its own or one that somebody sent: nothing in it is trusted, and a part of one is refused.

import { statSync } from 'node:fs'
import { type CniError, oneLine } from '../../cni/errors.ts'
import { parseObject } from '../../cni/json.ts'
import { recordKeyOf } from '../../recording/record-settings.ts'
import { type Kept, keptRecords } from '../../recording/ring.ts'
import { stateRoot } from '../../state/layout.ts'
import { failureOf } from '../failure.ts'
import { readInputText } from '../input-file.ts'
import type { Output } from '../output.ts'
import { isOwnType } from '../own-type.ts'
import {
  type CallLine,
  type ExecLine,
  type Header,
  type Line,
  lineSchema,
  type ResultLine,
  recordVersion,
} from './record-schema.ts'

/** With what the configuration says of trestle in another plugin's place. */
export interface Call extends CallLine {
  readonly wraps?: string
  readonly answers?: true
}

/** A record, its lines by their types. */
export interface CallRecord {
  readonly path: string
  readonly header: Header
  readonly call: Call
  readonly executions: readonly ExecLine[]
  readonly result: ResultLine
  readonly lines: readonly Line[]
}

/** No ring keeps a longer record. */
const mostBytes = 16 * 1024 * 1024

/** The path of a record by its id, its beginning or end; the newest without one. Throws CniError 5. */
export function pathOfRecord(id: string | undefined, root = stateRoot()): string {
  const all = keptRecords(root)
  const found =
    id === undefined ? all.slice(0, 1) : all.filter((each) => each.id.startsWith(id) || each.id.endsWith(`-${id}`))
  // A failure that was recorded is in both rings under one id, and the recording says more.
  const ids = [...new Set(found.map((each) => each.id))]
  const [first] = found.toSorted((a, b) => (a.ring < b.ring ? 1 : -1))
  if (first !== undefined && ids.length === 1) return first.path
  const hint =
    ids.length > 1 ? `several begin or end like that: ${ids.slice(0, 5).join(', ')}` : 'see `trestle record list`'
  throw failureOf(
    'record-missing',
    id === undefined ? 'no call is recorded' : `there is no one record ${oneLine(id)}`,
    {
      details: all.length === 0 ? '`trestle record on` records each call; a call that fails is kept without it' : hint,
    },
  )
}

/**
 * The failed call that a person asks about: the newest, but an ADD before the DEL that cleans up behind it. Unreadable
 * records are passed over, with a line on stderr. Throws CniError where none can be read.
 */
export function newestFailure({ err }: Pick<Output, 'err'>): CallRecord | undefined {
  const problems: Error[] = []
  const records = readable(keptRecords(stateRoot(), ['failures']), problems)
  const failed = records.next().value
  if (failed === undefined && problems[0] !== undefined) throw problems[0]
  for (const { message } of problems) err(`trestle: ${message}: this is the newest failed call that can be read\n`)
  if (failed?.call.verb !== 'DEL') return failed
  const { containerId, ifName } = failed.call
  const isItsAdd = ({ call }: CallRecord) =>
    call.verb === 'ADD' && call.containerId === containerId && call.ifName === ifName
  return records.find(isItsAdd) ?? failed
}

function* readable(kept: readonly Kept[], problems: Error[]): Generator<CallRecord, undefined> {
  for (const { path } of kept) {
    try {
      yield readRecord(path)
    } catch (error) {
      problems.push(error as Error)
    }
  }
}

/** The record in a file. Throws CniError 5 for an unreadable file, 6 for a text that is no whole record. */
export function readRecord(path: string): CallRecord {
  const bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  if (bytes > mostBytes) throw refused(path, `it has ${bytes} bytes, and a record ${mostBytes} at most`)
  const text = readInputText(path)
  const lines = text.split('\n')
  // Each line ends with a line break, so that the last part is empty.
  if (lines.pop() !== '') throw refused(path, `it is cut off in line ${lines.length + 1}`)
  const read = lines.map((line, at) => lineOf(path, line, at))
  const [header] = read
  if (header?.type !== 'record') throw refused(path, 'its first line is no header of a record')
  const part = <T extends Line['type']>(type: T) =>
    read.filter((line): line is Extract<Line, { type: T }> => line.type === type)
  const [[call], [result]] = [part('call'), part('result')]
  if (call === undefined || result === undefined)
    throw refused(path, `it is cut off: it has no ${call ? 'result' : 'call'}`)
  const of = { ...call, ...standInOf(call) }
  return { path, header, call: of, executions: part('exec'), result, lines: read }
}

function standInOf({ stdin = '' }: CallLine): Pick<Call, 'wraps' | 'answers'> {
  const conf = parseObject(stdin) ?? {}
  const { wrap, answer } = (isOwnType(conf['type']) ? recordKeyOf(conf) : undefined) ?? {}
  if (wrap !== undefined) return { wraps: wrap }
  return answer === undefined ? {} : { answers: true }
}

function lineOf(path: string, line: string, at: number): Line {
  const value = parseObject(line)
  if (value === undefined) throw refused(path, `line ${at + 1} is no JSON object`)
  const { type, formatVersion: version } = value
  if (type === 'record' && typeof version === 'number' && version > recordVersion)
    throw refused(
      path,
      `its format has version ${version}, and this trestle reads version ${recordVersion}: update trestle`,
    )
  const { success, data, error } = lineSchema.safeParse(value)
  if (success) return data
  const place = error.issues[0]?.path.join('.') ?? ''
  throw refused(path, `line ${at + 1} is none of a record${place === '' ? '' : ` (${place})`}`)
}

function refused(path: string, why: string): CniError {
  return failureOf('record-unreadable', `cannot read the record ${path}: ${why}`)
}
