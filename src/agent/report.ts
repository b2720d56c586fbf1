// SPDX-License-Identifier: Apache-2.0
// What the agent says: problems as they begin and end, events and the condition of its Node, the subnets that other nodes
// have to know, and its log. Reports go out beside the rounds: a slow or absent API server delays no route.

import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { writeAll } from '../process/stdio.ts'
import { type Access, ApiError, askApi, backoffMs } from './api.ts'
import type { Problem } from './cluster.ts'
import type { Metrics } from './metrics.ts'
import { type ClusterNode, subnetsAnnotation } from './nodes.ts'

/** A JSON line on standard output: time, level, message and then `fields`. */
export type Log = (
  level: 'info' | 'warning' | 'error',
  message: string,
  fields?: Readonly<Record<string, unknown>>,
) => void

/** A closed pipe does not end the agent. */
export const log: Log = (level, message, fields = {}) => {
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

/** What is reported now: the own node's at once, another's when it has lasted. `seen`: when each was first seen. */
export function ripeProblems(
  now: readonly Problem[],
  { self, nowMs, seen }: { readonly self: string; readonly nowMs: number; readonly seen: ReadonlyMap<string, number> },
): { readonly ripe: readonly Problem[]; readonly seen: ReadonlyMap<string, number> } {
  const since = new Map(now.map((problem) => [keyOf(problem), seen.get(keyOf(problem)) ?? nowMs]))
  const isRipe = (problem: Problem) => problem.node === self || nowMs - (since.get(keyOf(problem)) ?? nowMs) >= graceMs
  return { ripe: now.filter(isRipe), seen: since }
}

function keyOf({ id, node, text }: Problem): string {
  return JSON.stringify([id, node, text])
}

/** Bound on waiting events, so that a cluster-wide fault is not reported by each node about each other node. */
const mostEvents = 10

/** Bounds on events in time: as many at once, and then one after each such time. */
const [burst, againMs] = [25, 60_000]

/** Answers of 500 and above after which an event is dropped, so that others get their turn. */
const mostServerErrors = 3

/** Of core/v1 Event: a problem that began, and one that is over. */
type EventType = 'Warning' | 'Normal'

export interface Reporter {
  /** Sends an event for each problem that began or is over, unless that has changed again before the server answers. */
  readonly report: (type: EventType, problems: readonly Problem[], isStill: (problem: Problem) => boolean) => void
  /**
   * Sets NetworkUnavailable to False unless it is, once for each uid: a Node that was deleted and registered again has
   * new conditions.
   */
  readonly clearCondition: (node: ClusterNode) => void
  /** Publishes the subnets of this node's links, in the Node's annotation. */
  readonly publish: (node: ClusterNode, subnets: string) => void
}

interface ReporterParts {
  readonly node: string
  readonly open: () => Access
  readonly signal: AbortSignal
  readonly metrics: Metrics
}

/** Sends events one by one, and the condition beside them; repeats what failed. */
export function openReporter({ node, open, ...parts }: ReporterParts): Reporter {
  const [events, conditions] = [openSender(parts, mostServerErrors), openSender(parts, Number.POSITIVE_INFINITY)]
  const take = openBucket()
  let dropped = 0
  const written = new Map<string, string>()

  const report: Reporter['report'] = (type, problems, isStill) => {
    if (problems.length === 0) return
    const room = Math.max(0, mostEvents - events.waiting())
    const sent = problems.slice(0, take(Math.min(problems.length, room)))
    for (const problem of sent)
      events.send(async () => {
        if (isStill(problem)) await reportEvent(open(), node, { type, problem })
      })
    const lost = problems.length - sent.length
    if (lost > 0 && dropped === 0) log('warning', 'too many events: from here on this log alone has some')
    if (lost === 0 && dropped > 0) log('info', 'events are sent again', { dropped })
    dropped = lost === 0 ? 0 : dropped + lost
  }
  /** Once for each key. */
  const write = (what: string, key: string, body: object) => {
    if (written.get(what) === key) return
    written.set(what, key)
    conditions.send(async () => {
      try {
        await patchNode(open(), node, body)
      } catch (error) {
        // The Node is missing, or the right to it: the next round asks again.
        if (isFinal(error)) written.delete(what)
        throw error
      }
    })
  }
  const clearCondition: Reporter['clearCondition'] = ({ uid, networkUnavailable }) => {
    if (networkUnavailable === 'False') written.set('condition', uid)
    else write('condition', uid, { status: { conditions: [networkAvailable()] } })
  }
  const publish: Reporter['publish'] = ({ uid, publishedSubnets }, subnets) => {
    // Others may remove the annotation later.
    if (publishedSubnets === subnets) written.delete('subnets')
    else write('subnets', `${uid} ${subnets}`, { metadata: { annotations: { [subnetsAnnotation]: subnets } } })
  }
  return { report, clearCondition, publish }
}

/** Sends one by one. Drops what the server refuses for good, or answers with an error of its own `mostErrors` times. */
function openSender({ signal, metrics }: Omit<ReporterParts, 'node' | 'open'>, mostErrors: number) {
  const waiting: (() => Promise<void>)[] = []
  let [failures, serverErrors] = [0, 0]
  let isAtWork = false

  const work = async () => {
    if (isAtWork) return
    isAtWork = true
    for (let next = waiting[0]; next !== undefined && !signal.aborted; next = waiting[0]) {
      try {
        await next()
        failures = 0
      } catch (error) {
        failures += 1
        if (error instanceof ApiError && error.status >= 500) serverErrors += 1
        metrics.apiFailures.inc()
        if (failures === 1 || failures % 20 === 0)
          log('warning', 'API server', { error: (error as Error).message, failures })
        await sleep(backoffMs(failures, Math.random()), undefined, { signal }).catch(() => undefined)
        if (!isFinal(error) && serverErrors < mostErrors) continue
      }
      waiting.shift()
      serverErrors = 0
    }
    isAtWork = false
  }
  const send = (next: () => Promise<void>) => {
    waiting.push(next)
    void work()
  }
  return { send, waiting: () => waiting.length }
}

/** Takes as many of `asked` as there may be now: a burst, then few, like client-go's EventSourceObjectSpamFilter. */
function openBucket(): (asked: number) => number {
  let [left, sinceMs] = [burst, performance.now()]
  return (asked) => {
    const nowMs = performance.now()
    left = Math.min(burst, left + (nowMs - sinceMs) / againMs)
    sinceMs = nowMs
    const taken = Math.min(asked, Math.floor(left))
    left -= taken
    return taken
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
  { type, problem }: { readonly type: EventType; readonly problem: Problem },
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
