// SPDX-License-Identifier: Apache-2.0
// ADD in the role of IPAM: addresses are reserved and written down, nothing is made in the kernel.

import type { Result } from '../../cni/result.ts'
import type { IpamNetConf } from '../../config/net-conf.ts'
import { delegatedResult } from '../../drivers/answer.ts'
import type { AttachmentKey } from '../../model/attachment.ts'
import type { LeasePort } from './ports.ts'

/** Throws CniError 101-105 as the addresses say. */
export async function addLease(
  port: LeasePort,
  { key, conf }: { readonly key: AttachmentKey; readonly conf: IpamNetConf },
): Promise<Result> {
  const lease = await port.reserveAddresses([])
  port.writeIntent({
    key,
    // Every record has a mode; this role makes no use of it.
    mode: 'bridge',
    mtu: 0,
    ips: lease.ips,
    routes: [],
    defaultRoutes: [],
    podLinkDown: true,
    dad: false,
    selfHairpin: false,
    isPool: conf.ipam.kind === 'pool',
    cooldownS: conf.ipam.kind === 'pool' ? conf.ipam.cooldownS : 0,
  })
  port.finish()
  return delegatedResult(lease)
}
