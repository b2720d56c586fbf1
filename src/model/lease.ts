// SPDX-License-Identifier: Apache-2.0
// What IPAM answers, whoever did it: the abbreviated result of CNI spec 1.1.0, section 5.

import type { Dns, Route } from '../cni/route.ts'
import type { PodAddress } from './attachment.ts'

/** Addresses for one attachment. `address` is a CIDR, host part kept. */
export interface Lease {
  readonly ips: readonly PodAddress[]
  readonly routes: readonly Route[]
  readonly dns?: Dns
}

/** The lease of a network without IPAM: layer 2 only. */
export const noLease: Lease = { ips: [], routes: [] }
