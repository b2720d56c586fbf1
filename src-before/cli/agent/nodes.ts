// SPDX-License-Identifier: Apache-2.0
// The nodes of the cluster, listed in pages and watched. Of each node only the fields in use are kept. Without an API
// server the last known nodes stay.

import { setTimeout as sleep } from 'node:timers/promises'
import { type ClusterNode, clusterNode, isSameNode } from '../../plan/agent/cluster-node.ts'
import type { Access } from './access.ts'
import { ApiError, askApi, backoffMs, lineReader, readApi, tooLarge } from './request.ts'

/**
 * Smaller than the page of Kubernetes' clients (client-go, tools/pager: 500), because text and objects of a page count
 * as the agent's memory: a Node with 50 images has 15 KB.
 */
const pageSize = 50

/** Bounds on a page: silence between two chunks, and the whole page. */
const pageMs = { silenceMs: 20_000, deadlineMs: 120_000 }

/** A bookmark comes at least once a minute (watch.go, bookmarkFrequency), so longer silence means a dead connection. */
const silenceMs = 100_000

/** Base of the watch's life; a random part keeps agents from reconnecting at the same time. */
const watchS = 480

/** A watch that was open for so long has succeeded, however it ends. */
const livedMs = 3000

/** A watch of the nodes. `onChange`: a field in use has changed; `onError`: the API server failed. */
export interface NodeWatch {
  readonly nodes: ReadonlyMap<string, ClusterNode>
  /**
   * `isListed`: a whole list was read. `failures`: since the last answer. `server`: the URL that was asked last.
   * `version`: of the newest list or event, empty before a list.
   */
  readonly state: { isListed: boolean; failures: number; lastError: string; server: string; version: string }
}

interface WatchRequest {
  readonly open: () => Access
  readonly signal: AbortSignal
  readonly onChange: () => void
  readonly onError: (error: Error, failures: number) => void
}

/** Lists and watches until the signal. */
export function watchNodes(request: WatchRequest): NodeWatch {
  const nodes = new Map<string, ClusterNode>()
  const watch: NodeWatch = { nodes, state: { isListed: false, failures: 0, lastError: '', server: '', version: '' } }
  void follow(watch, nodes, request)
  return watch
}

/** Lists and watches, and lists again when the version is too old. Each attempt opens the access anew. */
async function follow(watch: NodeWatch, nodes: Map<string, ClusterNode>, request: WatchRequest): Promise<void> {
  const { state } = watch
  while (!request.signal.aborted) {
    try {
      const access = request.open()
      state.server = access.found.server
      if (state.version === '') state.version = await list(access, nodes, request)
      if (!state.isListed) request.onChange()
      Object.assign(state, { isListed: true })
      const started = performance.now()
      await watchOnce({ access, nodes, state }, request)
      // Slows down for a server that ends each watch at once.
      if (performance.now() - started < 1000) await sleep(1000, undefined, { signal: request.signal })
    } catch (error) {
      if (request.signal.aborted) return
      const { status, retryAfterMs } = error instanceof ApiError ? error : { status: 0, retryAfterMs: 0 }
      // 410: the version is too old for a watch; 400: the server never had the version.
      if (status === 410 || status === 400) state.version = ''
      Object.assign(state, { failures: state.failures + 1, lastError: (error as Error).message })
      request.onError(error as Error, state.failures)
      const waitMs = status === 410 && state.failures === 1 ? 0 : backoffMs(state.failures, Math.random(), retryAfterMs)
      await sleep(waitMs, undefined, { signal: request.signal }).catch(() => undefined)
    }
  }
}

interface Page {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string }
  readonly items?: readonly unknown[]
}

/** Reads all nodes and drops missing ones. Returns the version for the watch. Throws ApiError. */
async function list(access: Access, nodes: Map<string, ClusterNode>, request: WatchRequest): Promise<string> {
  const seen = new Set<string>()
  let isChanged = false
  let [next, limit] = ['', pageSize]
  try {
    for (;;) {
      const query = new URLSearchParams({ limit: `${limit}`, ...(next === '' ? {} : { continue: next }) })
      const page = await readPage(access, `/api/v1/nodes?${query}`, request.signal).catch((error) => {
        if (limit === 1 || !(error instanceof ApiError) || error.status !== tooLarge) throw error
        limit = Math.floor(limit / 2)
      })
      if (page === undefined) continue
      for (const node of page.nodes) {
        seen.add(node.name)
        isChanged = put(nodes, node) || isChanged
      }
      if (page.next !== '' && page.next === next)
        throw new ApiError('GET /api/v1/nodes: the answer continues with the same page', 410)
      next = page.next
      if (next !== '') continue
      for (const name of nodes.keys()) if (!seen.has(name)) isChanged = nodes.delete(name) || isChanged
      return page.version
    }
  } finally {
    // Also where a later page fails: the next list finds these nodes as they are now.
    if (isChanged) request.onChange()
  }
}

/** A page of the list, each node stripped. `next`: the token of the next page. */
async function readPage(access: Access, path: string, signal: AbortSignal) {
  const page = (await askApi(access, { method: 'GET', path }, { ...pageMs, signal })) as Page | null
  const { items, metadata } = page ?? {}
  if (!Array.isArray(items) || typeof metadata?.resourceVersion !== 'string')
    throw new ApiError('GET /api/v1/nodes: the answer is no NodeList')
  return { nodes: items.flatMap(stripped), version: metadata.resourceVersion, next: metadata.continue ?? '' }
}

function stripped(item: unknown): readonly ClusterNode[] {
  const node = clusterNode(item)
  return node === undefined ? [] : [node]
}

interface Watching {
  readonly access: Access
  readonly nodes: Map<string, ClusterNode>
  readonly state: NodeWatch['state']
}

/** A line of a watch (docs.kubernetes.io, "Efficient detection of changes"). */
interface WatchEvent {
  readonly type?: string
  readonly object?: {
    readonly metadata?: { readonly resourceVersion?: string }
    readonly code?: number
    readonly message?: string
  }
}

/** Watches until the server ends the watch; the next one begins where this one ended. Throws ApiError. */
async function watchOnce({ access, nodes, state }: Watching, request: WatchRequest): Promise<void> {
  const onChunk = lineReader((line) => {
    const { type = '', object } = (line as WatchEvent | null) ?? {}
    // Any error means a new list, as in client-go: the server may never accept this version again.
    if (type === 'ERROR') throw new ApiError(`watch of nodes: ${object?.code ?? ''} ${object?.message ?? ''}`, 410)
    Object.assign(state, { failures: 0, lastError: '' })
    const found = object?.metadata?.resourceVersion
    if (typeof found === 'string') state.version = found
    if (apply(nodes, type, clusterNode(object))) request.onChange()
  })
  const query = new URLSearchParams({
    watch: 'true',
    resourceVersion: state.version,
    allowWatchBookmarks: 'true',
    timeoutSeconds: `${Math.round(watchS * (0.75 + Math.random() / 2))}`,
  })
  const path = `/api/v1/nodes?${query}`
  const started = performance.now()
  try {
    await readApi(access, { method: 'GET', path }, { onChunk, silenceMs, signal: request.signal })
  } catch (error) {
    // A load balancer cuts a watch that carries nothing.
    if (!(error instanceof ApiError && error.isCut) || performance.now() - started < livedMs) throw error
    await sleep(backoffMs(1, Math.random()), undefined, { signal: request.signal })
  }
  Object.assign(state, { failures: 0, lastError: '' })
}

/** Applies an event. Returns whether a field in use has changed. */
function apply(nodes: Map<string, ClusterNode>, phase: string, node: ClusterNode | undefined): boolean {
  if (node === undefined || phase === 'BOOKMARK') return false
  return phase === 'DELETED' ? nodes.delete(node.name) : put(nodes, node)
}

function put(nodes: Map<string, ClusterNode>, node: ClusterNode): boolean {
  const before = nodes.get(node.name)
  if (before !== undefined && isSameNode(before, node)) return false
  nodes.set(node.name, node)
  return true
}
