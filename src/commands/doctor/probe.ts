// SPDX-License-Identifier: Apache-2.0
// `--probe`: two throw-away pods of the list that the runtime uses, in the node's own network.

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { defined } from '../../cni/json.ts'
import { nowMs } from '../../process/clock.ts'
import { runnerUntil, toolPath } from '../../process/runner.ts'
import { stateRoot } from '../../state/layout.ts'
import { failureOf } from '../failure.ts'
import { readInputText } from '../input-file.ts'
import { readNetworkList } from '../network-list.ts'
import { thisProgram } from '../self.ts'
import type { ProbeFacts } from './facts.ts'
import { type Probed, type ProbeRequest, settleKilledProbes } from './prober.ts'

/** The used list. `file`: absent if no file is used. */
interface ListInUse {
  readonly confDir: string
  readonly binDirs: readonly string[]
  readonly file?: string
  readonly network?: string
  readonly plugins: readonly ProbedPlugin[]
}

/** Four calls of CNI and the probes between them. */
const wholeTimeoutMs = 180_000
/** The prober's calls of CNI after its cancellation. */
const settleTimeoutMs = 60_000

/**
 * Makes, probes and removes the pods, also when this process is told to end. Throws CniError, or an error with the
 * reason.
 */
export async function probeNode(list: ListInUse | undefined, peer?: string): Promise<ProbeFacts> {
  if (list?.file === undefined) throw new Error('no runtime of this node uses a configuration')
  const { confDir, binDirs, file, network = '', plugins } = list
  const why = whyNotProbeable(network, plugins)
  if (why !== undefined) throw new Error(why)
  const found = readNetworkList(readInputText(join(confDir, file)))
  const request = { network: found, cniPath: binDirs.join(':'), ...defined({ peer }) }
  const { steps, failure } = await runProber(request)
  if (steps === undefined) throw new Error(failure ?? 'the probe ended without a word')
  return { network, file, steps }
}

/** Throws CniError 106 when interrupted, after the pods are removed. */
async function runProber(request: ProbeRequest): Promise<Probed> {
  const { file, args } = thisProgram()
  const child = spawn(file, [...args, '__probe-pods'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { PATH: toolPath(), TRESTLE_STATE_DIR: stateRoot() },
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
    if (interruptedBy !== undefined) {
      const details = 'the throw-away pods are gone'
      throw failureOf('call-interrupted', `ended by ${interruptedBy}`, { details })
    }
    if (printed !== '') return JSON.parse(printed) as Probed
    return { failure: await killedText() }
  } finally {
    for (const timer of timers) clearTimeout(timer)
    for (const signal of signals) process.off(signal, onSignal)
  }
}

/** Cleans up after a prober that was killed. */
async function killedText(): Promise<string> {
  const failures = await settleKilledProbes(runnerUntil({ endsAtMs: nowMs() + settleTimeoutMs }))
  const left = failures.length === 0 ? 'its pods and their addresses are gone' : failures.join('; ')
  return `the process that made the throw-away pods was ended by somebody; ${left}`
}

// Lists that allow throw-away pods: their plugins need only their own configuration. Other plugins ask the API server
// for the pod, take a link of the node, or have one fixed address.

/** Of containernetworking/plugins: plugins that make a link for each pod, and plugins chained behind them. */
const mainTypes = ['bridge', 'ptp', 'macvlan', 'ipvlan']
const upstreamTypes = [...mainTypes, 'portmap', 'firewall', 'bandwidth', 'tuning', 'sbr', 'loopback']

interface ProbedPlugin {
  readonly type: string
  readonly ipamType?: string
  readonly isOwn: boolean
}

/** The reason against throw-away pods of this list; undefined if they are possible. */
function whyNotProbeable(network: string, plugins: readonly ProbedPlugin[]): string | undefined {
  const strange = plugins.find(({ type, isOwn }) => !isOwn && !upstreamTypes.includes(type))
  if (strange !== undefined) {
    const needs = `the plugin ${strange.type} needs more than its configuration (a pod of the API server, a link)`
    return `network ${network}: ${needs}: only lists of trestle and of ${mainTypes.join(', ')} are probed`
  }
  const isKnown = (type: string, isOwn: boolean) => type === 'host-local' || (isOwn && type === 'trestle')
  const ipam = plugins.find(({ ipamType, isOwn }) => ipamType !== undefined && !isKnown(ipamType, isOwn))
  if (ipam === undefined) return undefined
  const why = `a throw-away pod could not give back what the plugin ${ipam.ipamType} hands out`
  return `network ${network}: ${why}: only trestle and host-local are probed`
}
