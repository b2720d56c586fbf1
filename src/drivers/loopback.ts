// SPDX-License-Identifier: Apache-2.0
// mode `loopback`: the pod's lo, as the upstream loopback plugin sets it up (docs/design.md, "Upstream loopback").
// It leaves nothing on the host and reserves nothing, so it has no record. ADD, CHECK, DEL: commands/verbs/loopback.ts.

import { familyOf } from '../cni/address.ts'
import { CniError } from '../cni/error.ts'
import type { Result } from '../cni/result.ts'
import type { ObservedLink } from '../model/observed.ts'
import type { Op } from '../model/op.ts'

const dev = 'lo'

/** Sets lo up, and shows the addresses that the kernel then gives it. */
export const loopbackOps: readonly Op[] = [
  { in: 'pod', kind: 'link.up', dev, why: 'set lo up in the pod' },
  { in: 'pod', kind: 'addr.show', dev, why: 'see the addresses of lo' },
]

/** Sets lo down, as upstream does. */
export const loopbackDownOps: readonly Op[] = [{ in: 'pod', kind: 'link.down', dev, why: 'set lo down in the pod' }]

/**
 * The result: the first address of each family. Throws CniError 7 when lo has an address that is no loopback address.
 */
export function loopbackResult(link: ObservedLink, sandbox: string): Result {
  const foreign = link.addresses.find((address) => !isLoopback(address))
  if (foreign !== undefined) {
    throw new CniError('loopback-other-address', `loopback interface found with non-loopback address "${foreign}"`, {
      details: `take it off: nsenter --net=${sandbox} ip addr del ${foreign} dev lo`,
    })
  }
  const first = [4, 6].map((family) => link.addresses.find((address) => familyOf(address) === family))
  const ips = first.filter((address) => address !== undefined).map((address) => ({ address, interface: 0 }))
  return { interfaces: [{ name: dev, mac: link.mac, sandbox }], ips, routes: [] }
}

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1/128'
}
