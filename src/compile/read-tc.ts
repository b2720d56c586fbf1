// SPDX-License-Identifier: Apache-2.0
// What `tc -j` prints for one link's qdiscs and ingress filters, to observed queueing.

import type { ObservedQueue } from '../plan/observed.ts'

interface TcEntry {
  readonly kind?: string
  readonly root?: boolean
  readonly handle?: string
  readonly options?: {
    readonly rate?: number
    readonly burst?: number
    readonly actions?: readonly { readonly to_dev?: string }[]
  }
}

/** The queueing of a link from the documents of `tc -j qdisc show dev X` and `tc -j filter show dev X parent ffff:`. */
export function readQueue(entries: readonly unknown[]): ObservedQueue {
  const all = entries as readonly TcEntry[]
  const bucket = all.find((entry) => entry.kind === 'tbf' && entry.root === true)?.options
  // Handle 0 is what the kernel gives a link by itself.
  const root = all.find((entry) => entry.root === true && entry.handle !== '0:')?.kind
  const redirectTo = all
    .flatMap((entry) => entry.options?.actions ?? [])
    .find((action) => action.to_dev !== undefined)?.to_dev
  return {
    // tc prints bytes per second.
    ...(bucket?.rate === undefined ? {} : { rateBits: bucket.rate * 8 }),
    ...(bucket?.burst === undefined ? {} : { burstBytes: bucket.burst }),
    ...(root === undefined ? {} : { root }),
    hasIngress: all.some((entry) => entry.kind === 'ingress' || entry.kind === 'clsact'),
    ...(redirectTo === undefined ? {} : { redirectTo }),
  }
}
