// SPDX-License-Identifier: Apache-2.0
// All nodes of the cluster as this one sees them: its own ranges, the ranges that lead to others, and what is wrong.
// The same nodes give the same view, in whatever order they came: nothing flaps.

import {
  type Address,
  bitsOf,
  type Cidr,
  formatAddress,
  formatCidr,
  includes,
  networkOf,
  overlaps,
  parseAddress,
  parseCidr,
} from '../../cni/model/address.ts'
import { type ClaimedRanges, claimedRanges } from './claimed-ranges.ts'
import type { ClusterNode } from './cluster-node.ts'
import type { Problem, ProblemId } from './problem.ts'

/** Another node with the ranges that are routed to it. `addresses`: its InternalIPs, canonical. */
export interface Peer {
  readonly name: string
  readonly ranges: readonly string[]
  readonly addresses: readonly string[]
}

/** `own`: ranges for new pods, the cluster's order of families kept; empty until the cluster has given any. */
export interface ClusterView {
  readonly own: readonly string[]
  /** Ranges of this node's pods: today's, and earlier ones that pods still have. */
  readonly pods: readonly string[]
  readonly peers: readonly Peer[]
  readonly problems: readonly Problem[]
}

/**
 * What is seen from. `remembered`: the peers of the last view, `earlierPods`: ranges of live pods here that are none of
 * today's.
 */
export interface Viewer {
  readonly self: string
  readonly nodes: readonly ClusterNode[]
  readonly remembered: readonly Peer[]
  readonly earlierPods: readonly string[]
}

/** The view from one node. */
export function clusterView({ self, nodes, remembered, earlierPods }: Viewer): ClusterView {
  const problems: Problem[] = []
  const inOrder = [...nodes].sort(byAge)
  const addresses = new Map(inOrder.map((node) => [node.name, parsed(node).addressTexts]))
  const claimed = claimedRanges(lengthsOf({ nodes, remembered, earlierPods }))
  for (const node of inOrder) for (const address of parsed(node).addresses) claimed.settle(node.name, address)
  const ages = new Map(inOrder.map(({ name }, at) => [name, at]))
  const here = inOrder.filter(isSelf).flatMap((node) => parsed(node).addresses)
  const ranges = new Map<string, string[]>()
  // The own ranges first: whoever else has them, the pods here have their addresses from them.
  for (const node of [...inOrder.filter(isSelf), ...inOrder.filter((each) => !isSelf(each))]) {
    const found = rangesOf(node, { claimed, ages, self: isSelf(node) ? 'it' : here })
    ranges.set(node.name, found.ranges)
    problems.push(...found.problems)
  }
  const own = ranges.get(self) ?? []
  const earlier = earlierPods.flatMap((text) => claimEarlier(self, text, claimed))
  if (earlier.length > 0 && own.length > 0) problems.push(moved(self, earlier, own))
  const others = inOrder.filter((node) => !isSelf(node))
  const before = new Map(remembered.map((peer) => [peer.name, peer]))
  const peers = others.map((node) => peerOf(node, [...(ranges.get(node.name) ?? []), ...kept(node)]))
  return { own, pods: [...own, ...earlier], peers, problems }

  function isSelf({ name }: ClusterNode): boolean {
    return name === self
  }

  /** Pods of a node that got another range live on with addresses of the old one, until somebody else has it. */
  function kept(node: ClusterNode): readonly string[] {
    const known = before.get(node.name)
    const now = addresses.get(node.name) ?? []
    if (known === undefined || !known.addresses.some((address) => now.includes(address))) return []
    const today = ranges.get(node.name) ?? []
    return known.ranges.flatMap((text) => (today.includes(text) ? [] : claimEarlier(node.name, text, claimed)))
  }
}

/** The range, claimed for the node, unless an address of it is anybody's by now. */
function claimEarlier(node: string, text: string, claimed: ClaimedRanges): readonly string[] {
  const cidr = parseCidr(text)
  if (cidr === undefined || claimed.overlapping(cidr) !== undefined) return []
  claimed.claim({ node, cidr })
  return [formatCidr(cidr)]
}

function moved(self: string, earlier: readonly string[], own: readonly string[]): Problem {
  const text = `pods here have addresses of ${earlier.join(', ')}, new ones of ${own.join(', ')}: drain the node`
  return { id: 'MovedPodCIDR', node: self, text }
}

/** The elder node keeps what two of them claim. */
function byAge(a: ClusterNode, b: ClusterNode): number {
  const [one, other] = [parsed(a).age, parsed(b).age]
  return one < other ? -1 : one > other ? 1 : 0
}

/** The node as a peer: the same object as long as it is the same, so that its routes need not be found again. */
function peerOf(node: ClusterNode, ranges: readonly string[]): Peer {
  const known = parsed(node)
  const { peer } = known
  if (peer?.ranges.length === ranges.length && ranges.every((range, at) => range === peer.ranges[at])) return peer
  known.peer = { name: node.name, ranges, addresses: known.addressTexts }
  return known.peer
}

/**
 * A node's addresses and ranges as numbers. `ranges`: a sound one and its text, or in words what is wrong with it.
 * `peer`: as it was seen last.
 */
interface Parsed {
  readonly age: string
  peer?: Peer
  readonly addresses: readonly Address[]
  readonly addressTexts: readonly string[]
  readonly ranges: readonly { readonly text: string; readonly cidr: Cidr | string; readonly canonical: string }[]
}

/** Of the nodes that are still known: one of a thousand has changed when the view is made again. */
const parsedNodes = new WeakMap<ClusterNode, Parsed>()

function parsed(node: ClusterNode): Parsed {
  const known = parsedNodes.get(node)
  if (known !== undefined) return known
  const addresses = node.addresses.flatMap((text) => parseAddress(text) ?? [])
  const ranges = node.podCidrs.map((text) => {
    const cidr = soundRange(text)
    return { text, cidr, canonical: typeof cidr === 'string' ? '' : formatCidr(cidr) }
  })
  const age = `${node.created} ${node.name}`
  const made: Parsed = { age, addresses, addressTexts: addresses.map(formatAddress), ranges }
  parsedNodes.set(node, made)
  return made
}

function lengthsOf({ nodes, remembered, earlierPods }: Omit<Viewer, 'self'>): readonly number[] {
  const lengths = nodes.flatMap((node) =>
    parsed(node).ranges.flatMap(({ cidr }) => (typeof cidr === 'string' ? [] : cidr.prefixLength)),
  )
  const texts = [...remembered.flatMap((peer) => peer.ranges), ...earlierPods]
  // What is after the slash is enough, and there may be thousands.
  const claims = texts.map((text) => Number(text.slice(text.lastIndexOf('/') + 1)))
  return [...lengths, ...claims.filter((length) => Number.isInteger(length) && length >= 0 && length <= 128)]
}

/** What is known beside the node. `ages`: places among all, the eldest first. `self`: the addresses of this node. */
interface Claims {
  readonly claimed: ClaimedRanges
  readonly ages: ReadonlyMap<string, number>
  readonly self: 'it' | readonly Address[]
}

/** The sound ranges of a node, which are claimed for it, and what is wrong with the others. */
function rangesOf(node: ClusterNode, { claimed, ages, self }: Claims): { ranges: string[]; problems: Problem[] } {
  const problem = (id: ProblemId, text: string): Problem => ({ id, node: node.name, text })
  if (node.podCidrs.length === 0)
    return { ranges: [], problems: [problem('NoPodCIDR', 'the node has no podCIDR: nothing is routed to its pods')] }
  const [ranges, problems]: [string[], Problem[]] = [[], []]
  for (const { text, cidr, canonical } of parsed(node).ranges) {
    if (typeof cidr === 'string') {
      problems.push(problem('BadPodCIDR', `podCIDR ${JSON.stringify(text)} ${cidr}`))
      continue
    }
    const inside = elder(claimed.nodeIn(cidr))
    const other = claimed.overlapping(cidr)
    const unfit = self === 'it' ? unfitForPods(cidr, ranges) : unfitForHere(cidr, self)
    if (unfit !== undefined) problems.push(problem('BadPodCIDR', `podCIDR ${text} ${unfit}`))
    else if (inside !== undefined)
      problems.push(problem('BadPodCIDR', `podCIDR ${text} has the address of node ${inside} in it`))
    else if (other !== undefined)
      problems.push(
        problem('OverlappingPodCIDR', `podCIDR ${text} overlaps ${formatCidr(other.cidr)} of node ${other.node}`),
      )
    else {
      claimed.claim({ node: node.name, cidr })
      ranges.push(canonical)
    }
  }
  return { ranges, problems }

  /** An address that came later, into a range that was there, takes it from nobody. */
  function elder(name: string | undefined): string | undefined {
    return name !== undefined && (ages.get(name) ?? 0) <= (ages.get(node.name) ?? 0) ? name : undefined
  }
}

/** Why a range of another node cannot be routed from here, whoever of the two is the elder. */
function unfitForHere(cidr: Cidr, here: readonly Address[]): string | undefined {
  return here.some((address) => includes(cidr, address)) ? 'has the address of this node in it' : undefined
}

/** Why the plugin could not give addresses from a range of this node; undefined where it can. `before`: its others. */
function unfitForPods(cidr: Cidr, before: readonly string[]): string | undefined {
  // A gateway, a pod, and for IPv4 the first and last address (plan/ipam).
  if (bitsOf(cidr.family) - cidr.prefixLength < 2) return 'has no room for pods'
  const isSecond = before.some((text) => parseCidr(text)?.family === cidr.family)
  return isSecond ? `is a second range of IPv${cidr.family}` : undefined
}

/** Ranges that no pod can have (RFC 6890, and multicast). */
const special = [
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/3',
  '::/127',
  'fe80::/10',
  'ff00::/8',
].flatMap((text) => parseCidr(text) ?? [])

/** The range without host bits, or in words what is wrong with it. */
function soundRange(text: string): Cidr | string {
  const cidr = parseCidr(text)
  if (cidr === undefined) return 'is no CIDR'
  if (networkOf(cidr).value !== cidr.value) return 'has host bits'
  if (special.some((other) => overlaps(other, cidr))) return 'is no range for pods'
  return cidr
}
