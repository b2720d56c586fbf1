// SPDX-License-Identifier: Apache-2.0
// mode `chained`: the operations on what another plugin made. The spec is in chained.ts, the rules are with
// everybody's.

import { bareAddress, familyOf } from '../../cni/model/address.ts'
import { ifbOps, unqueueOps } from '../link/bandwidth.ts'
import { moveOps, sbrOps, sbrTeardownOps } from '../link/sbr.ts'
import { tunedLinkOps, untunedLinkOps } from '../link/tuning.ts'
import type { AttachmentSpec } from '../model/attachment.ts'
import type { Op } from '../model/op.ts'
import type { ModeRoom } from './mode.ts'
import { bridgeKeys, interfaceKeys } from './unread-keys.ts'

/** The host's side: the ifb for traffic out of the pod, and the bridge port. */
function hostOps({ bandwidth, chained: on }: AttachmentSpec): readonly Op[] {
  return [
    ...(bandwidth ? ifbOps(bandwidth) : []),
    ...(on?.hostLink !== undefined && on.isolated ? [isolation(on.hostLink, true)] : []),
  ]
}

/** The pod's side: link settings, then routes and rules. */
function podOps(spec: AttachmentSpec): readonly Op[] {
  const { tuning, sbr, chained: on } = spec
  if (on === undefined) return []
  return [
    ...(tuning ? tunedLinkOps(tuning, on.dev) : []),
    ...(tuning?.mac === undefined ? [] : announcements(spec, on.dev)),
    ...(sbr ? [...sbrOps(sbr, on.dev), ...moveOps(sbr, on.dev)] : []),
  ]
}

/** What is on the host end of the interface, which stays. */
function hostTeardownOps({ bandwidth, chained: on }: AttachmentSpec): readonly Op[] {
  return [
    ...(bandwidth ? unqueueOps(bandwidth) : []),
    ...(on?.hostLink !== undefined && on.isolated ? [isolation(on.hostLink, false)] : []),
  ]
}

function podTeardownOps({ tuning, sbr, chained: on }: AttachmentSpec): readonly Op[] {
  if (on === undefined) return []
  return [...(sbr ? sbrTeardownOps(sbr, on.dev, false) : []), ...(tuning ? untunedLinkOps(tuning, on.dev) : [])]
}

function isolation(dev: string, isolated: boolean): Op {
  return { in: 'host', kind: 'port.isolation', dev, isolated, why: `set the isolation of ${dev}` }
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
  hostOps,
  nameOps: () => [],
  leasedHostOps: () => [],
  podOps,
  hostTeardownOps,
  podTeardownOps,
}
