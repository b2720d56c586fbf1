// SPDX-License-Identifier: Apache-2.0
// The text of a record: lines of schema.ts, with secrets masked, as long as its ring allows.

import { isObject, parseObject } from '../../cni/json.ts'
import { isSecretName, masked, maskedWords } from '../../cni/secrets.ts'
import { readKey } from '../../system/kernel/kernel-files.ts'
import { timestamp } from '../../system/process/clock.ts'
import type { Execution } from '../../system/process/executions.ts'
import type { SeenCall } from './keeper.ts'
import type { CallLine, ExecLine, Header, Line, NodeWorld, PodWorld, ResultLine } from './schema.ts'

// build.mjs defines both; they are absent when the sources run unbundled.
declare const TRESTLE_VERSION: string | undefined
declare const TRESTLE_COMMIT: string | undefined

/** The version of the format (schema.ts): a reader refuses a newer one. */
export const recordVersion = 1

/** This build, as records and logs name it. */
export const build = {
  version: typeof TRESTLE_VERSION === 'undefined' ? 'unbuilt' : TRESTLE_VERSION,
  commit: typeof TRESTLE_COMMIT === 'undefined' ? 'unknown' : TRESTLE_COMMIT,
}

/** What of a call is the same in a record, a log line and a trace. */
export interface Subject {
  readonly verb: string
  readonly network?: string
  readonly containerId: string
  readonly ifName: string
  readonly netns: string
  readonly pod?: { readonly namespace: string; readonly name: string; readonly uid?: string }
}

export function subjectOf(
  env: Readonly<Record<string, string | undefined>>,
  conf: Readonly<Record<string, unknown>>,
): Subject {
  const args = new Map((env['CNI_ARGS'] ?? '').split(';').map((pair) => pair.split('=', 2) as [string, string]))
  const [namespace, name, uid] = ['NAMESPACE', 'NAME', 'UID'].map((word) => args.get(`K8S_POD_${word}`))
  return {
    verb: env['CNI_COMMAND'] ?? '',
    ...(typeof conf['name'] === 'string' ? { network: conf['name'] } : {}),
    containerId: env['CNI_CONTAINERID'] ?? '',
    ifName: env['CNI_IFNAME'] ?? '',
    netns: env['CNI_NETNS'] ?? '',
    ...(name ? { pod: { namespace: namespace ?? '', name, ...(uid ? { uid } : {}) } } : {}),
  }
}

/** Everything that a record says. */
export interface Recorded {
  readonly id: string
  readonly startedMs: number
  readonly subject: Subject
  readonly env: Readonly<Record<string, string | undefined>>
  readonly seen: SeenCall
  readonly executions: readonly Execution[]
  readonly isNetnsAbsent: boolean
  readonly standIn: { readonly wraps?: string; readonly answers?: true }
  readonly node: NodeWorld
  readonly pod: PodWorld | undefined
}

/** Longer texts are cut before they are masked, because masking takes time. */
const longestMasked = 256 * 1024

/** Texts are cut to these lengths, the first at which the record is short enough. */
const lengths = [64 * 1024, 8 * 1024, 1024, 256]

/** The record as JSON lines. */
export function recordText(recorded: Recorded, mostBytes: number): string {
  let text = ''
  for (const length of lengths) {
    text = linesOf(recorded, length)
      .map((line) => `${JSON.stringify(line)}\n`)
      .join('')
    if (Buffer.byteLength(text) <= mostBytes) break
  }
  return text
}

function linesOf(recorded: Recorded, length: number): readonly Line[] {
  const { node, pod, executions } = recorded
  const short = length < 8 * 1024
  return [
    headerOf(recorded),
    short ? { ...node, state: {}, isStateWhole: false } : masksIn(node),
    callOf(recorded, length),
    ...executions.slice(0, 200).map((execution) => execOf(execution, length)),
    resultOf(recorded.seen, length),
    ...(pod === undefined || short ? [] : [masksIn(pod)]),
  ]
}

function headerOf({ id, startedMs }: Recorded): Header {
  return {
    type: 'header',
    version: recordVersion,
    id,
    time: timestamp(startedMs),
    by: `trestle ${build.version} (${build.commit})`,
    // node:os has the release of the start-up snapshot's machine.
    kernel: readKey('kernel/osrelease') ?? '',
    secrets: 'masked',
  }
}

/** The specification's names (CNI spec 1.1.0, section 2 "Parameters"): another name may hold a secret. */
const isOfCall = /^CNI_(?:COMMAND|CONTAINERID|NETNS|IFNAME|ARGS|PATH)$/
const byValue = /^(?:PATH|TRACEPARENT|TRACESTATE|BAGGAGE|OTEL_.*)$/

function variablesOf(env: Recorded['env']): Pick<CallLine, 'env' | 'otherEnv'> {
  const all = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const isShown = ([name]: [string, string]) => isOfCall.test(name) || byValue.test(name)
  // Headers of OpenTelemetry's exporters hold keys, whatever the keys' names.
  const value = ([name, text]: [string, string]) =>
    isSecretName(name) || /HEADERS$/.test(name) ? '***' : cut(masked(text), 8192)
  return {
    env: Object.fromEntries(all.filter(isShown).map((each) => [each[0], value(each)])),
    otherEnv: all.flatMap((each) => (isShown(each) ? [] : [each[0].slice(0, 200)])).slice(0, 500),
  }
}

function callOf({ subject, env, seen, standIn, isNetnsAbsent }: Recorded, length: number): CallLine {
  // A configuration is replayed: it is cut last.
  const stdin = seen.stdin === undefined ? undefined : maskedText(seen.stdin)
  const most = Math.max(length, 16 * 1024)
  return {
    type: 'call',
    ...subject,
    ...(isNetnsAbsent ? { isNetnsAbsent } : {}),
    program: process.execPath,
    ...variablesOf(env),
    ...(stdin === undefined ? {} : { stdin: stdin.slice(0, most) }),
    ...(stdin !== undefined && stdin.length > most ? { stdinCut: stdin.length - most } : {}),
    ...standIn,
  }
}

function execOf({ command, startMs, ms, stdin, output, failure }: Execution, length: number): ExecLine {
  const given = stdin ?? (typeof command.stdin === 'string' ? command.stdin : undefined)
  const text = (name: string, value: string | undefined) =>
    value === undefined || value === '' ? {} : { [name]: cut(maskedText(value), length) }
  return {
    type: 'exec',
    argv: [...maskedWords([command.file, ...command.args])],
    ...(command.env === undefined ? {} : { env: cniVariables(command.env) }),
    ...(command.netnsFd === undefined ? {} : { netns: 'pod' as const }),
    ...text('stdin', given),
    ...text('stdout', output?.stdout),
    ...text('stderr', output?.stderr),
    ...(output?.code === undefined ? {} : { exit: output.code }),
    ...(output?.signal === undefined ? {} : { signal: output.signal }),
    ...(failure === undefined ? {} : { failure: masked(failure) }),
    startMs: rounded(startMs),
    ...(ms === undefined ? {} : { ms: rounded(ms) }),
  }
}

function cniVariables(env: Readonly<Record<string, string>>): Record<string, string> {
  const all = Object.entries(env).filter(([name]) => isOfCall.test(name))
  return Object.fromEntries(all.map(([name, value]) => [name, cut(masked(value), 8192)]))
}

function resultOf({ exitCode, stdout, stderr, ms }: SeenCall, length: number): ResultLine {
  return {
    type: 'result',
    exit: exitCode,
    stdout: cut(maskedText(stdout), Math.max(length, 8 * 1024)),
    stderr: cut(maskedText(stderr), length),
    ms: rounded(ms),
    ...(exitCode === 0 ? {} : errorOf(stdout)),
  }
}

/** The code and the message of an error document. */
export function errorOf(stdout: string): { readonly code?: number; readonly msg?: string } {
  const { code, msg } = parseObject(stdout) ?? {}
  return {
    ...(Number.isInteger(code) ? { code: code as number } : {}),
    ...(typeof msg === 'string' ? { msg: masked(msg).slice(0, 2000) } : {}),
  }
}

function maskedText(text: string): string {
  return masked(text.length > longestMasked ? text.slice(0, longestMasked) : text)
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}... (${text.length - length} more characters)`
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100
}

/** Masks every string of a value. */
function masksIn<T>(value: T): T {
  if (typeof value === 'string') return masked(value) as T
  if (Array.isArray(value)) return value.map(masksIn) as T
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, masksIn(each)])) as T
}
