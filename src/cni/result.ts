// SPDX-License-Identifier: Apache-2.0
// The result of ADD in the shape of CNI 1.1.0 (spec section 5 "Success"). Older shapes are read and
// written in result-shapes.ts. Keys we do not know are kept: a chained plugin passes them on.

import type { Dns, Route } from './route.ts'

export interface ResultInterface {
  readonly name: string
  readonly mac?: string
  readonly mtu?: number
  /** The netns path of a pod's interface; absent or empty for one on the host. */
  readonly sandbox?: string
}

export interface ResultIp {
  /** CIDR with the host part kept: 10.1.2.3/24. */
  readonly address: string
  readonly gateway?: string
  /** Index into `interfaces`. */
  readonly interface?: number
}

/** A result. Entries may carry further keys than typed here; they are written back unchanged. */
export interface Result {
  readonly interfaces: readonly ResultInterface[]
  readonly ips: readonly ResultIp[]
  readonly routes: readonly Route[]
  readonly dns?: Dns
  /** Top-level keys of a prevResult that this version of the protocol does not name. */
  readonly others?: Readonly<Record<string, unknown>>
}
