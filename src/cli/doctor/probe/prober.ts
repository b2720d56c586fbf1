// SPDX-License-Identifier: Apache-2.0
// The process that makes the throw-away pods, asks what they reach, and removes them: in a session of its own, so
// that what ends `trestle doctor` does not end it. When its standard input ends, whoever started it is gone: it stops
// asking, and removes what it made.

import { createInterface } from 'node:readline'
import { messageWithId, toCniError } from '../../../cni/model/error.ts'
import { nowMs } from '../../../system/process/clock.ts'
import { type Run, runnerUntil } from '../../../system/process/runner.ts'
import { exitCode } from '../../shell/command.ts'
import type { Output } from '../../shell/output.ts'
import { addPod, openPods, removePods } from './pods.ts'
import type { ProbeRequest, ProbeStep } from './probe-facts.ts'
import { removeIntent, settleKilledProbes, writeIntent } from './probe-intents.ts'
import { reachSteps } from './reach.ts'

/** One call of CNI, or one tool, may take this long. */
const stepTimeoutMs = 30_000

/** What it prints, as one line of JSON. */
export interface Probed {
  readonly steps?: readonly ProbeStep[]
  /** Why nothing could be tried. */
  readonly failure?: string
}

/** Reads a `ProbeRequest` from the first line of standard input, and prints a `Probed`. Returns the exit code. */
export async function runProber(output: Output): Promise<number> {
  const stop = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => stop.abort())
  const request = await requestFrom(process.stdin, stop)
  const print = (probed: Probed) => output.out(`${JSON.stringify(probed)}\n`)
  try {
    print({ steps: await probePods(request, stop.signal) })
    return exitCode.fine
  } catch (error) {
    const failure = toCniError(error)
    print({ failure: [messageWithId(failure), failure.details].filter(Boolean).join(': ') })
    return exitCode.couldNotLook
  }
}

function requestFrom(stdin: NodeJS.ReadStream, stop: AbortController): Promise<ProbeRequest> {
  return new Promise((resolve) => {
    const lines = createInterface({ input: stdin })
    lines.once('line', (line) => resolve(JSON.parse(line) as ProbeRequest))
    lines.once('close', () => stop.abort())
  })
}

/** Runs each command with a fresh deadline. */
function bounded(signal?: AbortSignal): Run {
  return (command) => {
    const endsAtMs = nowMs() + stepTimeoutMs
    return runnerUntil(signal === undefined ? { endsAtMs } : { endsAtMs, signal })(command)
  }
}

/** A call of CNI that has begun ends by itself: what it makes is known then. */
async function probePods(request: ProbeRequest, signal: AbortSignal): Promise<readonly ProbeStep[]> {
  const run = bounded()
  const failures = await settleKilledProbes(run)
  const id = writeIntent(request)
  const probe = await openPods(run, request, id)
  try {
    const isReady = !signal.aborted && (await addPod(probe)) && !signal.aborted && (await addPod(probe))
    if (isReady && !signal.aborted) probe.steps.push(...(await reachSteps(bounded(signal), probe)))
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    if (await removePods(probe)) removeIntent(id)
  }
  const what = 'DEL of what an earlier probe left'
  return [...probe.steps, ...failures.map((detail) => ({ what, target: 'del', outcome: 'failed', detail }) as const)]
}
