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

/** Sends reports one by one, and repeats failed ones. */
export function openReporter({ node, open, signal, log, metrics }: ReporterParts): Reporter {
  const waiting: (() => Promise<void>)[] = []
  let failures = 0
  let isAtWork = false
  let clearedUid: string | undefined

  const work = async () => {
    if (isAtWork) return
    isAtWork = true
    for (let next = waiting[0]; next !== undefined && !signal.aborted; next = waiting[0]) {
      try {
        await next()
        waiting.shift()
        failures = 0
      } catch (error) {
        failures += 1
        metrics.apiFailures.inc()
        if (failures === 1 || failures % 20 === 0)
          log('warning', 'API server', { error: (error as Error).message, failures })
        if (isFinal(error)) waiting.shift()
        await sleep(backoffMs(failures, Math.random()), undefined, { signal }).catch(() => undefined)
      }
    }
    isAtWork = false
  }

  const report: Reporter['report'] = (type, problems, isStill) => {
    for (const problem of problems.slice(0, Math.max(0, mostEvents - waiting.length)))
      waiting.push(async () => {
        if (isStill(problem)) await reportEvent(open(), node, { type, problem })
      })
    void work()
  }
  const clearCondition: Reporter['clearCondition'] = ({ uid, networkUnavailable }) => {
    if (clearedUid === uid) return
    clearedUid = uid
    if (networkUnavailable === 'False') return
    waiting.push(async () => {
      try {
        await clearNetworkUnavailable(open(), node)
      } catch (error) {
        // The Node is missing, or the right to it: the next round asks again.
        if (isFinal(error)) clearedUid = undefined
        throw error
      }
    })
    void work()
  }
  return { report, clearCondition }
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
