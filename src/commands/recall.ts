// SPDX-License-Identifier: Apache-2.0
// The first ADD of a network may be the first after somebody removed the state directory under live pods. What
// libcni remembers of those, and what their links on the host tell (recall-links.ts), is reserved before anything is
// given out: no live pod loses its address or host port.

import { existsSync } from 'node:fs'
import type { NetConf } from '../cni/net-conf.ts'
import { hostPortsOf } from '../plan/host-ports.ts'
import { type CachedAttachment, cachedTypes, podIpsOf } from '../plan/libcni-cache.ts'
import { hostLinkName } from '../plan/names.ts'
import type { AttachmentRecord } from '../plan/record.ts'
import { mappingsOf } from '../plan/remembered-ports.ts'
import { reservationsOf } from '../plan/strays.ts'
import { createText } from '../system/files.ts'
import { linkExists } from '../system/kernel-files.ts'
import { cachedAttachments } from '../system/libcni-cache.ts'
import { netnsState, stampOf } from '../system/netns.ts'
import { findRecords } from '../system/records.ts'
import { reservationFile } from '../system/reservations.ts'
import type { NetworkFiles } from '../system/state.ts'
import type { CallContext } from './context.ts'
import { recallLinked } from './recall-links.ts'
import { reserveNeighbours } from './recall-neighbours.ts'

/**
 * Reserves what live pods of the network have, where nothing is known of the network: a claim without a record, as a
 * lost record leaves it. Their DEL releases it, and their end does. Once per network and boot.
 */
export async function recallPods(context: CallContext, files: NetworkFiles, conf: NetConf): Promise<void> {
  if (existsSync(files.network)) return
  const network = conf.name
  // Of other plugins it is theirs to tell (reference-leases.ts, `trestle adopt`).
  const own = cachedAttachments(network).filter((cached) => cachedTypes(cached)[0] === 'trestle')
  for (const cached of own) {
    const netns = stampOf(cached.netns)
    const { containerId, ifName } = cached
    const key = { network, containerId, ifName, role: 'main' } as const
    // Without its link it has no network any more: libcni forgets a pod only after its DEL, which may have been just now.
    if (netnsState(netns) !== 'live' || !linkExists(hostLinkName(key)) || findRecords(files, key).length > 0) continue
    const createdAt = new Date().toISOString()
    const claim = { format: 1, key, writer: context.stamp, netns, createdAt, configDigest: '' } as const
    reserve(claim, cached)
  }
  await recallLinked(context)
  reserveNeighbours(context, conf)
}

function reserve(claim: AttachmentRecord, cached: CachedAttachment): void {
  const ips = podIpsOf(cached).map(({ address }) => ({ address }))
  const ports = mappingsOf(cached.capabilityArgs).flatMap((mapping) => hostPortsOf(mapping, ips))
  for (const reservation of reservationsOf({ key: claim.key, ips, ports })) {
    createText(reservationFile(reservation), JSON.stringify(claim))
  }
}
