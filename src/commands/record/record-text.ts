// SPDX-License-Identifier: Apache-2.0
// A record as text: what was asked, what was run, and what the answer was.

import { oneLine } from '../../cni/errors.ts'
import { parseObject } from '../../cni/json.ts'
import type { CallRecord } from './read-record.ts'
import type { ExecLine } from './record-schema.ts'

/** A call in a few lines. */
export function callText(record: CallRecord): string {
  const { header, call, result, executions } = record
  const age = ageOf(Date.now() - Date.parse(header.startedAt))
  const head = `${call.verb || 'a call without CNI_COMMAND'} ${outcomeOf(record)} ${age} ago (record ${header.id})\n`
  const error = [`code ${result.code ?? 'unknown'}: ${result.msg ?? (result.stdout.trim() || 'no error object')}`]
  const { details } = parseObject(result.stdout) ?? {}
  if (typeof details === 'string') error.push(...details.trimEnd().split('\n'))
  if (result.stderr.trim() !== '')
    error.push(
      ...result.stderr
        .trimEnd()
        .split('\n')
        .map((line) => `stderr: ${line}`),
    )
  const blocks = [
    block('asked', askedOf(record)),
    block('run', executions.length === 0 ? ['no process'] : executions.map((each) => executionTitle(each))),
    ...(result.exit === 0 ? [] : [block('failed', error)]),
  ]
  return `${head}${blocks.join('')}`
}

/** Everything that a record has. */
export function wholeText(record: CallRecord): string {
  const { call, result, executions, path } = record
  const environment = Object.entries(call.env).map(([name, value]) => `${name}=${value}`)
  if (call.otherEnv.length > 0) environment.push(`and, by name only: ${call.otherEnv.join(' ')}`)
  const texts: (readonly [title: string, text: string | undefined])[] = [
    ['environment', environment.toSorted().join('\n')],
    ['standard input', call.stdin ?? 'was not read'],
    ['standard output', result.stdout],
    ['standard error', result.stderr],
  ]
  for (const each of executions) {
    texts.push([executionTitle({ ...each, stderr: undefined }), each.stdin ?? ''])
    texts.push(['prints', each.stdout], ['says', each.stderr])
  }
  const blocks = texts.filter(([, text]) => text !== undefined && text !== '')
  const indented = blocks.map(([title, text = '']) => `${title}:\n${text.trimEnd().replace(/^/gm, '  ')}\n`)
  return [callText(record), ...indented, `file: ${path}\n`].join('\n')
}

/** How the call ended. */
export function outcomeOf({ result, call }: CallRecord): string {
  const by = call.wraps === undefined ? (call.answers ? ' (answer given)' : '') : ` (by ${call.wraps})`
  return `${result.exit === 0 ? 'succeeded' : 'failed'}${by}`
}

/** The id at the end of trestle's own messages (cni/error.ts). */
export function errorIdOf(message = ''): string | undefined {
  return /\[([a-z\d, -]+)\]$/.exec(message)?.[1]
}

/** The pod, or the container without one. */
export function podOf({ call }: CallRecord): string {
  return call.pod === undefined ? (call.containerId ?? '').slice(0, 13) : `${call.pod.namespace}/${call.pod.name}`
}

/** A time that has passed, in its largest unit. */
export function ageOf(ms: number): string {
  const units = [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['m', 60_000],
    ['s', 1000],
  ] as const
  const [unit, size] = units.find(([, size]) => ms >= 2 * size) ?? ['s', 1000]
  return `${Math.max(0, Math.floor(ms / size))}${unit}`
}

function askedOf({ call, result }: CallRecord): readonly string[] {
  const about = [
    call.network === undefined ? 'no network' : `network ${call.network}`,
    ...(call.pod === undefined ? [] : [`pod ${call.pod.namespace}/${call.pod.name}`]),
    ...(call.containerId ? [`container ${call.containerId}`] : []),
    ...(call.ifName ? [`interface ${call.ifName}`] : []),
    ...(call.netns ? [`in ${call.netns}`] : []),
  ]
  return [`${call.verb} of ${about.join(', ')}`, `answered after ${result.ms} ms, exit status ${result.exit}`]
}

function executionTitle({ argv, ms, exit, signal, failure, stderr, netns }: ExecLine): string {
  const end =
    failure ?? (signal === undefined ? (exit === undefined ? 'still at work' : `exit ${exit}`) : `ended by ${signal}`)
  // Tools mark the place in what they were given with a line of ^.
  const said = stderr === undefined ? '' : `: ${oneLine(stderr.replaceAll(/\n[\s^]*$/g, '')).slice(0, 200)}`
  const where = netns === undefined ? '' : ', in the pod'
  return `${argv.join(' ').slice(0, 120)} (${ms === undefined ? '' : `${ms} ms, `}${end}${where})${said}`
}

function block(title: string, lines: readonly string[]): string {
  return lines.map((line, at) => `  ${(at === 0 ? `${title}:` : '').padEnd(8)} ${line}\n`).join('')
}
