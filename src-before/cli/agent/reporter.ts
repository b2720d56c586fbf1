// SPDX-License-Identifier: Apache-2.0
// Reports to the API server beside the rounds: a slow or absent server delays no route, and gets its reports later.

import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClusterNode } from '../../plan/agent/cluster-node.ts'
import type { Problem } from '../../plan/agent/problem.ts'
import type { Access } from './access.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'
import { ApiError, askApi, backoffMs } from './request.ts'

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
  readonly clearCondition: (node: Pick<ClusterNode, 'uid' | 'networkUnavailable'>) => void
}

interface ReporterParts {
  readonly node: string
  readonly open: () => Access
  readonly signal: AbortSignal
  readonly log: Log
  readonly metrics: Metrics
}

/** Sends events one by one, and the condition beside them; repeats what failed. */
export function openReporter({ node, open, ...parts }: ReporterParts): Reporter {
  const [events, conditions] = [openSender(parts, mostServerErrors), openSender(parts, Number.POSITIVE_INFINITY)]
  const take = openBucket()
  let dropped = 0
  let clearedUid: string | undefined

  const report: Reporter['report'] = (type, problems, isStill) => {
    if (problems.length === 0) return
    const room = Math.max(0, mostEvents - events.waiting())
    const sent = problems.slice(0, take(Math.min(problems.length, room)))
    for (const problem of sent)
      events.send(async () => {
        if (isStill(problem)) await reportEvent(open(), node, { type, problem })
      })
    const lost = problems.length - sent.length
    if (lost > 0 && dropped === 0) parts.log('warning', 'too many events: from here on this log alone has some')
    if (lost === 0 && dropped > 0) parts.log('info', 'events are sent again', { dropped })
    dropped = lost === 0 ? 0 : dropped + lost
  }
  const clearCondition: Reporter['clearCondition'] = ({ uid, networkUnavailable }) => {
    if (clearedUid === uid) return
    clearedUid = uid
    if (networkUnavailable === 'False') return
    conditions.send(async () => {
      try {
        await clearNetworkUnavailable(open(), node)
      } catch (error) {
        // The Node is missing, or the right to it: the next round asks again.
        if (isFinal(error)) clearedUid = undefined
        throw error
      }
    })
  }
  return { report, clearCondition }
}

/** Sends one by one. Drops what the server refuses for good, or answers with an error of its own `mostErrors` times. */
function openSender({ signal, log, metrics }: Omit<ReporterParts, 'node' | 'open'>, mostErrors: number) {
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

/** Sets NodeNetworkUnavailable (core/v1) to False. Throws ApiError. */
async function clearNetworkUnavailable(access: Access, node: string): Promise<void> {
  const now = new Date().toISOString()
  const condition = {
    type: 'NetworkUnavailable',
    status: 'False',
    reason: 'TrestleAgentIsUp',
    message: 'trestle agent has written configuration and routes',
    lastTransitionTime: now,
    lastHeartbeatTime: now,
  }
  await askApi(access, {
    method: 'PATCH',
    path: `/api/v1/nodes/${encodeURIComponent(node)}/status`,
    body: { status: { conditions: [condition] } },
    type: 'application/strategic-merge-patch+json',
  })
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
