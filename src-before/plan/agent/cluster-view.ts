// SPDX-License-Identifier: Apache-2.0
// All nodes of the cluster as this one sees them: its own ranges, the ranges that lead to others, and what is wrong.
// The same nodes give the same view, in whatever order they came: nothing flaps.

import {
  type Address,
  bitsOf,
  type Cidr,
  familyOf,
  formatAddress,
  formatCidr,
  includes,
  isOverlap,
  overlaps,
  parseAddress,
  parseCidr,
  subtract,
} from '../../cni/address.ts'
import type { ClusterNode } from './cluster-node.ts'
import { addressesHere, addressJudge, type Here, type Listed } from './node-addresses.ts'
import {
  type Claimed,
  type ClaimedRanges,
  claimedRanges,
  isForOneLink,
  isPartOf,
  isPublic,
  soundRange,
} from './node-ranges.ts'
import type { Problem, ProblemId } from './problem.ts'

/** Another node with the ranges that are routed to it. `addresses`: its InternalIPs, canonical, but wrong ones. */
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
 * What is seen from. `remembered`: the peers of the last view; `earlierPods`: ranges of live pods here that are none of
 * today's; `bounds`: what the ranges of all nodes lie in, nothing where that is not said; `apiServer`: its address, if
 * known: an agent that routes this address to a node learns of no correction.
 */
interface Viewer {
  readonly self: string
  readonly nodes: readonly ClusterNode[]
  readonly remembered: readonly Peer[]
  readonly earlierPods: readonly string[]
  readonly here: Here
  readonly bounds: readonly Cidr[]
  readonly allowOverlap: boolean
  readonly apiServer?: Address | undefined
}

export function clusterView(viewer: Viewer): ClusterView {
  const { self, nodes, remembered, earlierPods, bounds } = viewer
  const inOrder = [...nodes].sort(byAge)
  const [ownNode, others] = [inOrder.find(isSelf), inOrder.filter((node) => !isSelf(node))]
  const lengths = lengthsOf(viewer)
  const claimed = claimedRanges(lengths)
  // The own ranges first: whoever else has them, the pods here have their addresses from them.
  const own = ownNode === undefined ? { ranges: [], problems: [] } : ownRanges(ownNode, viewer.apiServer)
  for (const cidr of own.ranges.flatMap((text) => parseCidr(text) ?? [])) claimed.claim({ node: self, cidr })
  const judgeRange = rangeJudge(viewer, ownNode, lengths)
  const found = others.map((node) => ({
    known: parsed(node),
    ...rangesOf(node, { claimed, judgeRange, ownNode }),
  }))
  const earlier = earlierPods.flatMap((text) => claimEarlier({ node: self, today: own.ranges, claimed }, text))
  const before = new Map(remembered.map((peer) => [peer.name, peer]))
  const routed = found.map((each) => ({ ...each, routed: [...each.ranges, ...kept(each)] }))
  const pods = [...own.ranges, ...earlier]
  const judge = addressJudge({ ...viewer, nodes: inOrder.map(parsed), claimed })
  const ofSelf = ownNode === undefined ? [] : [{ known: parsed(ownNode), ...own, routed: [] }]
  const seen = [...ofSelf, ...routed].map((each) => ({ ...each, judged: judge(each.known) }))
  const problems = [
    ...(earlierPods.length > 0 && own.ranges.length > 0 ? [moved(self, earlierPods, own.ranges)] : []),
    ...ownOverlaps(viewer, own.ranges),
    ...ownBeyond(viewer, own.ranges),
    ...seen.flatMap((each) => [...each.problems, ...each.judged.problems]),
    ...(bounds.length > 0 ? wideBounds(self, bounds, seen) : publicRanges(self, seen)),
  ]
  const peers = seen.slice(ofSelf.length).map(peerOf)
  return { own: own.ranges, pods, peers, problems }

  function isSelf({ name }: ClusterNode): boolean {
    return name === self
  }

  /** Pods of a node that got another range live on with addresses of the old one, until somebody else has it. */
  function kept({ known: { name, texts }, ranges }: Pick<Seen, 'known' | 'ranges'>): readonly string[] {
    const last = before.get(name)
    if (last === undefined || !last.addresses.some((address) => texts.includes(address))) return []
    const earlier = last.ranges.filter((text) => {
      const cidr = ranges.includes(text) ? undefined : parseCidr(text)
      return cidr !== undefined && judgeRange(cidr) === undefined
    })
    return earlier.flatMap((text) => claimEarlier({ node: name, today: ranges, claimed }, text))
  }
}

/** A node as it counts: `ranges` of today, `routed` also earlier ones, and the addresses that are its own. */
interface Seen {
  readonly known: Parsed
  readonly ranges: readonly string[]
  readonly routed: readonly string[]
  readonly judged: { readonly addresses: readonly string[] }
}

/** The ranges of this node that pods can have addresses of; they depend on no other node. */
export function ownRanges(
  node: ClusterNode,
  apiServer: Address | undefined,
): { ranges: readonly string[]; problems: readonly Problem[] } {
  if (node.podCidrs.length === 0) return { ranges: [], problems: [noRange(node.name)] }
  const [ranges, problems]: [string[], Problem[]] = [[], []]
  for (const { text, cidr, canonical } of parsed(node).ranges) {
    const wrong = typeof cidr === 'string' ? cidr : (wrongAround(cidr, apiServer) ?? unfitForPods(cidr, ranges))
    if (wrong === undefined) ranges.push(canonical)
    else problems.push(badRange(node.name, typeof cidr === 'string' ? JSON.stringify(text) : text, wrong))
  }
  return { ranges, problems }
}

/** A node's earlier range without its ranges of today, claimed for it; no part that overlaps what anybody has by now. */
function claimEarlier({ node, today, claimed }: Earlier, text: string): readonly string[] {
  const cidr = parseCidr(text)
  if (cidr === undefined) return []
  const holes = today.flatMap((each) => parseCidr(each) ?? [])
  const parts = holes
    .reduce((rest, hole) => rest.flatMap((part) => subtract(part, hole)), [cidr] as readonly Cidr[])
    .filter((part) => claimed.overlapping(part) === undefined)
  for (const part of parts) claimed.claim({ node, cidr: part })
  return parts.map(formatCidr)
}

/** Which of these ranges overlap one that another node has by now, in words; undefined without one. */
export function takenRanges(ranges: readonly string[], peers: readonly Peer[]): string | undefined {
  const cidrs = ranges.flatMap((text) => parseCidr(text) ?? [])
  const taken = peers.flatMap(({ name, ranges: theirs }) => {
    const others = theirs.flatMap((text) => parseCidr(text) ?? [])
    const found = cidrs.filter((cidr) => others.some((other) => overlaps(cidr, other)))
    return found.map((cidr) => `${formatCidr(cidr)} is node ${name}'s by now`)
  })
  return taken.length === 0 ? undefined : taken.join(', ')
}

interface Earlier {
  readonly node: string
  readonly today: readonly string[]
  readonly claimed: ClaimedRanges
}

function moved(self: string, earlier: readonly string[], own: readonly string[]): Problem {
  const text = `pods here have addresses of ${earlier.join(', ')}, new ones of ${own.join(', ')}: drain this node, then delete its remaining pods or reboot it`
  return { id: 'MovedPodCIDR', node: self, text }
}

/** Told where no bound allows it: what is sent to a range of the internet goes to one node of the cluster. */
function publicRanges(self: string, seen: readonly Seen[]): readonly Problem[] {
  const all = seen.flatMap(({ known: { name, publicRanges: found }, ranges }) =>
    found.filter((range) => ranges.includes(range)).map((range) => ({ name, range })),
  )
  const ours = all.filter(({ name }) => name === self).map(({ range }) => familyOf(range))
  // Where the whole cluster has public ranges, a node does not tell of a thousand others.
  const told = all.filter(({ name, range }) => name === self || !ours.includes(familyOf(range)))
  return told.map(({ name, range }) => ({
    id: 'PublicPodCIDR',
    node: name,
    text: `podCIDR ${range} is a public one: say with --cluster-cidr which ranges the cluster has`,
  }))
}

/** Bounds that let a Node's range take more than the addresses of pods. */
function wideBounds(self: string, bounds: readonly Cidr[], seen: readonly Seen[]): readonly Problem[] {
  const hasNode = (bound: Cidr, { known: { addresses, texts }, judged }: Seen) =>
    addresses.some((address, at) => includes(bound, address) && judged.addresses.includes(texts[at] ?? ''))
  return bounds.flatMap((bound): readonly Problem[] => {
    const inside = seen.find((each) => hasNode(bound, each))
    const why = isPublic(bound) ? 'is a public range' : inside && `has the address of node ${inside.known.name} in it`
    if (why === undefined) return []
    return [{ id: 'WideClusterCIDR', node: self, text: `--cluster-cidr ${formatCidr(bound)} ${why}` }]
  })
}

/** The elder node keeps what two of them claim. */
function byAge(a: ClusterNode, b: ClusterNode): number {
  const [one, other] = [parsed(a).age, parsed(b).age]
  return one < other ? -1 : one > other ? 1 : 0
}

/** The node as a peer: the same object as long as it is the same, so that its routes need not be found again. */
function peerOf({ known, routed: ranges, judged: { addresses } }: Seen): Peer {
  const { peer } = known
  if (peer !== undefined && isSameList(peer.ranges, ranges) && isSameList(peer.addresses, addresses)) return peer
  known.peer = { name: known.name, ranges, addresses }
  return known.peer
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((each, at) => each === b[at])
}

/**
 * A node's addresses and ranges as numbers. `ranges`: a sound one and its text, or in words what is wrong with it.
 * `sound`: the sound ones alone. `peer`: as it was seen last.
 */
interface Parsed extends Listed {
  readonly age: string
  peer?: Peer
  readonly publicRanges: readonly string[]
  readonly ranges: readonly { readonly text: string; readonly cidr: Cidr | string; readonly canonical: string }[]
  readonly sound: readonly Cidr[]
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
  const made: Parsed = {
    name: node.name,
    age: `${node.created} ${node.name}`,
    addresses,
    texts: addresses.map(formatAddress),
    ofOneLink: addresses.filter(isForOneLink).map(formatAddress),
    ranges,
    sound: ranges.flatMap(({ cidr }) => (typeof cidr === 'string' ? [] : cidr)),
    publicRanges: ranges.flatMap(({ cidr, canonical }) =>
      typeof cidr !== 'string' && isPublic(cidr) ? canonical : [],
    ),
  }
  parsedNodes.set(node, made)
  return made
}

/** Prefix lengths of all ranges, today's and earlier ones; without lists, since each view may have thousands. */
function lengthsOf({ self, nodes, remembered, earlierPods }: Viewer): ReadonlySet<number> {
  const lengths = new Set<number>()
  const today = new Map<string, readonly Cidr[]>()
  for (const node of nodes) {
    const { name, sound } = parsed(node)
    today.set(name, sound)
    for (const { prefixLength } of sound) lengths.add(prefixLength)
  }
  for (const { name, ranges } of [...remembered, { name: self, ranges: earlierPods }])
    for (const text of ranges) {
      const length = lengthOf(text)
      if (!(length >= 0 && length <= 128)) continue
      let longest = length
      // What is left of an earlier range beside one of today's is of any length between the two.
      for (const { family, prefixLength } of today.get(name) ?? [])
        if (family === familyOf(text)) longest = Math.max(longest, prefixLength)
      for (let each = length; each <= longest; each++) lengths.add(each)
    }
  return lengths
}

/** What is after the slash is enough, and there may be thousands. */
function lengthOf(text: string): number {
  return Number(text.slice(text.lastIndexOf('/') + 1))
}

/** Why a range of another node is not routed from here, whoever of the two is the elder; undefined where it may be. */
type RangeJudge = (cidr: Cidr) => { readonly id: ProblemId; readonly why: string } | undefined

/** Judges the ranges of other nodes by this one. `lengths`: the prefix lengths of all ranges. */
function rangeJudge(viewer: Viewer, ownNode: ClusterNode | undefined, lengths: Iterable<number>): RangeJudge {
  const { here, bounds, allowOverlap, apiServer } = viewer
  const addresses = ownNode === undefined ? [] : addressesHere(parsed(ownNode), here)
  const claimedBy = (isOfLink: boolean) => {
    const subnets = here.subnets.filter((subnet) => !allowOverlap && subnet.isOfLink === isOfLink)
    const all = subnets.flatMap(({ dst, dev }) => ({ node: dev, cidr: parseCidr(dst) }))
    const claimed = claimedRanges([...lengths, ...all.flatMap(({ cidr }) => cidr?.prefixLength ?? [])])
    for (const { node, cidr } of all) if (cidr !== undefined) claimed.claim({ node, cidr })
    return claimed
  }
  const [ofLinks, ofOthers] = [claimedBy(true), claimedBy(false)]
  return (cidr) => {
    if (addresses.some((address) => includes(cidr, address)))
      return { id: 'BadPodCIDR', why: 'has the address of this node in it' }
    const wrong = wrongAround(cidr, apiServer)
    if (wrong !== undefined) return { id: 'BadPodCIDR', why: wrong }
    if (!isWithin(cidr, bounds)) {
      const why = `is beyond ${bounds.map(formatCidr).join(', ')}: nothing is routed to it`
      return { id: 'BeyondClusterCIDR', why }
    }
    const other = ofOthers.overlapping(cidr)
    // A wider route that a person or a VPN made loses to the route to the range.
    const isWider = other !== undefined && other.cidr.prefixLength < cidr.prefixLength
    const link = ofLinks.overlapping(cidr) ?? (isWider ? undefined : other)
    if (link === undefined) return undefined
    return {
      id: 'OverlapsHost',
      why: `overlaps ${formatCidr(link.cidr)} of ${link.node} on this node`,
    }
  }
}

function wrongAround(cidr: Cidr, apiServer: Address | undefined): string | undefined {
  return apiServer !== undefined && includes(cidr, apiServer) ? 'has the address of the API server in it' : undefined
}

/** Ranges of this node that a subnet of its own links overlaps: the plugin sets no network up with them. */
function ownOverlaps({ self, here, allowOverlap }: Viewer, own: readonly string[]): readonly Problem[] {
  if (allowOverlap) return []
  return own.flatMap((range): readonly Problem[] => {
    const link = here.subnets.find(({ dst, isOfLink }) => isOfLink && isOverlap(range, dst))
    if (link === undefined) return []
    const cure = `give ${link.dev} another subnet, or delete the Node and register it again with another range`
    const text = `podCIDR ${range} overlaps ${link.dst} of ${link.dev} on this node: ${cure}`
    return [{ id: 'OverlapsHost', node: self, text }]
  })
}

/** Ranges of this node beyond the option: its own pods have them all the same. */
function ownBeyond({ self, bounds }: Viewer, own: readonly string[]): readonly Problem[] {
  const beyond = own.flatMap((text) => parseCidr(text) ?? []).filter((cidr) => !isWithin(cidr, bounds))
  const bound = bounds.map(formatCidr).join(', ')
  return beyond.map((cidr) => ({
    id: 'BeyondClusterCIDR',
    node: self,
    text: `podCIDR ${formatCidr(cidr)} is beyond ${bound}: other nodes with this option route nothing to it`,
  }))
}

interface Claims {
  readonly claimed: ClaimedRanges
  readonly judgeRange: RangeJudge
  readonly ownNode: ClusterNode | undefined
}

/** The sound ranges of another node, which are claimed for it, and what is wrong with the others. */
function rangesOf(
  node: ClusterNode,
  { claimed, judgeRange, ownNode }: Claims,
): { ranges: string[]; problems: Problem[] } {
  if (node.podCidrs.length === 0) return { ranges: [], problems: [noRange(node.name)] }
  const [ranges, problems]: [string[], Problem[]] = [[], []]
  for (const { text, cidr, canonical } of parsed(node).ranges) {
    if (typeof cidr === 'string') {
      problems.push(badRange(node.name, JSON.stringify(text), cidr))
      continue
    }
    const unfit = judgeRange(cidr)
    const other = claimed.overlapping(cidr)
    if (unfit !== undefined)
      problems.push({
        id: unfit.id,
        node: node.name,
        text: `podCIDR ${text} ${unfit.why}`,
      })
    else if (other !== undefined) problems.push(doubleRange({ node, text }, other, ownNode))
    else {
      claimed.claim({ node: node.name, cidr })
      ranges.push(canonical)
    }
  }
  return { ranges, problems }
}

/** Two nodes have a range: the younger one is told of, also where that is this one. */
function doubleRange(
  { node, text }: { readonly node: ClusterNode; readonly text: string },
  { node: holder, cidr }: Claimed,
  ownNode: ClusterNode | undefined,
): Problem {
  const id = 'OverlappingPodCIDR'
  if (ownNode === undefined || ownNode.name !== holder || byAge(ownNode, node) < 0)
    return {
      id,
      node: node.name,
      text: `podCIDR ${text} overlaps ${formatCidr(cidr)} of node ${holder}`,
    }
  const elder = `${text} of node ${node.name}, the elder`
  return {
    id,
    node: holder,
    text: `podCIDR ${formatCidr(cidr)} overlaps ${elder}: delete this Node and register it again`,
  }
}

function noRange(node: string): Problem {
  return { id: 'NoPodCIDR', node, text: 'the node has no podCIDR: nothing is routed to its pods' }
}

function badRange(node: string, text: string, wrong: string): Problem {
  return { id: 'BadPodCIDR', node, text: `podCIDR ${text} ${wrong}` }
}

/** Whether the range is in one of the bounds; without bounds every range is. */
function isWithin(cidr: Cidr, bounds: readonly Cidr[]): boolean {
  return bounds.length === 0 || bounds.some((bound) => isPartOf(cidr, bound))
}

/** Why the plugin could not give addresses from a range of this node; undefined where it can. `before`: its others. */
function unfitForPods(cidr: Cidr, before: readonly string[]): string | undefined {
  // A gateway, a pod, and for IPv4 the first and last address (plan/ipam).
  if (bitsOf(cidr.family) - cidr.prefixLength < 2) return 'has no room for pods'
  const isSecond = before.some((text) => parseCidr(text)?.family === cidr.family)
  return isSecond ? `is a second range of IPv${cidr.family}` : undefined
}
