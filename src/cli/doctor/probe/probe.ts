// SPDX-License-Identifier: Apache-2.0
// `--probe`: two throw-away pods of the list that the runtime uses, in the node's own network.

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { CniError } from '../../../cni/model/error.ts'
import { stateRoot } from '../../../system/files/state.ts'
import { nowMs } from '../../../system/process/clock.ts'
import { pathWithTools, runnerUntil } from '../../../system/process/runner.ts'
import { readNetworkList } from '../../node/list.ts'
import { readInputText } from '../../shell/read-input.ts'
import { thisProgram } from '../../shell/self.ts'
import type { ProbeFacts, ProbeRequest } from './probe-facts.ts'
import { settleKilledProbes } from './probe-intents.ts'
import { type ProbedPlugin, whyNotProbeable } from './probeable.ts'
import type { Probed } from './prober.ts'

/** What the runtime uses. `file`: absent where it uses nothing. */
interface ListInUse {
  readonly confDir: string
  readonly binDirs: readonly string[]
  readonly file?: string
  readonly network?: string
  readonly plugins: readonly ProbedPlugin[]
}

/** Four calls of CNI and what is asked between them. */
const wholeTimeoutMs = 180_000
/** What the prober's calls of CNI take after it was told to stop. */
const settleTimeoutMs = 60_000

/**
 * Makes the pods, asks, and removes them, also where this process is told to end. Throws CniError, or an error that
 * says why it cannot be done here.
 */
export async function probeNode(list: ListInUse | undefined): Promise<ProbeFacts> {
  if (list?.file === undefined) throw new Error('no runtime of this node uses a configuration')
  const { confDir, binDirs, file, network = '', plugins } = list
  const why = whyNotProbeable(network, plugins)
  if (why !== undefined) throw new Error(why)
  const request = { network: readNetworkList(readInputText(join(confDir, file))), cniPath: binDirs.join(':') }
  const { steps, failure } = await runProber(request)
  if (steps === undefined) throw new Error(failure ?? 'the probe ended without a word')
  return { network, file, steps }
}

/** Throws CniError 106 when interrupted, after what was made is gone. */
async function runProber(request: ProbeRequest): Promise<Probed> {
  const { file, args } = thisProgram()
  const child = spawn(file, [...args, '__probe-pods'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { PATH: pathWithTools(), TRESTLE_STATE_DIR: stateRoot() },
    detached: true,
  })
  const ended = new Promise<void>((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', () => resolve())
  })
  let interruptedBy: string | undefined
  const stop = () => child.stdin.end()
  const onSignal = (signal: string) => {
    interruptedBy ??= signal
    stop()
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  for (const signal of signals) process.on(signal, onSignal)
  const timers = [
    setTimeout(stop, wholeTimeoutMs),
    setTimeout(() => child.kill('SIGKILL'), wholeTimeoutMs + settleTimeoutMs),
  ]
  child.stdin.on('error', () => undefined)
  child.stdin.write(`${JSON.stringify(request)}\n`)
  try {
    const [printed] = await Promise.all([text(child.stdout), ended])
    if (interruptedBy !== undefined) throw interrupted(interruptedBy)
    if (printed !== '') return JSON.parse(printed) as Probed
    return { failure: await killedText() }
  } finally {
    for (const timer of timers) clearTimeout(timer)
    for (const signal of signals) process.off(signal, onSignal)
  }
}

function interrupted(signal: string): CniError {
  return new CniError('call-interrupted', `ended by ${signal}`, { details: 'the throw-away pods are gone' })
}

/** Somebody ended the prober: what it had made is removed here. */
async function killedText(): Promise<string> {
  const failures = await settleKilledProbes(runnerUntil({ endsAtMs: nowMs() + settleTimeoutMs }))
  const left = failures.length === 0 ? 'its pods and their addresses are gone' : failures.join('; ')
  return `the process that made the throw-away pods was ended by somebody; ${left}`
}
