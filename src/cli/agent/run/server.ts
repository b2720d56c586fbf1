// SPDX-License-Identifier: Apache-2.0
// Health and metrics over HTTP, on loopback unless told otherwise.

import { createServer, type Server, type ServerResponse } from 'node:http'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'

/** Each function returns a text about its fault, or undefined. */
export interface Health {
  /** The agent's own liveness, independent of the API server. */
  readonly isStuck: () => string | undefined
  readonly isUnready: () => string | undefined
  readonly metrics: Metrics
}

/** Serves `/healthz`, `/readyz` and `/metrics`. With a taken port the agent logs an error and continues. */
export function serveHealth(
  at: { host: string; port: number },
  { isStuck, isUnready, metrics }: Health,
  log: Log,
): Server {
  const verdict = (wrong: string | undefined) =>
    wrong === undefined ? { code: 200, text: 'ok\n' } : { code: 503, text: `${wrong}\n` }
  const answers: Readonly<Record<string, () => { code: number; text: string }>> = {
    '/healthz': () => verdict(isStuck()),
    '/readyz': () => verdict(isUnready()),
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
  server.on('error', (error) => log('error', 'health and metrics are not served', { ...at, error: error.message }))
  server.listen(at.port, at.host)
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
