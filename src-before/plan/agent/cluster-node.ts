// SPDX-License-Identifier: Apache-2.0
// A Node of the API server, stripped to what the agent uses: with its images and conditions one is 15 KB, and a cluster
// has thousands.

import { asObject } from '../../cni/json.ts'

/** `addresses`: InternalIPs in the node's order; `podCidrs`: as the cluster gave them, in its order of families. */
export interface ClusterNode {
  readonly name: string
  readonly uid: string
  /** RFC 3339: when it was registered. */
  readonly created: string
  readonly podCidrs: readonly string[]
  readonly addresses: readonly string[]
  /** The status of the condition NetworkUnavailable, where it has one. */
  readonly networkUnavailable?: string
}

type Json = Readonly<Record<string, unknown>>

/** Longer lists are no Node's: at most two ranges (core/v1 NodeSpec.PodCIDRs), and a few addresses usual. */
const mostEntries = 64

/** What is used of a Node; undefined for what is none. Unknown shapes inside it count as absent. */
export function clusterNode(value: unknown): ClusterNode | undefined {
  const [metadata, spec, status] = ['metadata', 'spec', 'status'].map((key) => asObject(asObject(value)[key]))
  const name = text(metadata?.['name'])
  if (name === '') return undefined
  const conditions = list(status?.['conditions']).map(asObject)
  const unavailable = conditions.find(({ type }) => type === 'NetworkUnavailable')
  return {
    name,
    uid: text(metadata?.['uid']),
    created: text(metadata?.['creationTimestamp']),
    podCidrs: podCidrsOf(spec ?? {}),
    addresses: list(status?.['addresses'])
      .map(asObject)
      .filter(({ type }) => type === 'InternalIP')
      .map(({ address }) => text(address))
      .slice(0, mostEntries),
    ...(unavailable === undefined ? {} : { networkUnavailable: text(unavailable['status']) }),
  }
}

/** Whether two states of a node are the same to the agent: most updates are heartbeats. */
export function isSameNode(a: ClusterNode, b: ClusterNode): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

/** `podCIDR` is the first of `podCIDRs`, and all that an old API server has. */
function podCidrsOf(spec: Json): readonly string[] {
  const all = list(spec['podCIDRs']).map(text).slice(0, mostEntries)
  const first = text(spec['podCIDR'])
  return all.length > 0 || first === '' ? all : [first]
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** Bounded: it is repeated in logs, events and labels of metrics. */
function text(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, 253) : ''
}
