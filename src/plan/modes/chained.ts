// SPDX-License-Identifier: Apache-2.0
// mode `chained`: the operations on what another plugin made. The spec is in chained.ts, the rules are with
// everybody's.

import { bareAddress, familyOf } from '../../cni/model/address.ts'
import type { AttachmentSpec } from '../model/attachment.ts'
import type { Op } from '../model/op.ts'
import { featureOps } from './features.ts'
import type { ModeRoom } from './mode.ts'
import { bridgeKeys, interfaceKeys } from './unread-keys.ts'

/** The pod's side: link settings, then routes and rules. */
function podOps(spec: AttachmentSpec): readonly Op[] {
  const { tuning, chained: on } = spec
  if (on === undefined) return []
  return [
    ...featureOps('podLinkOps', spec),
    ...(tuning?.mac === undefined ? [] : announcements(spec, on.dev)),
    ...featureOps('podRouteOps', spec),
  ]
}

/** Neighbours know the address by the old MAC. IPv6 neighbours learn from the pod's first packet. */
function announcements({ ips }: AttachmentSpec, dev: string): readonly Op[] {
  const ipv4 = ips.filter(({ address }) => familyOf(address) === 4)
  return ipv4.map(({ address }) => {
    const bare = bareAddress(address)
    return { in: 'pod', kind: 'neigh.announce', dev, address: bare, why: `announce ${bare}` }
  })
}

export const chained: ModeRoom = {
  order: 'chained',
  unreadKeys: [...bridgeKeys, ...interfaceKeys],
  isRouted: false,
  hostOps: () => [],
  nameOps: () => [],
  leasedHostOps: () => [],
  podOps,
  podTeardownOps: () => [],
}
