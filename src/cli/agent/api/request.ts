// SPDX-License-Identifier: Apache-2.0
// One request to the API server, with a deadline and a bound on what it may answer.

import * as http from 'node:http'
import * as https from 'node:https'
import type { KubeConfig } from '@kubernetes/client-node'

/** `body` is sent as JSON, of the media type `type`. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  readonly body?: unknown
  readonly type?: string
}

/** An answer that is none: `status` 0 where none came at all. `retryAfterMs`: how long the server asks us to wait. */
export class ApiError extends Error {
  readonly status: number
  readonly retryAfterMs: number
  constructor(message: string, status = 0, retryAfterMs = 0) {
    super(message)
    this.name = 'ApiError'
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}

const deadlineMs = 20_000
/** A page of a hundred nodes of 15 KB has 1.5 MB. */
const limitBytes = 64 * 1024 * 1024

/** The answer's JSON. Throws ApiError. */
export async function askApi(config: KubeConfig, request: ApiRequest): Promise<unknown> {
  const text = await answerOf(config, request)
  try {
    return JSON.parse(text)
  } catch {
    throw new ApiError(`${request.method} ${request.path}: the answer is no JSON`)
  }
}

async function answerOf(
  config: KubeConfig,
  { method, path, body, type = 'application/json' }: ApiRequest,
): Promise<string> {
  const url = new URL(`${config.getCurrentCluster()?.server}${path}`)
  const text = body === undefined ? undefined : JSON.stringify(body)
  const options: https.RequestOptions = {
    method,
    headers: { Accept: 'application/json', ...(text === undefined ? {} : { 'Content-Type': type }) },
    signal: AbortSignal.timeout(deadlineMs),
  }
  await config.applyToHTTPSOptions(options)
  const door = url.protocol === 'http:' ? http : https
  // The library gives an agent of https, which http refuses.
  const { agent: _, ...plain } = options
  return await new Promise((resolve, reject) => {
    const failed = (error: Error) => reject(new ApiError(`${method} ${url.pathname}: ${error.message}`))
    const sent = door.request(url, door === http ? plain : options, (response) => {
      const chunks: Buffer[] = []
      let bytes = 0
      response.on('error', failed)
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > limitBytes) sent.destroy(new Error(`more than ${limitBytes} bytes`))
        else chunks.push(chunk)
      })
      response.on('end', () => {
        const answer = Buffer.concat(chunks).toString('utf8')
        const { statusCode = 0, headers } = response
        if (statusCode >= 200 && statusCode < 300) resolve(answer)
        else
          reject(
            new ApiError(`${method} ${url.pathname}: ${statusCode} ${reason(answer)}`, statusCode, waitOf(headers)),
          )
      })
    })
    sent.on('error', failed)
    sent.end(text)
  })
}

/** The message of a Status, on one line. */
function reason(answer: string): string {
  try {
    const { message } = JSON.parse(answer) as { message?: unknown }
    return typeof message === 'string' ? message.replace(/\s+/g, ' ').slice(0, 300) : ''
  } catch {
    return ''
  }
}

/** Retry-After in seconds (RFC 9110, 10.2.3); as a date it is not used by API servers. */
function waitOf(headers: http.IncomingHttpHeaders): number {
  const seconds = Number(headers['retry-after'])
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : 0
}
