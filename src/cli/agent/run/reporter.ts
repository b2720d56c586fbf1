// SPDX-License-Identifier: Apache-2.0
// What the agent reports to the API server, beside the rounds: a server that is slow or gone keeps no route waiting,
// and hears of it when it is back.

import { setTimeout as sleep } from 'node:timers/promises'
import { backoffMs } from '../../../plan/agent/backoff.ts'
import type { ClusterNode } from '../../../plan/agent/cluster-node.ts'
import type { Problem } from '../../../plan/agent/problem.ts'
import type { Access } from '../api/access.ts'
import { clearNetworkUnavailable, reportEvent } from '../api/own-node.ts'
import { ApiError } from '../api/request.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'

/** At most so many events wait: a cluster that is wrong as a whole is not reported by each node of each other. */
const mostEvents = 10

export interface Reporter {
  /** Events for problems that have begun; those that are over by the time they could be reported are left out. */
  readonly report: (begun: readonly Problem[], isCurrent: (problem: Problem) => boolean) => void
  /**
   * Says that the node's network stands, once for each uid: a Node that was deleted and registered again has its
   * conditions anew. Nothing is said where the condition is False now.
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

/** Reports one after the other, and again what could not be reported. */
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
        // No such Node yet, or no right to it: the next round asks again.
        if (isFinal(error)) clearedUid = undefined
        throw error
      }
    })
    void work()
  }
  return { report, clearCondition }
}

/** Refused for what it is: it would be refused again. */
function isFinal(error: unknown): boolean {
  const status = error instanceof ApiError ? error.status : 0
  return status >= 400 && status < 500 && ![401, 408, 429].includes(status)
}
