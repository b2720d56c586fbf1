// SPDX-License-Identifier: Apache-2.0
// What is written down of a call, with secrets masked. A bundle of its own: a call that succeeds and is not asked about
// loads nothing of it.

import type { Environment } from '../cni/call.ts'
import type { CallOutput } from '../cni/dispatch.ts'
import { type JsonObject, parseObject } from '../cni/json.ts'
import { nowMs } from '../process/clock.ts'
import { ownTypes } from '../process/executable.ts'
import { stateRoot } from '../state/layout.ts'
import { readSwitch, recordKeyOf, type Settings } from './record-settings.ts'
import type { Keeper, SeenCall } from './recorder.ts'
import { keepRecord, mostBytesOf, type RingName, recordId } from './ring.ts'
import { isSecretName, masked, maskedWords } from './secrets.ts'
import { answerOfPlugin, givenAnswer } from './stand-in.ts'

// build.mjs defines both; they are absent when the sources run unbundled.
declare const TRESTLE_VERSION: string | undefined
declare const TRESTLE_COMMIT: string | undefined

/** The version of the format: a reader refuses a newer one. */
const recordVersion = 1

/** What configuration and switch file ask for; undefined where neither does. */
function askedFor({ stdin = '' }: SeenCall): Settings | undefined {
  const [inConf, switched] = [recordKeyOf(parseObject(stdin) ?? {}), readSwitch()]
  return inConf === undefined && switched === undefined ? undefined : { ...inConf, ...switched }
}

function isMeant({ only }: Settings, { env, stdin = '' }: SeenCall): boolean {
  const { network, pod } = subjectOf(env, parseObject(stdin) ?? {})
  return only === undefined || [network, pod?.name, pod && `${pod.namespace}/${pod.name}`].includes(only)
}

function subjectOf(env: Environment, conf: JsonObject) {
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

function keep(call: SeenCall): void {
  const asked = askedFor(call)
  if (call.exitCode !== 0) write('failures', call)
  if (asked !== undefined && isMeant(asked, call)) write('records', call, asked.keep)
}

/** Nobody's network depends on a record: a full disk, or a file in a directory's place, ends it alone. */
function write(ring: RingName, call: SeenCall, calls?: number): void {
  try {
    const id = recordId(call.startedMs)
    const verb = call.env['CNI_COMMAND'] ?? ''
    keepRecord(stateRoot(), { ring, verb, id }, recordText(call, id, mostBytesOf(ring)), calls)
  } catch {
    // See above.
  }
}

/** Lines of JSON with secrets masked; texts are cut until it is short enough. */
function recordText(call: SeenCall, id: string, mostBytes: number): string {
  for (let length = 64 * 1024; ; length = Math.floor(length / 4)) {
    const text = linesOf(call, id, length)
      .map((line) => `${JSON.stringify(line)}\n`)
      .join('')
    if (text.length <= mostBytes || length < 64) return text
  }
}

function linesOf(
  { startedMs, stdin, stderr, stdout, exitCode, env, executions }: SeenCall,
  id: string,
  length: number,
): readonly object[] {
  const cut = (text: string, most = length) =>
    text.length <= most ? text : `${text.slice(0, most)}... (${text.length - most} more characters)`
  const clean = (text: string) => masked(text.slice(0, 1024 * 1024))
  const given = (name: string, text: string | undefined) =>
    text === undefined || text === '' ? {} : { [name]: cut(clean(text)) }
  const conf = parseObject(stdin ?? '') ?? {}
  const version = typeof TRESTLE_VERSION === 'undefined' ? 'unbuilt' : TRESTLE_VERSION
  const commit = typeof TRESTLE_COMMIT === 'undefined' ? 'unknown' : TRESTLE_COMMIT
  const { code, msg } = exitCode === 0 ? {} : (parseObject(stdout) ?? {})
  return [
    { type: 'record', formatVersion: recordVersion, id, startedAt: new Date(startedMs).toISOString(), version, commit },
    // A configuration is replayed: it is cut last.
    {
      type: 'call',
      ...subjectOf(env, conf),
      program: process.execPath,
      ...variablesOf(env),
      ...(stdin === undefined ? {} : { stdin: cut(clean(stdin), Math.max(length, 16 * 1024)) }),
    },
    ...executions.map(({ command, startMs, ms, stdin: input, output, failure }) => ({
      type: 'exec',
      argv: maskedWords([command.file, ...command.args]),
      ...(command.netnsFd === undefined ? {} : { netns: 'pod' }),
      ...given('stdin', input ?? (typeof command.stdin === 'string' ? command.stdin : undefined)),
      ...given('stdout', output?.stdout),
      ...given('stderr', output?.stderr),
      ...(output?.code === undefined ? {} : { exit: output.code }),
      ...(output?.signal === undefined ? {} : { signal: output.signal }),
      ...(failure === undefined ? {} : { failure: masked(failure) }),
      startMs: rounded(startMs),
      ...(ms === undefined ? {} : { ms: rounded(ms) }),
    })),
    {
      type: 'result',
      exit: exitCode,
      stdout: cut(clean(stdout), Math.max(length, 8 * 1024)),
      stderr: cut(clean(stderr)),
      ms: rounded(nowMs()),
      ...(Number.isInteger(code) ? { code } : {}),
      ...(typeof msg === 'string' ? { msg: masked(msg).slice(0, 2000) } : {}),
    },
  ]
}

/** Variables of the call with their values, of others the names: they may be anybody's. */
function variablesOf(env: Environment) {
  const all = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const isShown = ([name]: readonly [string, string]) => name.startsWith('CNI_') || name === 'PATH'
  const shown = all
    .filter(isShown)
    .map(([name, text]) => [name, isSecretName(name) ? '***' : masked(text).slice(0, 8192)])
  const otherEnv = all
    .filter((each) => !isShown(each))
    .map(([name]) => name.slice(0, 200))
    .slice(0, 500)
  return { env: Object.fromEntries(shown), otherEnv }
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100
}

/** What `record.wrap` or `record.answer` put in the verb's place, where trestle itself was called. */
async function answer(call: SeenCall): Promise<CallOutput | undefined> {
  const { env, stdin = '', executions } = call
  const { wrap: plugin, answer: given } = askedFor(call) ?? {}
  if (!ownTypes().includes(parseObject(stdin)?.['type'] as string)) return undefined
  if (plugin !== undefined)
    return await answerOfPlugin({ plugin, env, stdin }, (execution) => executions.push(execution))
  return given === undefined ? undefined : givenAnswer(given, env['CNI_COMMAND'] ?? '', stdin)
}

export const main: Keeper = { keep, answer }
