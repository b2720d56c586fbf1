// SPDX-License-Identifier: Apache-2.0
// In another plugin's place. record.wrap runs that plugin with the input that it would have got and passes its answer on
// byte for byte; record.answer gives answers of the configuration and makes nothing.

import { spawn } from 'node:child_process'
import type { Environment } from '../cni/call.ts'
import type { CallOutput } from '../cni/dispatch.ts'
import { CniError, Code } from '../cni/errors.ts'
import { isObject, type JsonObject, parseObject } from '../cni/json.ts'
import { nowMs } from '../process/clock.ts'
import { ownTypes } from '../process/executable.ts'
import { isExecutable } from '../process/runner.ts'
import type { Execution } from './recorder.ts'

interface Wrapped {
  readonly plugin: string
  readonly env: Environment
  readonly stdin: string
}

/** `note` gets the process. Rejects with CniError 7 for a wrong name, 105 where the plugin is missing or does not run. */
export async function answerOfPlugin(wrapped: Wrapped, note: (execution: Execution) => void): Promise<CallOutput> {
  const file = requireFile(wrapped)
  const stdin = inputOf(wrapped)
  const variables = Object.entries(wrapped.env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const env = Object.fromEntries(variables)
  const startMs = nowMs()
  const { status, signal, stdout, stderr } = await finished(file, stdin, env)
  const text = stdout.toString('utf8')
  const output = {
    code: status ?? undefined,
    ...(signal ? { signal } : {}),
    stdout: text,
    stderr: stderr.toString('utf8'),
  }
  note({ command: { file, args: [], stdin, env }, startMs, ms: nowMs() - startMs, output })
  if (status !== null) return { stdout: text, bytes: stdout, exitCode: status }
  const message = `record.wrap: the plugin "${wrapped.plugin}" was ended by ${signal}`
  throw new CniError(Code.delegateFailed, 'plugin-failed', message, {
    details: `${file} printed no whole document; stderr: ${output.stderr || 'nothing'}`,
  })
}

function requireFile({ plugin, env }: Wrapped): string {
  if (!/^[\w-][\w.-]{0,199}$/.test(plugin) || ownTypes().includes(plugin)) {
    const details = 'use the name of another plugin, a file in CNI_PATH'
    throw new CniError(
      Code.invalidConfig,
      'invalid-value',
      `record.wrap: ${JSON.stringify(plugin)} is no other plugin`,
      { details },
    )
  }
  const files = (env['CNI_PATH'] ?? '').split(':').flatMap((each) => (each === '' ? [] : [`${each}/${plugin}`]))
  const found = files.find(isExecutable)
  if (found !== undefined) return found
  const details = `looked for ${files.join(', ') || 'nothing: CNI_PATH is empty'}`
  throw new CniError(
    Code.delegateFailed,
    'plugin-missing',
    `record.wrap: cannot find the plugin "${plugin}" in CNI_PATH`,
    { details },
  )
}

/** The configuration with the plugin's own type and without `record`. Numbers keep their digits. */
export function inputOf({ plugin, stdin }: Pick<Wrapped, 'plugin' | 'stdin'>): string {
  const raw = JSON as unknown as { rawJSON(text: string): unknown }
  const conf = JSON.parse(stdin, (_, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && context?.source !== undefined ? raw.rawJSON(context.source) : value,
  ) as Record<string, unknown>
  const entries = Object.entries(conf).filter(([key]) => key.toLowerCase() !== 'record')
  return JSON.stringify(Object.fromEntries(entries.map(([key, value]) => [key, key === 'type' ? plugin : value])))
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
      reject(
        new CniError(Code.delegateFailed, 'plugin-failed', `record.wrap: cannot run ${file}: ${cause.code}`, {
          details,
          cause,
        }),
      )
    }
    try {
      const child = spawn(file, [], { env, stdio: ['pipe', 'pipe', 'pipe'] })
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
      child.on('close', (status, signal) =>
        resolve({ status, signal, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr) }),
      )
    } catch (cause) {
      // spawn throws ETXTBSY and ELOOP; most failures it emits.
      refuse(cause as NodeJS.ErrnoException)
    }
  })
}

/** Text as it is; an object gets a cniVersion, and with a code it is an error. */
export function givenAnswer(answer: JsonObject, verb: string, stdin: string): CallOutput {
  const conf = parseObject(stdin) ?? {}
  const given = answer[verb] ?? (verb === 'ADD' ? (conf['prevResult'] ?? {}) : undefined)
  if (typeof given === 'string') return { stdout: given, exitCode: 0 }
  const isError = isObject(given) && Number.isInteger(given['code'])
  if (!isObject(given) || (!isError && verb !== 'ADD')) return { stdout: '', exitCode: 0 }
  return { stdout: `${JSON.stringify({ cniVersion: conf['cniVersion'], ...given })}\n`, exitCode: isError ? 1 : 0 }
}
