// SPDX-License-Identifier: Apache-2.0
// A request to the API server, with a deadline and a bound on the answer's size.

import * as http from 'node:http'
import * as https from 'node:https'
import type { Access } from './access.ts'

/** `body` is sent as JSON, of the media type `type`. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  readonly body?: unknown
  readonly type?: string
}

/** A failed request. `status`: 0 without an answer. `retryAfterMs`: the wait that the server asks for. */
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

/** The way to read an answer in chunks. */
export interface Reading {
  /** Receives a chunk; an exception ends the request. */
  readonly onChunk: (chunk: Buffer) => void
  /** The longest silence, in milliseconds; `deadlineMs`: of the whole request. */
  readonly silenceMs: number
  readonly deadlineMs?: number
  readonly signal?: AbortSignal
}

const deadlineMs = 20_000
const limitBytes = 8 * 1024 * 1024

/**
 * A watch sends nothing, so only the kernel notices a vanished server or a forgotten connection of a load balancer:
 * after this time it probes ten times, a second apart (libuv, uv__tcp_keepalive), and ends the connection.
 */
const keepAliveMs = 15_000

/** The answer's JSON. Throws ApiError. */
export async function askApi(access: Access, request: ApiRequest): Promise<unknown> {
  const { onChunk, text } = collector()
  await readApi(access, request, { onChunk, silenceMs: deadlineMs, deadlineMs })
  try {
    return JSON.parse(text())
  } catch {
    throw new ApiError(`${request.method} ${request.path}: the answer is no JSON`)
  }
}

/** Hands the answer to `onChunk` in chunks, and resolves at its end. Throws ApiError, also for errors of `onChunk`. */
export async function readApi(access: Access, request: ApiRequest, reading: Reading): Promise<void> {
  const { method, path, body, type = 'application/json' } = request
  const url = new URL(`${access.config.getCurrentCluster()?.server}${path}`)
  const text = body === undefined ? undefined : JSON.stringify(body)
  const headers = { Accept: 'application/json', ...(text === undefined ? {} : { 'Content-Type': type }) }
  const options = await access.connect({ method, headers, timeout: reading.silenceMs })
  const signals = [
    reading.signal,
    reading.deadlineMs === undefined ? undefined : AbortSignal.timeout(reading.deadlineMs),
  ]
  const signal = AbortSignal.any(signals.filter((each) => each !== undefined))
  await new Promise<void>((resolve, reject) => {
    const failed = (error: Error) => reject(new ApiError(`${method} ${url.pathname}: ${error.message}`))
    const door = url.protocol === 'http:' ? http : https
    const sent = door.request(url, { ...options, signal }, (response) => {
      const { statusCode = 0, headers } = response
      const isGood = statusCode >= 200 && statusCode < 300
      const { onChunk, text: answer } = isGood ? { onChunk: reading.onChunk, text: () => '' } : collector()
      response.on('error', failed)
      response.on('data', (chunk: Buffer) => {
        try {
          onChunk(chunk)
        } catch (error) {
          reject(
            error instanceof ApiError ? error : new ApiError(`${method} ${url.pathname}: ${(error as Error).message}`),
          )
          sent.destroy()
        }
      })
      response.on('end', () => {
        if (isGood) return resolve()
        const message = `${method} ${url.pathname}: ${statusCode} ${reason(answer())}`
        reject(new ApiError(message, statusCode, waitOf(headers)))
      })
    })
    sent.on('socket', (socket) => socket.setKeepAlive(true, keepAliveMs))
    sent.on('timeout', () => sent.destroy(new Error(`nothing came for ${reading.silenceMs / 1000} s`)))
    sent.on('error', failed)
    sent.end(text)
  })
}

/** Collects the chunks of a whole answer. */
function collector() {
  const chunks: Buffer[] = []
  let bytes = 0
  const onChunk = (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > limitBytes) throw new ApiError(`an answer of more than ${limitBytes} bytes`)
    chunks.push(chunk)
  }
  return { onChunk, text: () => Buffer.concat(chunks).toString('utf8') }
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

/** Retry-After in seconds (RFC 9110, 10.2.3); API servers do not use its form as a date. */
function waitOf(headers: http.IncomingHttpHeaders): number {
  const seconds = Number(headers['retry-after'])
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : 0
}
