// SPDX-License-Identifier: Apache-2.0
// The throw-away pods: a process that holds a network namespace, and the node's own plugins called for it as a runtime
// calls them. Their namespaces have no name in /run/netns: they end with their process.

import { type ChildProcess, spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { CniError, messageWithId, toCniError } from '../../../cni/model/error.ts'
import { atLeast, isSupported } from '../../../cni/model/version.ts'
import { pathWithTools, type Run } from '../../../system/process/runner.ts'
import { ownError } from '../../explain/own/own-errors.ts'
import { addList, delList, type Runtime } from '../../node/list.ts'
import type { KnownCause } from '../../shell/report.ts'
import { thisProgram } from '../../shell/self.ts'
import { causeOfError } from '../../try/causes.ts'
import { type Pod, podOf } from '../../try/pods.ts'
import { podPort } from './ends.ts'
import type { ProbeRequest, ProbeStep, ProbeTarget } from './probe-facts.ts'
import { attachmentOf, podNames } from './probe-intents.ts'

const holderStartMs = 20_000

/** The process of a pod. `end`: its namespace goes with it. */
interface Holder {
  readonly netns: string
  readonly end: () => Promise<void>
}

/** The pods of one list. `steps`: what came of each call so far. */
export interface ProbePods {
  readonly runtime: Runtime
  readonly id: string
  readonly hostPort: number | undefined
  readonly pods: Pod[]
  readonly holders: Holder[]
  readonly steps: ProbeStep[]
}

/** No pod yet. `id`: what their container ids begin with. */
export async function openPods(run: Run, { network, cniPath }: ProbeRequest, id: string): Promise<ProbePods> {
  const hasPorts = network.plugins.some(({ capabilities }) => capabilities?.['portMappings'] === true)
  const runtime = { run, network, cniPath, isInstalled: true } as const
  return { runtime, id, hostPort: hasPorts ? await freePort() : undefined, pods: [], holders: [], steps: [] }
}

/** ADD of the next pod; the second one has a host port where the list can map one. Returns whether it went well. */
export async function addPod(probe: ProbePods): Promise<boolean> {
  const name = podNames[probe.pods.length] ?? podNames[0]
  const holder = await startHolder(probe.runtime.run)
  probe.holders.push(holder)
  const mapping = { hostPort: probe.hostPort, containerPort: podPort, protocol: 'tcp' }
  const isMapped = probe.hostPort !== undefined && probe.pods.length === 1
  const capabilityArgs = isMapped ? { portMappings: [mapping] } : {}
  const attachment = { ...attachmentOf(probe.id, name, holder.netns), capabilityArgs }
  return await step(probe, { what: `ADD of pod ${name}`, target: 'add' }, async () => {
    probe.pods.push(podOf(attachment, `pod ${name}`, await addList(probe.runtime, attachment)))
  })
}

/**
 * DEL of both, also of one whose ADD failed or never was; then their namespaces end. Returns whether nothing is left.
 */
export async function removePods(probe: ProbePods): Promise<boolean> {
  const { runtime, id, pods, holders } = probe
  const { cniVersion } = runtime.network
  const takesResult = isSupported(cniVersion) && atLeast(cniVersion, '0.4.0')
  let isGone = true
  for (const [at, name] of podNames.entries()) {
    const made = pods.find(({ label }) => label === `pod ${name}`)
    const attachment = made?.attachment ?? attachmentOf(id, name, holders[at]?.netns)
    const printed = takesResult ? made?.printed : undefined
    const what = { what: `DEL of pod ${name}`, target: 'del' } as const
    if (!(await step(probe, what, () => delList(runtime, attachment, printed)))) isGone = false
  }
  for (const { end } of holders) await end()
  return isGone
}

type Step = { readonly what: string; readonly target: ProbeTarget }

/** What went well is worth a line only where it gave a pod its network. */
async function step(probe: ProbePods, about: Step, body: () => Promise<void>): Promise<boolean> {
  try {
    await body()
    if (about.target === 'add') probe.steps.push({ ...about, outcome: 'ok' })
    return true
  } catch (error) {
    const failure = toCniError(error)
    const detail = [messageWithId(failure), failure.details].filter(Boolean).join('; ')
    const known = causeOfError(failure) ?? ownCause(failure)
    probe.steps.push({ ...about, outcome: 'failed', detail, ...(known === undefined ? {} : { known }) })
    return false
  }
}

/** Of an error of trestle's; what other plugins refuse has no cause of its own. */
function ownCause({ id, message }: CniError): KnownCause | undefined {
  if (id === 'plugin-refused' || id === 'plugin-failed') return undefined
  const { cause, cure } = ownError(id)
  return { id, message, cause, cure }
}

/** A process in a network namespace of its own that listens, and ends when this one does. */
async function startHolder(run: Run): Promise<Holder> {
  const { file, args } = thisProgram()
  const child = spawn('unshare', ['--net', '--', file, ...args, '__probe-end', 'hold'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { PATH: pathWithTools() },
  })
  child.stdin.on('error', () => undefined)
  await isReady(child)
  const netns = `/proc/${child.pid}/ns/net`
  await run({ file: 'nsenter', args: [`--net=${netns}`, '--', 'ip', 'link', 'set', 'lo', 'up'] })
  const end = () =>
    new Promise<void>((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) return resolve()
      child.on('exit', () => resolve())
      child.kill('SIGKILL')
    })
  return { netns, end }
}

function isReady(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = () => reject(new CniError('listener-not-started', 'cannot listen in a network namespace of its own'))
    const timer = setTimeout(failed, holderStartMs)
    child.on('error', failed)
    child.on('exit', failed)
    child.stdout?.once('data', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}

/** A port of the node on which nobody listens now. */
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
