// SPDX-License-Identifier: Apache-2.0
// One call from environment and stdin to stdout and exit code: what skel does for the upstream plugins
// (cni pkg/skel/skel.go). The handlers are given to it, so that it knows nothing of Linux.

import { callerVersion, readVersionRequest } from '../../cni/config-head.ts'
import { CniError, errorBody, oneLine, toCniError, withoutDoneWords } from '../../cni/error.ts'
import { CniCode } from '../../cni/error-code.ts'
import { type Environment, type Invocation, readInvocation } from '../../cni/invocation.ts'
import { type CniVersion, currentVersion, type Result, supportedVersions } from '../../cni/result.ts'
import { writeResult } from '../../cni/result-shapes.ts'
import { readConfig, readDelConfig } from '../../config/config.ts'
import type { DelConf, NetConf } from '../../config/net-conf.ts'

/** What the verbs do. Each throws what should become the error; a DEL or GC may throw an AggregateError. */
export interface Handlers {
  readonly add: (invocation: Invocation, conf: NetConf) => Promise<Result>
  readonly del: (invocation: Invocation, conf: DelConf) => Promise<void>
  readonly check: (invocation: Invocation, conf: NetConf) => Promise<void>
  readonly gc: (invocation: Invocation, conf: NetConf) => Promise<void>
  readonly status: (invocation: Invocation, conf: NetConf) => Promise<void>
}

/**
 * `stdin` reads all of standard input; it is called once at most, and may throw or reject. `mostMs`: how long it may
 * take; absent: as long as the call.
 */
interface DispatchInput {
  readonly env: Environment
  readonly stdin: (mostMs?: number) => string | Promise<string>
  /** The names of this executable, each a `type` that is ours; default: trestle. */
  readonly ownTypes?: readonly string[]
  /** Sees standard input. A promise of an output: that is the answer, and no verb runs. */
  readonly onStdin?: (stdin: string) => Promise<DispatchOutput | undefined> | undefined
}

/** What the process is to write and return: one JSON document with a line break, or nothing. */
export interface DispatchOutput {
  readonly stdout: string
  /** Of another plugin's answer: its bytes, of which `stdout` is the text, and its exit code. */
  readonly bytes?: Uint8Array
  readonly exitCode: number
  /** Takes back what an ADD made, for a result that nobody reads. */
  readonly teardown?: () => Promise<void>
}

async function readStdin(input: DispatchInput): Promise<string> {
  try {
    return await input.stdin()
  } catch (cause) {
    if (cause instanceof CniError) throw cause
    const reason = oneLine(cause instanceof Error ? cause.message : String(cause))
    throw new CniError('stdin-unreadable', `error reading from stdin: ${reason}`, { cause })
  }
}

/** Upstream reads no stdin on VERSION, so that a caller may have left it open. */
const versionStdinMs = 1000

/** VERSION must work whatever stdin is: CNI spec 1.1.0, section 3. */
async function answerVersion(input: DispatchInput): Promise<DispatchOutput> {
  let cniVersion: CniVersion = currentVersion
  try {
    const stdin = await input.stdin(versionStdinMs)
    const answered = await input.onStdin?.(stdin)
    if (answered) return answered
    cniVersion = readVersionRequest(stdin)
  } catch (cause) {
    if (cause instanceof CniError && cause.code === CniCode.interrupted) throw cause
    // A stdin that cannot be read asks for no version.
  }
  return { stdout: `${JSON.stringify({ cniVersion, supportedVersions })}\n`, exitCode: 0 }
}

async function run(invocation: Invocation, stdin: string, handlers: Handlers): Promise<string> {
  if (invocation.verb === 'DEL') {
    await handlers.del(invocation, readDelConfig(stdin, invocation.ownTypes))
    return ''
  }
  const conf = readConfig(stdin, invocation)
  switch (invocation.verb) {
    case 'ADD':
      return writeResult(await handlers.add(invocation, conf), conf.cniVersion)
    case 'CHECK':
      await handlers.check(invocation, conf)
      return ''
    case 'GC':
      await handlers.gc(invocation, conf)
      return ''
    case 'STATUS':
      await handlers.status(invocation, conf)
      return ''
    default:
      throw new CniError('verb-unknown', `unknown CNI_COMMAND: ${invocation.verb}`)
  }
}

/** A runtime that has no result takes the ADD for failed: what it made is what a DEL of it removes. */
function teardownOf(invocation: Invocation, stdin: string, handlers: Handlers): () => Promise<void> {
  return () => handlers.del(invocation, readDelConfig(stdin, invocation.ownTypes))
}

/** The error document for whatever was thrown. An error of DEL keeps clear of what runtimes take for success. */
export function failure(thrown: unknown, version: CniVersion, env: Environment): DispatchOutput {
  const body = errorBody(toCniError(thrown), version)
  const document = env['CNI_COMMAND'] === 'DEL' ? withoutDoneWords(body) : body
  return { stdout: `${JSON.stringify(document)}\n`, exitCode: 1 }
}

/** Never rejects: whatever is thrown becomes one document of the caller's version, or ours where it tells none. */
export async function dispatch(input: DispatchInput, handlers: Handlers): Promise<DispatchOutput> {
  let stdin: string | undefined
  try {
    const invocation = readInvocation(input.env, input.ownTypes)
    if (invocation.verb === 'VERSION') return await answerVersion(input)
    stdin = await readStdin(input)
    const answer = input.onStdin?.(stdin)
    const answered = answer && (await answer)
    if (answered) return answered
    const stdout = await run(invocation, stdin, handlers)
    return {
      stdout,
      exitCode: 0,
      ...(invocation.verb === 'ADD' ? { teardown: teardownOf(invocation, stdin, handlers) } : {}),
    }
  } catch (thrown) {
    return failure(thrown, stdin === undefined ? currentVersion : callerVersion(stdin), input.env)
  }
}
