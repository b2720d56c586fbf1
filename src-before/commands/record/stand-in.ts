// SPDX-License-Identifier: Apache-2.0
// In another plugin's place. record.wrap: runs that plugin with the input that it would have got, and passes its answer
// on byte for byte. record.answer: gives the answers of the configuration, and makes nothing.

import { spawn } from 'node:child_process'
import { CniError } from '../../cni/error.ts'
import { isObject, parseObject } from '../../cni/json.ts'
import { nowMs } from '../../system/process/clock.ts'
import type { Execution } from '../../system/process/executions.ts'
import { isExecutable } from '../../system/process/programs.ts'
import type { DispatchOutput } from '../call/dispatch.ts'

type Env = Readonly<Record<string, string | undefined>>

/** A call that another plugin answers. */
interface Wrapped {
  readonly plugin: string
  readonly ownTypes: readonly string[]
  readonly env: Env
  readonly stdin: string
}

/**
 * Runs the plugin; `note` gets the process. Rejects with CniError 7 for a wrong name, plugin-missing where there is
 * none, plugin-failed where it does not run or a signal ends it.
 */
export async function answerOfPlugin(wrapped: Wrapped, note: (execution: Execution) => void): Promise<DispatchOutput> {
  const { env } = wrapped
  const file = fileOf(wrapped)
  const stdin = inputOf(wrapped)
  const variables = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const command = { file, args: [], stdin, env: Object.fromEntries(variables) }
  const startMs = nowMs()
  const { status, signal, stdout, stderr } = await finished(file, stdin, command.env)
  const text = stdout.toString('utf8')
  const output = {
    code: status ?? undefined,
    ...(signal ? { signal } : {}),
    stdout: text,
    stderr: stderr.toString('utf8'),
  }
  note({ command, startMs, ms: nowMs() - startMs, output })
  if (status === null) {
    const details = `${file} printed no whole document; its standard error: ${output.stderr || 'nothing'}`
    throw new CniError('plugin-failed', `record.wrap: the plugin "${wrapped.plugin}" was ended by ${signal}`, {
      details,
    })
  }
  return { stdout: text, bytes: stdout, exitCode: status }
}

function fileOf({ plugin, ownTypes, env }: Wrapped): string {
  if (!/^[\w.-]{1,200}$/.test(plugin) || plugin.startsWith('.') || ownTypes.includes(plugin)) {
    const details = 'use the name of another plugin, a file in CNI_PATH'
    throw new CniError('invalid-value', `record.wrap: ${JSON.stringify(plugin)} is no other plugin`, { details })
  }
  const files = (env['CNI_PATH'] ?? '').split(':').flatMap((each) => (each === '' ? [] : [`${each}/${plugin}`]))
  const found = files.find(isExecutable)
  if (found !== undefined) return found
  const details = `looked for ${files.join(', ') || 'nothing: CNI_PATH is empty'}`
  throw new CniError('plugin-missing', `record.wrap: cannot find the plugin "${plugin}" in CNI_PATH`, { details })
}

/** The configuration as the plugin would have got it: its own type, and no key `record`. Numbers keep their digits. */
export function inputOf({ plugin, stdin }: Pick<Wrapped, 'plugin' | 'stdin'>): string {
  const conf = JSON.parse(stdin, (_, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && context?.source !== undefined ? rawJson(context.source) : value,
  ) as Record<string, unknown>
  const keys = Object.keys(conf).filter((key) => key.toLowerCase() !== 'record')
  return JSON.stringify(Object.fromEntries(keys.map((key) => [key, key === 'type' ? plugin : conf[key]])))
}

/** tc39 "JSON.parse source text access", which the types of TypeScript 5 do not have. */
function rawJson(source: string): unknown {
  return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(source)
}

interface Finished {
  readonly status: number | null
  readonly signal: string | null
  readonly stdout: Buffer
  readonly stderr: Buffer
}

/** No deadline: what the runtime gives the plugin is its own. A signal to end is passed on. */
function finished(file: string, stdin: string, env: Record<string, string>): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const refuse = (cause: NodeJS.ErrnoException) => {
      const details = `CNI_PATH has it as ${file}; install the plugin that this machine can run`
      reject(new CniError('plugin-failed', `record.wrap: cannot run ${file}: ${cause.code}`, { details, cause }))
    }
    const child = spawned(file, env, refuse)
    if (child === undefined) return
    const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []]
    child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => {
      stderr.push(chunk)
      process.stderr.write(chunk.toString('utf8'))
    })
    child.stdin.on('error', () => undefined)
    child.stdin.end(stdin)
    for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, () => child.kill(name))
    child.on('error', refuse)
    child.on('close', (status, signal) => {
      resolve({ status, signal, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr) })
    })
  })
}

/** A file that is being written (ETXTBSY) and an interpreter without end (ELOOP) are thrown by spawn; most it emits. */
function spawned(file: string, env: Record<string, string>, refuse: (cause: NodeJS.ErrnoException) => void) {
  try {
    return spawn(file, [], { env, stdio: ['pipe', 'pipe', 'pipe'] })
  } catch (cause) {
    refuse(cause as NodeJS.ErrnoException)
    return undefined
  }
}

/** The answer of record.answer for a verb: text as it is; an object gets a cniVersion, and with a code fails. */
export function givenAnswer(answer: Readonly<Record<string, unknown>>, verb: string, stdin: string): DispatchOutput {
  const conf = parseObject(stdin) ?? {}
  const given = answer[verb] ?? (verb === 'ADD' ? (conf['prevResult'] ?? {}) : undefined)
  if (typeof given === 'string') return { stdout: given, exitCode: 0 }
  if (!isObject(given)) return { stdout: '', exitCode: 0 }
  const isError = Number.isInteger(given['code'])
  if (!isError && verb !== 'ADD') return { stdout: '', exitCode: 0 }
  return { stdout: `${JSON.stringify({ cniVersion: conf['cniVersion'], ...given })}\n`, exitCode: isError ? 1 : 0 }
}
