// SPDX-License-Identifier: Apache-2.0
// Writes to the API server: a condition of this node, once, and events for people.

import { createHash } from 'node:crypto'
import type { Problem } from '../../../plan/agent/problem.ts'
import type { Access } from './access.ts'
import { ApiError, askApi } from './request.ts'

const component = 'trestle-agent'

/** Sets NodeNetworkUnavailable (core/v1) to False. Throws ApiError. */
export async function clearNetworkUnavailable(access: Access, node: string): Promise<void> {
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
export async function reportEvent(access: Access, self: string, problem: Problem): Promise<void> {
  const now = new Date().toISOString()
  const hash = createHash('sha256')
    .update(JSON.stringify([self, problem]))
    .digest('hex')
    .slice(0, 16)
  const name = `${self}.${hash}`
  const path = '/api/v1/namespaces/default/events'
  const about = problem.node === self ? '' : `node ${problem.node}: `
  const event = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name, namespace: 'default' },
    // The kubelet's own events on its node have the name as uid.
    involvedObject: { apiVersion: 'v1', kind: 'Node', name: self, uid: self },
    type: 'Warning',
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
