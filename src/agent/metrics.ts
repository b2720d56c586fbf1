// SPDX-License-Identifier: Apache-2.0
// The agent's metrics (prometheus.io/docs/concepts/metric_types) and health over HTTP. Names of nodes are no labels: there
// are thousands.

import { createServer } from 'node:http'
import { Counter, Gauge, Registry } from 'prom-client'
import type { PoolUse } from '../commands/pools.ts'
import { type Problem, problemIds } from './cluster.ts'
import { log } from './report.ts'

/** `pools`: read with each request. */
export function openMetrics(version: string, pools: () => readonly PoolUse[] = () => []) {
  const registry = new Registry()
  const registers = [registry]
  const gauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name: `trestle_${name}`, help, labelNames, registers })
  const counter = (name: string, help: string) => new Counter({ name: `trestle_agent_${name}_total`, help, registers })
  gauge('agent_build_info', 'Always 1.', ['version']).set({ version }, 1)
  const problems = gauge('agent_problems', 'What a person has to do something about, by its id.', ['id'])
  const memory = gauge('agent_resident_memory_bytes', 'Memory of the agent that is resident.')
  const cpu = gauge('agent_cpu_seconds', 'CPU time that the agent itself has used, tools that it starts apart.')
  const taken = gauge('pool_addresses_taken', "Addresses of the node's range that are not to be given out.", ['range'])
  const total = gauge('pool_addresses', "Addresses of the node's range that pods can have.", ['range'])
  return {
    nodes: gauge('agent_nodes', 'Nodes that the API server lists.'),
    routes: gauge('agent_routes', 'Routes to other nodes, and unreachable ones for the own range, that are wanted.'),
    overlayRoutes: gauge('agent_overlay_routes', 'Routes through the overlay, of those that are wanted.'),
    routeChanges: counter('route_changes', 'Routes that were added, replaced or removed.'),
    repairs: counter('repairs', 'Things that were missing on the node and were made again.'),
    collected: counter('collected', 'Attachments and reservations that garbage collection removed.'),
    orphans: gauge('agent_orphans', 'What garbage collection found and did not remove: a person has to look.'),
    apiFailures: counter('api_failures', 'Requests that the API server refused or did not answer.'),
    failedRounds: counter('failed_rounds', 'Rounds that ended with an error.'),
    ready: gauge('agent_ready', '1 when configuration, rules and routes are in place.'),
    setProblems: (now: readonly Problem[]) => {
      for (const id of problemIds) problems.set({ id }, now.filter((problem) => problem.id === id).length)
    },
    text: async () => {
      memory.set(process.memoryUsage.rss())
      const { user, system } = process.cpuUsage()
      cpu.set((user + system) / 1e6)
      // The labels of a former range go.
      for (const each of [taken, total]) each.reset()
      for (const pool of pools()) {
        taken.set({ range: pool.range }, pool.taken)
        total.set({ range: pool.range }, pool.total)
      }
      return await registry.metrics()
    },
    contentType: registry.contentType,
  }
}

export type Metrics = ReturnType<typeof openMetrics>

/** Each says what is wrong, or nothing. */
interface Health {
  /** The agent's own life, which does not depend on the API server. */
  readonly isStuck: () => string | undefined
  readonly isUnready: () => string | undefined
  /** A line each, also while the agent is ready. */
  readonly problems: () => readonly string[]
  readonly metrics: Metrics
}

/** Serves `/healthz`, `/readyz` and `/metrics` until the signal. The agent goes on where it cannot; kubelet's probe fails then. */
export function serveHealth(
  at: { readonly host: string; readonly port: number },
  { isStuck, isUnready, problems, metrics }: Health,
  signal: AbortSignal,
): void {
  const answer = async (path: string): Promise<{ code: number; text: string; type?: string }> => {
    const verdict = (wrong: string | undefined, more: readonly string[] = []) => {
      const text = [wrong ?? 'ok', ...more].map((line) => `${line}\n`).join('')
      return { code: wrong === undefined ? 200 : 503, text }
    }
    switch (path) {
      case '/healthz':
        return verdict(isStuck())
      case '/readyz':
        return verdict(isUnready(), problems())
      case '/metrics':
        return { code: 200, text: await metrics.text(), type: metrics.contentType }
      default:
        return { code: 404, text: 'there are /healthz, /readyz and /metrics\n' }
    }
  }
  const server = createServer((request, response) => {
    const send = ({ code, text, type = 'text/plain; charset=utf-8' }: Awaited<ReturnType<typeof answer>>) =>
      response.writeHead(code, { 'Content-Type': type }).end(text)
    if (request.method !== 'GET') return response.writeHead(405).end()
    // Pools are read from files: one that cannot be read ends no agent.
    answer(request.url?.split('?')[0] ?? '').then(send, (error: Error) =>
      send({ code: 500, text: `${error.message}\n` }),
    )
    return undefined
  })
  server.requestTimeout = 10_000
  server.maxConnections = 64
  server.on('error', ({ message }) => log('error', 'health and metrics are not served', { ...at, error: message }))
  signal.addEventListener('abort', () => {
    server.close()
    server.closeAllConnections()
  })
  server.listen(at.port, at.host)
}
