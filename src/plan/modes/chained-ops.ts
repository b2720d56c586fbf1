// SPDX-License-Identifier: Apache-2.0
// The operations of a chained attachment on what another plugin made. Its rules are in attach.ts, with everybody's.

import { bareAddress, familyOf } from '../../cni/model/address.ts'
import { ifbOps, unqueueOps } from '../link/bandwidth.ts'
import { moveOps, sbrOps } from '../link/sbr.ts'
import { tunedLinkOps } from '../link/tuning.ts'
import type { AttachmentSpec, ChainedSpec } from '../model/attachment.ts'
import type { Op } from '../model/op.ts'

/** The host's side: the ifb for traffic out of the pod, and the bridge port. */
export function chainedHostOps({ bandwidth }: AttachmentSpec, { hostLink, isolated }: ChainedSpec): readonly Op[] {
  return [
    ...(bandwidth ? ifbOps(bandwidth) : []),
    ...(hostLink !== undefined && isolated ? [isolation(hostLink, true)] : []),
  ]
}

/** The pod's side: link settings, then routes and rules. */
export function chainedPodOps(spec: AttachmentSpec, { dev }: ChainedSpec): readonly Op[] {
  const { tuning, sbr } = spec
  return [
    ...(tuning ? tunedLinkOps(tuning, dev) : []),
    ...(tuning?.mac === undefined ? [] : announcements(spec, dev)),
    ...(sbr ? [...sbrOps(sbr, dev), ...moveOps(sbr, dev)] : []),
  ]
}

/** What is on the host end of the interface, which stays. */
export function chainedHostTeardownOps(spec: AttachmentSpec, { hostLink, isolated }: ChainedSpec): readonly Op[] {
  return [
    ...(spec.bandwidth ? unqueueOps(spec.bandwidth) : []),
    ...(hostLink !== undefined && isolated ? [isolation(hostLink, false)] : []),
  ]
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
