// SPDX-License-Identifier: Apache-2.0
// One call from environment and stdin to stdout and exit code, as skel does it for the reference plugins
// (cni pkg/skel/skel.go). The verbs are given to it: it knows nothing of Linux.

import type { DelConf, NetworkConf } from '../config/network-conf.ts'
import { readConfig, readDelConfig } from '../config/read-config.ts'
import { type Call, type Environment, readCall } from './call.ts'
import { callerVersion, readVersionRequest } from './config-head.ts'
import { CniError, Code, errorDocument, toCniError } from './errors.ts'
import { type CniVersion, currentVersion, type Result, supportedVersions, writeResult } from './results.ts'

/** What the verbs do. Each throws what becomes the error; DEL and GC may throw an AggregateError. */
export interface Verbs {
  readonly add: (call: Call, conf: NetworkConf) => Promise<Result>
  readonly del: (call: Call, conf: DelConf) => Promise<void>
  readonly check: (call: Call, conf: NetworkConf) => Promise<void>
  readonly gc: (call: Call, conf: NetworkConf) => Promise<void>
  readonly status: (call: Call, conf: NetworkConf) => Promise<void>
}

export interface CallInput {
  readonly env: Environment
  readonly ownTypes: readonly string[]
  /** All of standard input. `mostMs`: how long it may take. */
  readonly stdin: (mostMs?: number) => string | Promise<string>
  /** Sees standard input, and may answer in place of the verb (`record`). */
  readonly onStdin?: (stdin: string) => Promise<CallOutput | undefined> | undefined
}

/** One JSON document with a line break, or nothing, and the exit code. */
export interface CallOutput {
  readonly stdout: string
  /** Another plugin's answer, byte for byte. */
  readonly bytes?: Uint8Array
  readonly exitCode: number
  /** Takes back what an ADD made, for a result that nobody reads. */
  readonly takeBack?: () => Promise<void>
}

/** The reference reads no stdin on VERSION: a caller may leave it open. */
const versionStdinMs = 1000

/** Never rejects: whatever is thrown becomes one document in the caller's version, or in ours where it tells none. */
export async function dispatch(input: CallInput, verbs: Verbs): Promise<CallOutput> {
  let stdin: string | undefined
  try {
    const call = readCall(input.env, input.ownTypes)
    if (call.verb === 'VERSION') return await answerVersion(input)
    stdin = await input.stdin()
    // A promise only where something records or answers: a microtask would let others go first.
    const answer = input.onStdin?.(stdin)
    const answered = answer && (await answer)
    if (answered) return answered
    const text = stdin
    const stdout = await runVerb(call, text, verbs)
    const takeBack = () => verbs.del({ ...call, verb: 'DEL' }, readDelConfig(text, call.ownTypes))
    return { stdout, exitCode: 0, ...(call.verb === 'ADD' ? { takeBack } : {}) }
  } catch (thrown) {
    return failure(thrown, stdin === undefined ? currentVersion : callerVersion(stdin), input.env)
  }
}

async function runVerb(call: Call, stdin: string, verbs: Verbs): Promise<string> {
  if (call.verb === 'DEL') {
    await verbs.del(call, readDelConfig(stdin, call.ownTypes))
    return ''
  }
  const conf = readConfig(stdin, call)
  if (call.verb === 'ADD') return writeResult(await verbs.add(call, conf), conf.cniVersion)
  if (call.verb === 'CHECK') await verbs.check(call, conf)
  if (call.verb === 'GC') await verbs.gc(call, conf)
  if (call.verb === 'STATUS') await verbs.status(call, conf)
  return ''
}

/** VERSION works whatever stdin is. */
async function answerVersion(input: CallInput): Promise<CallOutput> {
  let cniVersion: CniVersion = currentVersion
  try {
    const stdin = await input.stdin(versionStdinMs)
    const answered = await input.onStdin?.(stdin)
    if (answered) return answered
    cniVersion = readVersionRequest(stdin)
  } catch (cause) {
    if (cause instanceof CniError && cause.code === Code.interrupted) throw cause
    // A stdin that cannot be read asks for no version.
  }
  return { stdout: `${JSON.stringify({ cniVersion, supportedVersions })}\n`, exitCode: 0 }
}

/** The error document for whatever was thrown. */
export function failure(thrown: unknown, version: CniVersion, env: Environment): CallOutput {
  return { stdout: errorDocument(toCniError(thrown), version, env['CNI_COMMAND'] === 'DEL'), exitCode: 1 }
}
