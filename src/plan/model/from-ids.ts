// SPDX-License-Identifier: Apache-2.0
// An attachment of which only the name is known: its record was lost, or cannot be read in full. Its
// links follow from the name; what it has reserved says so itself. One in the role of IPAM never has more.

import type { AttachmentKey, AttachmentSpec } from './attachment.ts'
import { hostLinkName, ifbMac, ifbName } from './names.ts'

/** What can be torn down from the ids alone. Only a main attachment has links; a chained one shares its ids with it. */
export function specFromIds(key: AttachmentKey): AttachmentSpec {
  const link = hostLinkName(key)
  const egress = { rateBits: 0, burstBytes: 0, ifb: ifbName(key), ifbMac: ifbMac(key) }
  return {
    key,
    mode: 'bridge',
    mtu: 0,
    ips: [],
    routes: [],
    defaultRoutes: [],
    podLinkDown: true,
    dad: false,
    selfHairpin: false,
    isPool: false,
    cooldownS: 0,
    ...(key.role !== 'main' ? {} : { host: { name: link, mac: '' }, bandwidth: { link, mtu: 0, egress } }),
  }
}
