// SPDX-License-Identifier: Apache-2.0
// The agent's metrics (prometheus.io/docs/concepts/metric_types). Names of nodes are no labels: there are thousands.

import { createServer, type Server, type ServerResponse } from 'node:http'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { type PoolUse, type Problem, problemIds } from '../../plan/agent/problem.ts'
import type { TalliedCall } from '../../system/process/call-tally.ts'
import type { Log } from './log.ts'

/** Numbers of the node, read with each request of the metrics. */
interface NodeNumbers {
  readonly pools: () => readonly PoolUse[]
  readonly calls: () => readonly TalliedCall[]
}

/** The metrics, and their text for Prometheus. */
export function openMetrics(version: string, numbers?: NodeNumbers) {
  const registry = new Registry()
  const registers = [registry]
  const gauge = (name: string, help: string) => new Gauge({ name: `trestle_agent_${name}`, help, registers })
  const counter = (name: string, help: string) => new Counter({ name: `trestle_agent_${name}_total`, help, registers })
  const build = new Gauge({ name: 'trestle_agent_build_info', help: 'Always 1.', labelNames: ['version'], registers })
  build.set({ version }, 1)
  const problems = new Gauge({
    name: 'trestle_agent_problems',
    help: 'What a person has to do something about, by its id.',
    labelNames: ['id'],
    registers,
  })
  const memory = gauge('resident_memory_bytes', 'Memory of the agent that is resident.')
  const cpu = gauge('cpu_seconds', 'CPU time that the agent itself has used, tools that it starts apart.')
  const node = nodeMetrics(registers)
  return {
    nodes: gauge('nodes', 'Nodes that the API server lists.'),
    routes: gauge('routes', 'Routes to other nodes, and unreachable ones for the own range, that are wanted.'),
    routeChanges: counter('route_changes', 'Routes that were added, replaced or removed.'),
    repairs: counter('repairs', 'Things that were missing on the node and were made again.'),
    collected: counter('collected', 'Attachments and reservations that garbage collection removed.'),
    orphans: gauge('orphans', 'What garbage collection found and did not remove: a person has to look.'),
    apiFailures: counter('api_failures', 'Requests that the API server refused or did not answer.'),
    rounds: counter('rounds', 'How often state and node were compared.'),
    failedRounds: counter('failed_rounds', 'Rounds that ended with an error.'),
    roundSeconds: gauge('last_round_seconds', 'How long the last round took.'),
    ready: gauge('ready', '1 when configuration, rules and routes stand.'),
    setProblems: (now: readonly Problem[]) => {
      for (const id of problemIds) problems.set({ id }, now.filter((problem) => problem.id === id).length)
    },
    /** Adds the tally of calls before its file grows large. */
    collect: () => numbers !== undefined && node.set(numbers),
    text: async () => {
      memory.set(process.memoryUsage.rss())
      const { user, system } = process.cpuUsage()
      cpu.set((user + system) / 1e6)
      if (numbers !== undefined) node.set(numbers)
      return await registry.metrics()
    },
    contentType: registry.contentType,
  }
}

/** Seconds: a call takes some tens of milliseconds, and its deadline is twenty seconds. */
const buckets = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20]

/** Metrics of the plugin's calls and pools. */
function nodeMetrics(registers: Registry[]) {
  const pool = (name: string, help: string) =>
    new Gauge({ name: `trestle_pool_addresses${name}`, help, labelNames: ['range'], registers })
  const taken = pool('_taken', "Addresses of the node's range that pods have, or that cool down.")
  const total = pool('', "Addresses of the node's range that can be given out.")
  const seconds = new Histogram({
    ...{ name: 'trestle_call_seconds', help: 'How long calls of the plugin took, by verb.' },
    ...{ labelNames: ['verb'], buckets, registers },
  })
  const errors = new Counter({
    ...{ name: 'trestle_call_errors_total', help: 'Calls that ended with an error, by verb and code.' },
    ...{ labelNames: ['verb', 'code'], registers },
  })
  const set = ({ pools, calls }: NodeNumbers) => {
    // Drops the labels of a former range.
    for (const gauge of [taken, total]) gauge.reset()
    for (const pool of pools()) {
      taken.set({ range: pool.range }, pool.taken)
      total.set({ range: pool.range }, pool.total)
    }
    for (const { verb, code, ms } of calls()) {
      seconds.observe({ verb }, ms / 1000)
      if (code !== 0) errors.inc({ verb, code: `${code}` })
    }
  }
  return { set }
}

export type Metrics = ReturnType<typeof openMetrics>

// Health and metrics over HTTP, on loopback unless told otherwise.

/** Each function returns a text about its fault, or undefined. */
interface Health {
  /** The agent's own liveness, independent of the API server. */
  readonly isStuck: () => string | undefined
  readonly isUnready: () => string | undefined
  /** What is wrong, a line each, also while the agent is ready. */
  readonly problems: () => readonly string[]
  readonly metrics: Metrics
}

/** After this time a taken port is tried again: a former agent that was not waited for may hold it. */
const portAgainMs = 3000

/** Serves `/healthz`, `/readyz` and `/metrics` until the signal. The agent goes on while it cannot. */
export function serveHealth(
  at: { host: string; port: number },
  { isStuck, isUnready, problems, metrics }: Health,
  { log, signal }: { readonly log: Log; readonly signal: AbortSignal },
): Server {
  const verdict = (wrong: string | undefined) =>
    wrong === undefined ? { code: 200, text: 'ok\n' } : { code: 503, text: `${wrong}\n` }
  const answers: Readonly<Record<string, () => { code: number; text: string }>> = {
    '/healthz': () => verdict(isStuck()),
    '/readyz': () => {
      const { code, text } = verdict(isUnready())
      return {
        code,
        text: `${text}${problems()
          .map((each) => `${each}\n`)
          .join('')}`,
      }
    },
  }
  const server = createServer(async (request, response) => {
    const path = request.url?.split('?')[0] ?? ''
    if (request.method !== 'GET') response.writeHead(405).end()
    else if (path === '/metrics') await writeMetrics(response, metrics, log)
    else {
      const { code, text } = answers[path]?.() ?? { code: 404, text: 'there are /healthz, /readyz and /metrics\n' }
      response.writeHead(code, { 'Content-Type': 'text/plain; charset=utf-8' }).end(text)
    }
  })
  server.requestTimeout = 10_000
  server.maxConnections = 64
  const listen = () => signal.aborted || server.listen(at.port, at.host)
  let isTold = false
  server.on('error', (error: NodeJS.ErrnoException) => {
    if (!isTold) log('error', 'health and metrics are not served', { ...at, error: error.message })
    isTold = true
    if (error.code === 'EADDRINUSE') setTimeout(listen, portAgainMs).unref()
  })
  signal.addEventListener('abort', () => {
    server.close()
    server.closeAllConnections()
  })
  listen()
  return server
}

/** Reads the metrics from files with each request; an unreadable file does not end the agent. */
async function writeMetrics(response: ServerResponse, metrics: Metrics, log: Log): Promise<void> {
  try {
    const text = await metrics.text()
    response.writeHead(200, { 'Content-Type': metrics.contentType }).end(text)
  } catch (error) {
    const { message } = error as Error
    log('error', 'metrics', { error: message })
    response.writeHead(500, { 'Content-Type': 'text/plain; charset=utf-8' }).end(`${message}\n`)
  }
}
