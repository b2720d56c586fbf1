// SPDX-License-Identifier: Apache-2.0
// Reports to the API server beside the rounds: a slow or absent server delays no route, and gets its reports later.

import { setTimeout as sleep } from 'node:timers/promises'
import { backoffMs } from '../../../plan/agent/backoff.ts'
import type { ClusterNode } from '../../../plan/agent/cluster-node.ts'
import type { Problem } from '../../../plan/agent/problem.ts'
import type { Access } from '../api/access.ts'
import { clearNetworkUnavailable, reportEvent } from '../api/own-node.ts'
import { ApiError } from '../api/request.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'

/** Bound on waiting events, so that a cluster-wide fault is not reported by each node about each other node. */
const mostEvents = 10

export interface Reporter {
  /** Sends events for new problems, except problems that end before the server answers. */
  readonly report: (begun: readonly Problem[], isCurrent: (problem: Problem) => boolean) => void
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

  const report: Reporter['report'] = (begun, isCurrent) => {
    for (const problem of begun.slice(0, Math.max(0, mostEvents - waiting.length)))
      waiting.push(async () => {
        if (isCurrent(problem)) await reportEvent(open(), node, problem)
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
