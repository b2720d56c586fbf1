// SPDX-License-Identifier: Apache-2.0
// What is said of a range that overlaps what the host or another network has (range-overlap.ts), and the cure.

import { CniError } from '../../cni/error.ts'
import type { ObservedNamespace } from '../../model/observed.ts'
import type { RangeOverlap } from './range-overlap.ts'

/** What is said of an overlap. */
export function describeOverlap(overlap: RangeOverlap): string {
  return `the range ${overlap.range} overlaps ${overlap.address} of ${placeOf(overlap)}`
}

/**
 * Links that nobody removes to make room: lo and network cards, which are of no kind and which the kernel keeps, and
 * those with a default route. `routes`: the default routes of the host.
 */
export function linksToKeep({ links, routes }: ObservedNamespace): ReadonlySet<string> {
  const fixed = [...links.values()].filter(({ kind }) => kind === undefined).map(({ name }) => name)
  const uplinks = [...routes.values()].flat().flatMap(({ dev }) => dev ?? [])
  return new Set([...fixed, ...uplinks])
}

/** Overlaps that keep a network from being set up. `kept`: links that are not to be removed. */
export interface Refusal {
  readonly overlaps: readonly [RangeOverlap, ...RangeOverlap[]]
  readonly kept: ReadonlySet<string>
}

/** CniError 110 for the first of the overlaps; the others are in `details`. */
export function overlapError(name: string, { overlaps: [first, ...more], kept }: Refusal): CniError {
  const rest = more.map((each) => `${describeOverlap(each)}\n`).join('')
  return new CniError('range-in-use', `network ${name}: ${describeOverlap(first)}`, {
    details: `${rest}${harmOf(first)}: ${cureOf(first, kept)}, or set "allowOverlap": true`,
  })
}

function harmOf({ kind, pods }: RangeOverlap): string {
  return kind !== 'link' || pods !== undefined
    ? 'pods in one range and two places do not reach each other, and one address may be given to two'
    : "pods and their gateway would get addresses of that subnet, the router's or the node's own"
}

function cureOf(overlap: RangeOverlap, kept: Refusal['kept']): string {
  if (overlap.pods !== undefined) return 'use another range, or change it once those pods are gone (drain the node)'
  const removal = overlap.kind !== 'link' || kept.has(overlap.link) ? '' : `, remove ${overlap.link} if it is left over`
  return `use another range${removal}`
}

function placeOf(overlap: RangeOverlap): string {
  const { network, pods } = overlap
  const count = pods === undefined ? '' : `${pods} ${pods === 1 ? 'pod' : 'pods'}`
  const tail = pods === undefined ? '' : `, with ${count}`
  if (overlap.kind === 'link') {
    if (network !== undefined) return `network ${network} on ${overlap.link}${tail}`
    return pods === undefined ? overlap.link : `bridge ${overlap.link}${tail}`
  }
  if (overlap.kind === 'pod')
    return `container ${overlap.containerId} of network ${network}, and that would be its gateway`
  const reason = overlap.bridge === undefined ? '' : `, which pods on bridge ${overlap.bridge} would not reach`
  return `${count === '' ? '' : `${count} of `}network ${network} in mode ptp${reason}`
}
