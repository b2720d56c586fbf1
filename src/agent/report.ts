// SPDX-License-Identifier: Apache-2.0
// What the agent says: problems as they begin and end, events and the condition of its Node, the subnets that other nodes
// have to know, and its log. Reports go out beside the rounds: a slow or absent API server delays no route.

import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { writeAll } from '../process/stdio.ts'
import { removeFile, writeText } from '../state/files.ts'
import { stateRoot } from '../state/layout.ts'
import { type Access, ApiError, askApi, backoffMs } from './api.ts'
import type { Problem } from './cluster.ts'
import type { Metrics } from './metrics.ts'
import { type ClusterNode, subnetsAnnotation } from './nodes.ts'

/** A JSON line on standard output: time, level, message and then `fields`. A closed pipe does not end the agent. */
export function log(level: 'info' | 'warning' | 'error', message: string, fields: object = {}): void {
  try {
    writeAll(1, `${JSON.stringify({ time: new Date().toISOString(), level, message, ...fields })}\n`)
  } catch {
    // The reader is gone.
  }
}

/** Those of `now` that were not there before, and those of `before` that are over. A changed text is a new problem. */
export function changedProblems(before: readonly Problem[], now: readonly Problem[]) {
  const [old, current] = [before, now].map((problems) => new Set(problems.map(keyOf)))
  return {
    appeared: now.filter((problem) => !old?.has(keyOf(problem))),
    over: before.filter((problem) => !current?.has(keyOf(problem))),
  }
}

/** A node that joins has no podCIDR and no address for some seconds: every other node would tell of it. */
const graceMs = 10_000

/** Leaves out problems of other nodes that have not lasted yet. */
export function openGrace(self: string): (now: readonly Problem[], nowMs: number) => readonly Problem[] {
  let since: ReadonlyMap<string, number> = new Map()
  return (now, nowMs) => {
    since = new Map(now.map((problem) => [keyOf(problem), since.get(keyOf(problem)) ?? nowMs]))
    return now.filter((problem) => problem.node === self || nowMs - (since.get(keyOf(problem)) ?? nowMs) >= graceMs)
  }
}

function keyOf({ id, node, text }: Problem): string {
  return JSON.stringify([id, node, text])
}

/** 25 events at once, and then one a minute, like client-go's EventSourceObjectSpamFilter. */
const [burst, againMs] = [25, 60_000]

/** What a round has found. The next report takes its place, whether it was sent or not. */
export interface Report {
  /** The Node of this node; undefined until it is listed. */
  readonly own: ClusterNode | undefined
  /** The condition NetworkUnavailable is to be False. */
  readonly isAvailable: boolean
  /** Subnets of this node's links, for the Node's annotation; undefined where other nodes need none. */
  readonly subnets: string | undefined
  readonly problems: readonly Problem[]
  /** False where a step of the round failed: what is not among the problems may not be over. */
  readonly isComplete: boolean
}

export interface Reporter {
  readonly report: (report: Report) => void
  /** Those that are reported, and not over. */
  readonly problems: () => readonly Problem[]
}

interface ReporterParts {
  readonly node: string
  readonly open: () => Access
  readonly signal: AbortSignal
  readonly metrics: Metrics
}

/** Logs what is new in a report, sends what the server does not know yet of the newest one, and repeats what failed. */
export function openReporter({ node, open, signal, metrics }: ReporterParts): Reporter {
  const withoutFresh = openGrace(node)
  let problems: readonly Problem[] = []
  let newest: Report | undefined
  let isAtWork = false
  const written = new Map<string, string>()
  let told: readonly Problem[] = []
  const mayTell = openBucket()

  /** Once for each key. */
  const write = async (what: string, key: string, body: object) => {
    if (written.get(what) === key) return
    await patchNode(open(), node, body)
    written.set(what, key)
  }
  const sendEvents = async (problems: readonly Problem[]) => {
    const { appeared, over } = changedProblems(told, problems)
    const due = [
      ...appeared.map((problem) => ({ type: 'Warning', problem }) as const),
      ...over.map((problem) => ({ type: 'Normal', problem }) as const),
    ]
    let refused: unknown
    for (const event of due) {
      if (!mayTell()) break
      try {
        await reportEvent(open(), node, event)
      } catch (error) {
        if (!(error instanceof ApiError) || error.status === 0) throw error
        // One that the server does not take keeps none of the others waiting.
        refused = error
        if (!isFinal(error)) continue
      }
      told = event.type === 'Warning' ? [...told, event.problem] : told.filter((each) => each !== event.problem)
    }
    if (refused !== undefined) throw refused
  }
  const setNode = async ({ own, isAvailable, subnets }: Report) => {
    // A Node that was deleted and registered again has another uid, and new conditions.
    if (own?.networkUnavailable === 'False') written.set('condition', own.uid)
    else if (own !== undefined && isAvailable)
      await write('condition', own.uid, { status: { conditions: [networkAvailable()] } })
    // Others may remove the annotation later.
    if (own?.publishedSubnets === subnets) written.delete('subnets')
    else if (own !== undefined && subnets !== undefined)
      await write('subnets', `${own.uid} ${subnets}`, { metadata: { annotations: { [subnetsAnnotation]: subnets } } })
  }
  const send = async (report: Report) => {
    const sent = await Promise.allSettled([setNode(report), sendEvents(report.problems)])
    for (const each of sent) if (each.status === 'rejected') throw each.reason
  }
  const work = async () => {
    let failures = 0
    for (let report = newest; report !== undefined && !signal.aborted; report = newest) {
      newest = undefined
      try {
        await send(report)
        failures = 0
      } catch (error) {
        failures += 1
        metrics.apiFailures.inc()
        if (failures === 1 || failures % 20 === 0)
          log('warning', 'API server', { error: (error as Error).message, failures })
        await sleep(backoffMs(failures, Math.random()), undefined, { signal }).catch(() => undefined)
        newest ??= report
      }
    }
    isAtWork = false
  }
  const report = (found: Report) => {
    const now = withoutFresh(found.problems, performance.now())
    const { appeared, over } = changedProblems(problems, now)
    const ended = found.isComplete ? over : []
    for (const { id, node: about, text } of appeared) log('warning', text, { problem: id, node: about })
    for (const { id, node: about, text } of ended) log('info', `over: ${text}`, { problem: id, node: about })
    problems = found.isComplete ? now : [...problems, ...appeared]
    if (appeared.length > 0 || ended.length > 0) keepForDoctor(problems)
    metrics.setProblems(problems)
    newest = { ...found, problems }
    if (isAtWork) return
    isAtWork = true
    void work()
  }
  return { report, problems: () => problems }
}

/** `trestle doctor` reads it. A full disk stops no round. */
function keepForDoctor(problems: readonly Problem[]): void {
  const file = `${stateRoot()}/agent-problems.json`
  try {
    if (problems.length === 0) removeFile(file)
    else writeText(file, `${JSON.stringify(problems)}\n`)
  } catch (error) {
    log('warning', 'doctor does not see the problems', { error: (error as Error).message })
  }
}

function openBucket(): () => boolean {
  let [left, sinceMs] = [burst, performance.now()]
  return () => {
    const nowMs = performance.now()
    left = Math.min(burst, left + (nowMs - sinceMs) / againMs)
    sinceMs = nowMs
    if (left < 1) return false
    left -= 1
    return true
  }
}

/** True for a refusal that a repetition would not change. */
function isFinal(error: unknown): boolean {
  const status = error instanceof ApiError ? error.status : 0
  return status >= 400 && status < 500 && ![401, 408, 429].includes(status)
}

// Writes to the API server: a condition of this node, once, and events for people.

const component = 'trestle-agent'

/** The condition NodeNetworkUnavailable (core/v1). */
function networkAvailable() {
  const now = new Date().toISOString()
  return {
    type: 'NetworkUnavailable',
    status: 'False',
    reason: 'TrestleAgentIsUp',
    message: 'trestle agent has written configuration and routes',
    lastTransitionTime: now,
    lastHeartbeatTime: now,
  }
}

/** The right to a Node's status includes its annotations (kubernetes pkg/registry/core/node/strategy.go). */
async function patchNode(access: Access, node: string, body: object): Promise<void> {
  const path = `/api/v1/nodes/${encodeURIComponent(node)}/status`
  await askApi(access, { method: 'PATCH', path, body, type: 'application/strategic-merge-patch+json' })
}

/** Reports an event on this node, also for a problem of another node, because this node cannot reach the other. */
async function reportEvent(
  access: Access,
  self: string,
  { type, problem }: { readonly type: 'Warning' | 'Normal'; readonly problem: Problem },
): Promise<void> {
  const now = new Date().toISOString()
  const hash = createHash('sha256')
    .update(JSON.stringify([self, type, problem]))
    .digest('hex')
    .slice(0, 16)
  const name = `${self}.${hash}`
  const path = '/api/v1/namespaces/default/events'
  const about = `${type === 'Normal' ? 'over: ' : ''}${problem.node === self ? '' : `node ${problem.node}: `}`
  const event = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name, namespace: 'default' },
    // The kubelet's own events on its node have the name as uid.
    involvedObject: { apiVersion: 'v1', kind: 'Node', name: self, uid: self },
    type,
    reason: problem.id,
    message: `${about}${problem.text}`.slice(0, 1024),
    source: { component, host: self },
    reportingComponent: component,
    reportingInstance: self,
    firstTimestamp: now,
    lastTimestamp: now,
    count: 1,
  }
  try {
    await askApi(access, { method: 'POST', path, body: event })
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error
    const body = { lastTimestamp: now }
    await askApi(access, { method: 'PATCH', path: `${path}/${name}`, body, type: 'application/merge-patch+json' })
  }
}
