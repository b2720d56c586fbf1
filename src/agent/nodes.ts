// SPDX-License-Identifier: Apache-2.0
// The nodes of the cluster, listed in pages and watched. Of each Node only what the agent uses is kept: with its images
// one is 15 KB, and a cluster has thousands. Without an API server the nodes that were seen last stay.

import { setTimeout as sleep } from 'node:timers/promises'
import { asObject } from '../cni/json.ts'
import { type Access, ApiError, askApi, backoffMs, linesOf, readApi } from './api.ts'
import { type NodeAddress, parseAddress, type Range, rangeOf, readPodRange } from './node-ranges.ts'

/** What the agent of a node publishes in an annotation of its Node: the subnets of its links with a space between, or `none`. */
export const subnetsAnnotation = 'trestle/subnets'

export interface ClusterNode {
  readonly name: string
  readonly uid: string
  /** RFC 3339: when it was registered. */
  readonly created: string
  /** The podCIDRs, each as a range or in words what is wrong with it. */
  readonly ranges: readonly { readonly text: string; readonly range: Range | string }[]
  /** InternalIPs that are addresses, in the node's order. */
  readonly addresses: readonly NodeAddress[]
  /** What its agent has published; undefined where none has. */
  readonly subnets?: readonly Range[]
  readonly publishedSubnets: string
  /** The status of the condition NetworkUnavailable; empty without one. */
  readonly networkUnavailable: string
  /** The text that all of this was read from. */
  readonly source: string
}

/** A Node has at most two ranges (core/v1 NodeSpec.PodCIDRs), and a few addresses. */
const mostEntries = 16

/** What is used of a Node; undefined for what is none. `known`: the node as it was: most updates are heartbeats. */
export function readNode(value: unknown, known?: (name: string) => ClusterNode | undefined): ClusterNode | undefined {
  const [metadata, spec, status] = ['metadata', 'spec', 'status'].map((key) => asObject(asObject(value)[key]))
  const name = textOf(metadata?.['name'])
  if (name === '') return undefined
  const [uid, created] = [textOf(metadata?.['uid']), textOf(metadata?.['creationTimestamp'])]
  const published = textOf(asObject(metadata?.['annotations'])[subnetsAnnotation])
  // `podCIDR` is the first of `podCIDRs`, and all that an old API server has.
  const cidrs = (Array.isArray(spec?.['podCIDRs']) ? spec['podCIDRs'] : [spec?.['podCIDR']]).map(textOf).filter(Boolean)
  const internal = listOf(status?.['addresses']).filter(({ type }) => type === 'InternalIP')
  const addresses = internal.map(({ address }) => textOf(address))
  const unavailable = listOf(status?.['conditions']).find(({ type }) => type === 'NetworkUnavailable')
  const networkUnavailable = textOf(unavailable?.['status'])
  const source = JSON.stringify([name, uid, created, published, cidrs, addresses, networkUnavailable])
  const before = known?.(name)
  if (before?.source === source) return before
  return {
    name,
    uid,
    created,
    ranges: cidrs.slice(0, mostEntries).map((text) => ({ text, range: readPodRange(text) })),
    addresses: addresses.slice(0, mostEntries).flatMap((text) => parseAddress(text) ?? []),
    ...(published === '' ? {} : { subnets: published.split(' ').flatMap((text) => rangeOf(text) ?? []) }),
    publishedSubnets: published,
    networkUnavailable,
    source,
  }
}

function listOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.map(asObject) : []
}

/** Bounded: it is repeated in logs and events. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, 500) : ''
}

/**
 * Smaller than the page of Kubernetes' clients (client-go, tools/pager: 500): text and objects of a page count as the
 * agent's memory.
 */
const pageSize = 50

/** Bounds on a page: silence between two chunks, and the whole page. */
const pageMs = { silenceMs: 20_000, deadlineMs: 120_000 }

/** A bookmark comes at least once a minute (watch.go, bookmarkFrequency): longer silence means a dead connection. */
const silenceMs = 100_000

/** The watch's life; a random part keeps agents from reconnecting at the same time. */
const watchS = 480

/** What the API server has told of nodes. `isListed`: a whole list was read. `version`: where the watch goes on. */
export interface NodeWatch {
  readonly nodes: ReadonlyMap<string, ClusterNode>
  readonly state: { isListed: boolean; failures: number; lastError: string; server: string; version: string }
}

interface Watching extends NodeWatch {
  readonly nodes: Map<string, ClusterNode>
  readonly open: () => Access
  readonly signal: AbortSignal
  readonly onChange: () => void
  readonly onError: (error: Error, failures: number) => void
}

/** Lists and watches until the signal. */
export function watchNodes(request: Omit<Watching, keyof NodeWatch>): NodeWatch {
  const state = { isListed: false, failures: 0, lastError: '', server: '', version: '' }
  const watching = { ...request, state, nodes: new Map<string, ClusterNode>() }
  void follow(watching)
  return watching
}

/** Lists and watches, and lists again when the version is too old. Each attempt opens the access anew. */
async function follow(watching: Watching): Promise<void> {
  const { state, signal } = watching
  while (!signal.aborted) {
    try {
      const access = watching.open()
      state.server = access.server
      if (state.version === '') {
        state.version = await list(access, watching)
        state.isListed = true
        watching.onChange()
      }
      const startedMs = performance.now()
      await watch(access, watching)
      // A server that ends each watch at once is not asked without a pause.
      if (performance.now() - startedMs < 1000) await sleep(1000, undefined, { signal })
    } catch (error) {
      if (signal.aborted) return
      const status = error instanceof ApiError ? error.status : 0
      // 410: the version is too old for a watch; 400: the server never had the version.
      if (status === 410 || status === 400) state.version = ''
      Object.assign(state, { failures: state.failures + 1, lastError: (error as Error).message })
      watching.onError(error as Error, state.failures)
      const waitMs = status === 410 && state.failures === 1 ? 0 : backoffMs(state.failures, Math.random())
      await sleep(waitMs, undefined, { signal }).catch(() => undefined)
    }
  }
}

/** Reads all nodes, and drops those that are not there any more. Returns the version for the watch. Throws ApiError. */
async function list(access: Access, { nodes, signal, onChange }: Watching): Promise<string> {
  const seen = new Set<string>()
  let next = ''
  try {
    for (;;) {
      const query = new URLSearchParams({ limit: `${pageSize}`, ...(next === '' ? {} : { continue: next }) })
      const asked = { method: 'GET', path: `/api/v1/nodes?${query}` } as const
      const { items, metadata } = asObject(await askApi(access, asked, { ...pageMs, signal }))
      const { resourceVersion, continue: token = '' } = asObject(metadata)
      if (!Array.isArray(items) || typeof resourceVersion !== 'string' || typeof token !== 'string')
        throw new ApiError('GET /api/v1/nodes: the answer is no NodeList')
      for (const item of items) {
        const node = readNode(item, (name) => nodes.get(name))
        if (node === undefined) continue
        seen.add(node.name)
        nodes.set(node.name, node)
      }
      if (token !== '' && token === next)
        throw new ApiError('GET /api/v1/nodes: the answer continues with the same page', 410)
      next = token
      if (next !== '') continue
      for (const name of nodes.keys()) if (!seen.has(name)) nodes.delete(name)
      return resourceVersion
    }
  } catch (error) {
    // A later page has failed: the next list finds these nodes as they are now.
    onChange()
    throw error
  }
}

/** Watches until the server ends the watch; the next one begins where this one ended. Throws ApiError. */
async function watch(access: Access, { nodes, state, signal, onChange }: Watching): Promise<void> {
  const query = new URLSearchParams({
    watch: 'true',
    resourceVersion: state.version,
    allowWatchBookmarks: 'true',
    timeoutSeconds: `${Math.round(watchS * (0.75 + Math.random() / 2))}`,
  })
  const asked = { method: 'GET', path: `/api/v1/nodes?${query}` } as const
  for await (const line of linesOf(readApi(access, asked, { silenceMs, signal }))) {
    // Each line is an event (docs.kubernetes.io, "Efficient detection of changes").
    const { type, object } = asObject(JSON.parse(line))
    const { metadata, code, message } = asObject(object)
    // Any error means a new list, as in client-go: the server may never accept this version again.
    if (type === 'ERROR') throw new ApiError(`watch of nodes: ${code ?? ''} ${message ?? ''}`, 410)
    Object.assign(state, { failures: 0, lastError: '' })
    const version = asObject(metadata)['resourceVersion']
    if (typeof version === 'string') state.version = version
    const node = type === 'BOOKMARK' ? undefined : readNode(object, (name) => nodes.get(name))
    if (node === undefined) continue
    // Most updates are heartbeats: readNode() returns the node as it was.
    if (type === 'DELETED' ? !nodes.delete(node.name) : nodes.get(node.name) === node) continue
    if (type !== 'DELETED') nodes.set(node.name, node)
    onChange()
  }
  Object.assign(state, { failures: 0, lastError: '' })
}
