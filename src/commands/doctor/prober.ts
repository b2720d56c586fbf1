// SPDX-License-Identifier: Apache-2.0
// The process that makes, probes and removes the throw-away pods, in a session of its own so that it survives `trestle
// doctor`. If its standard input ends, doctor is gone: it cancels the probes and removes the pods.

import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { looseObject, number, strictObject, string } from 'zod'
import type { ProcessIdentity } from '../../../src-before/model/record.ts'
import { makeDirectory, writeText } from '../../../src-before/system/files/files.ts'
import { hasEnded, ownProcessIdentity } from '../../../src-before/system/process/process-identity.ts'
import { messageWithId, toCniError } from '../../cni/errors.ts'
import { nowMs } from '../../process/clock.ts'
import type { Run } from '../../process/runner.ts'
import { runnerUntil } from '../../process/runner.ts'
import { writeAll } from '../../process/stdio.ts'
import { namesIn, readText } from '../../state/files.ts'
import { stateRoot } from '../../state/layout.ts'
import { exitCode } from '../command.ts'
import { delList, type NetworkList, readNetworkList } from '../network-list.ts'
import { addPod, attachmentOf, delPod, mapsPorts, podNames, type Step, type Trial } from '../probe/pods.ts'
import { reachSteps } from './probe-reach.ts'

const stepTimeoutMs = 30_000

/** The prober's answer, one line of JSON. */
export interface Probed {
  readonly steps?: readonly Step[]
  /** The reason if no pod could be made. */
  readonly failure?: string
}

/** Reads a `ProbeRequest` from the first line of standard input, and prints a `Probed`. Returns the exit code. */
export async function runProber(): Promise<number> {
  const stop = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => stop.abort())
  const request = await requestFrom(process.stdin, stop)
  const print = (probed: Probed) => writeAll(1, `${JSON.stringify(probed)}\n`)
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

function bounded(signal?: AbortSignal): Run {
  return (command) => {
    const endsAtMs = nowMs() + stepTimeoutMs
    return runnerUntil(signal === undefined ? { endsAtMs } : { endsAtMs, signal })(command)
  }
}

/** Like a runtime: every plugin is that of CNI_PATH, with the node's own state. */
function installed() {
  return { own: 'installed', env: { TRESTLE_STATE_DIR: stateRoot() } } as const
}

/** A running call of CNI is not cancelled: its result has to be known. */
async function probePods({ network, cniPath, peer }: ProbeRequest, signal: AbortSignal): Promise<readonly Step[]> {
  const runtime = { ...installed(), run: bounded(), network, cniPath }
  const failures = await settleKilledProbes(runtime.run)
  const id = writeIntent({ network, cniPath })
  const steps: Step[] = []
  // A successful DEL is not worth a line.
  const report = (step: Step) => (step.target === 'del' && step.outcome === 'ok' ? undefined : steps.push(step))
  const hostPort = mapsPorts(runtime) ? await freePort() : undefined
  const trial: Trial = { runtime, id, hostPort, pods: [], holders: [], report }
  try {
    let isReady = !signal.aborted
    for (const name of podNames) isReady = isReady && (await addPod(trial, name)) && !signal.aborted
    if (isReady) steps.push(...(await reachSteps({ ...trial, runtime: { ...runtime, run: bounded(signal) } }, peer)))
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    if (await removePods(trial)) removeIntent(id)
  }
  const what = 'DEL of an earlier probe'
  return [...steps, ...failures.map((detail) => ({ what, target: 'del', outcome: 'failed', detail }) as const)]
}

/** DEL of both pods, whether or not their ADD succeeded; then their namespaces end. Returns false if a DEL failed. */
async function removePods(trial: Trial): Promise<boolean> {
  let isGone = true
  for (const [at, name] of podNames.entries()) isGone = (await delPod(trial, name, trial.holders[at]?.netns)) && isGone
  for (const { end } of trial.holders) await end()
  return isGone
}

/** A port of the node without a listener. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', reject)
    server.listen(0, () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}

// An intent is written before the pods are made: after a kill, a later DEL frees their addresses from this file. It
// lies beside the state directory, since lists of other plugins need none.

/** `cniPath`: the directories of plugins, with : between. `peer`: an address that full packets are sent to. */
export interface ProbeRequest {
  readonly network: NetworkList
  readonly cniPath: string
  readonly peer?: string
}

const ownId = /^trestle-probe-[\da-f]{12}$/

/** `/run/trestle-probe` beside `/run/trestle`. */
function intentDirectory(): string {
  return `${stateRoot()}-probe`
}

const stored = strictObject({
  format: number(),
  prober: looseObject({ pid: number(), startTime: string(), bootId: string() }),
  writtenMs: number(),
  network: string(),
  cniPath: string(),
})

/** Records that this process is about to make two pods of a list. Returns the beginning of their ids. */
function writeIntent({ network, cniPath }: ProbeRequest): string {
  const id = `trestle-probe-${randomBytes(6).toString('hex')}`
  makeDirectory(intentDirectory())
  const prober = ownProcessIdentity()
  const text = { format: 1, prober, writtenMs: Date.now(), network: JSON.stringify(network), cniPath }
  writeText(`${intentDirectory()}/${id}`, JSON.stringify(text))
  return id
}

function removeIntent(id: string): void {
  rmSync(`${intentDirectory()}/${id}`, { force: true })
}

/** DEL for the pods of killed probers. Returns the reasons for failures: the next prober tries again. */
export async function settleKilledProbes(run: Run): Promise<readonly string[]> {
  const failures: string[] = []
  for (const id of namesIn(intentDirectory()).filter((name) => ownId.test(name))) {
    const request = deadRequest(id)
    if (request === undefined) continue
    try {
      for (const name of podNames) await delList({ ...installed(), run, ...request }, attachmentOf(id, name), undefined)
      removeIntent(id)
    } catch (error) {
      failures.push(`${id}: ${(error as Error).message}`)
    }
  }
  return failures
}

/** The request of a dead prober. An incomplete file was not written by a prober. */
function deadRequest(id: string): ProbeRequest | undefined {
  const read = readText(`${intentDirectory()}/${id}`)
  if (read === undefined || read === 'unreadable') return undefined
  const { prober, writtenMs, network, cniPath } = stored.parse(JSON.parse(read.text))
  if (!hasEnded(prober as unknown as ProcessIdentity, writtenMs)) return undefined
  return { network: readNetworkList(network), cniPath }
}
