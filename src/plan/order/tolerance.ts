// SPDX-License-Identifier: Apache-2.0
// Two things found in a pod are no failure: a default route that someone else made, and IPv6 switched off where we are
// to add an address.

import { familyOf } from '../../cni/address.ts'
import type { Op } from '../../model/op.ts'
import type { Failure } from './stage.ts'

/** What to do about a failed operation: leave out those that `skips`, or run `fix` and go on with the same one. */
export type Cure = { readonly skips: (op: Op) => boolean } | { readonly fix: readonly Op[] }

/** The cure for a failure in a pod, if there is one. `isFixed`: a fix was made before. */
export function cureInPod({ op: failed, reason }: Failure, isFixed: boolean): Cure | undefined {
  if (failed === undefined) return undefined
  if (failed.kind === 'route.add' && failed.onlyIfNone && reason === 'exists') return { skips: sameDefault(failed) }
  // EACCES from an IPv6 address means disable_ipv6 (net/ipv6/addrconf.c, addrconf_add_dev).
  const isIpv6Off = failed.kind === 'addr.replace' && familyOf(failed.cidr) === 6 && reason === 'denied'
  return isIpv6Off && !isFixed ? { fix: ['lo', failed.dev].map(enableIpv6) } : undefined
}

/** The refused default route, and those of ours beside it. */
function sameDefault(taken: Extract<Op, { kind: 'route.add' }>): (op: Op) => boolean {
  return (op) => op.kind === 'route.add' && op.onlyIfNone && op.route.dst === taken.route.dst
}

function enableIpv6(dev: string): Op {
  const key = `net/ipv6/conf/${dev}/disable_ipv6`
  return { in: 'pod', kind: 'sysctl.pod', key, value: '0', why: `switch IPv6 of ${dev} on` }
}
