// SPDX-License-Identifier: Apache-2.0
// A small API server over loopback: nodes with list in pages, watch, bookmarks and versions, status patches and events, as
// docs.kubernetes.io "API concepts" has them. Told what to do by JSON lines on stdin; says on stdout what it was asked.
// usage: node api-server.ts PORT [KEY CERTIFICATE], the files of a server that speaks TLS

import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

interface Node {
  metadata: { name: string; uid: string; resourceVersion?: string; creationTimestamp?: string }
  spec: object
  status: { conditions?: { type: string; status: string }[] }
}

/** `put` and `delete` nodes; `answer`: the status of every answer from now on, 0 for normal; `forget`: old versions. */
export interface Order {
  /** Answers to what is written (POST, PATCH) come so much later from now on, milliseconds. */
  readonly slowMs?: number
  readonly put?: readonly Node[]
  readonly delete?: readonly string[]
  readonly answer?: number
  readonly garbage?: boolean
  readonly forget?: boolean
  readonly cut?: boolean
}

const nodes = new Map<string, Node>()
const watchers = new Set<ServerResponse>()
const log: { version: number; line: string }[] = []
const state = { version: 100, oldest: 100, answer: 0, isGarbage: false, slowMs: 0 }

function publish(type: string, node: Node): void {
  state.version += 1
  node.metadata.resourceVersion = `${state.version}`
  const line = `${JSON.stringify({ type, object: { kind: 'Node', apiVersion: 'v1', ...node } })}\n`
  log.push({ version: state.version, line })
  for (const watcher of watchers) watcher.write(line)
}

function obey(order: Order): void {
  for (const node of order.put ?? []) {
    const isKnown = nodes.has(node.metadata.name)
    nodes.set(node.metadata.name, node)
    publish(isKnown ? 'MODIFIED' : 'ADDED', node)
  }
  for (const name of order.delete ?? []) {
    const node = nodes.get(name)
    nodes.delete(name)
    if (node !== undefined) publish('DELETED', node)
  }
  if (order.answer !== undefined) state.answer = order.answer
  if (order.slowMs !== undefined) state.slowMs = order.slowMs
  if (order.garbage !== undefined) state.isGarbage = order.garbage
  if (order.forget === true) state.oldest = state.version += 5
  if (order.cut === true || order.forget === true) for (const watcher of watchers) watcher.destroy()
}

const tell = (what: object) => process.stdout.write(`${JSON.stringify(what)}\n`)

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '', 'http://localhost')
  const body = await text(request)
  const { method, headers } = request
  const about = body === '' ? {} : { body: JSON.parse(body) }
  tell({
    method,
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    token: headers.authorization,
    ...about,
  })
  if (method !== 'GET' && state.slowMs > 0) await sleep(state.slowMs)
  if (state.isGarbage) return void response.writeHead(200).end('{"kind":"NodeList","items":42')
  if (state.answer !== 0) return status(response, state.answer)
  if (url.pathname === '/api/v1/nodes' && method === 'GET')
    return url.searchParams.get('watch') === 'true' ? watch(url, response) : list(url, response)
  const [, name] = /^\/api\/v1\/nodes\/([^/]+)\/status$/.exec(url.pathname) ?? []
  const node = nodes.get(name ?? '')
  if (node !== undefined && method === 'PATCH') {
    const { metadata, status: changed } = JSON.parse(body)
    Object.assign(node.metadata, metadata)
    Object.assign(node.status, changed)
    publish('MODIFIED', node)
    return void response.writeHead(200).end(JSON.stringify(node))
  }
  if (url.pathname.startsWith('/api/v1/namespaces/default/events')) return void response.writeHead(201).end(body)
  status(response, 404)
}

function list(url: URL, response: ServerResponse): void {
  const from = Number(url.searchParams.get('continue') ?? 0)
  const size = Number(url.searchParams.get('limit') ?? nodes.size)
  const items = [...nodes.values()].slice(from, from + size)
  const rest = from + size < nodes.size ? { continue: `${from + size}` } : {}
  const document = {
    kind: 'NodeList',
    apiVersion: 'v1',
    metadata: { resourceVersion: `${state.version}`, ...rest },
    items,
  }
  response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(document))
}

function watch(url: URL, response: ServerResponse): void {
  const since = Number(url.searchParams.get('resourceVersion'))
  response.writeHead(200, { 'Content-Type': 'application/json' })
  response.flushHeaders()
  if (since < state.oldest) {
    const error = { kind: 'Status', code: 410, reason: 'Expired', message: `too old resource version: ${since}` }
    return void response.end(`${JSON.stringify({ type: 'ERROR', object: error })}\n`)
  }
  for (const { version, line } of log) if (version > since) response.write(line)
  const bookmark = { kind: 'Node', metadata: { resourceVersion: `${state.version}` } }
  response.write(`${JSON.stringify({ type: 'BOOKMARK', object: bookmark })}\n`)
  watchers.add(response)
  response.on('close', () => watchers.delete(response))
}

function status(response: ServerResponse, code: number): void {
  response.writeHead(code, code === 429 ? { 'Retry-After': '1' } : {})
  response.end(JSON.stringify({ kind: 'Status', status: 'Failure', code, message: `the double answers ${code}` }))
}

async function text(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

const listener: RequestListener = (request, response) => {
  answer(request, response).catch((error: Error) => response.writeHead(500).end(error.message))
}
const [, , port, key, cert] = process.argv
const server =
  key === undefined || cert === undefined
    ? createServer(listener)
    : createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }, listener)
server.listen(Number(port), '127.0.0.1', () => tell({ listening: true }))
const lines = createInterface(process.stdin)
lines.on('line', (line) => {
  obey(JSON.parse(line) as Order)
  tell({ obeyed: true })
})
lines.on('close', () => process.exit(0))
