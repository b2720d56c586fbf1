// SPDX-License-Identifier: Apache-2.0
// Who has an address in another network's pool. Each network has reservations of its own, and several may have a range
// in one place: a network that was renamed under its pods, two on one bridge, two of routed pods.

import type { NetConf } from '../../cni/model/net-conf.ts'
import { hasHostGateway } from '../../plan/ipam/range-overlap.ts'
import type { AttachmentRecord } from '../../plan/model/record.ts'
import { gatewaySide } from '../../plan/modes/build-spec.ts'
import { bridgeOf, masterOf, modeOf } from '../../plan/modes/modes.ts'
import { configDigestAs } from '../../plan/recovery/config-digest.ts'
import type { NamesIn } from '../../system/files/files.ts'
import { directoryNameOf, type NetworkFiles, networkDirectories, networkFiles } from '../../system/files/state.ts'
import { uplinkName } from '../../system/kernel/uplink.ts'
import { findRecords } from '../../system/store/records.ts'
import { isReserved, reservationHolder } from '../../system/store/reservations.ts'
import type { CallContext } from '../call/context.ts'
import { isDead } from '../teardown/teardown.ts'

/** Who asks. `names`: where networks have been looked at. */
interface Asking {
  readonly conf: NetConf
  readonly files: NetworkFiles
  readonly names: NamesIn
}

/**
 * Finds the live pod of another network that has an address, where a pod of this one would be in its way. One look at
 * the name of a file for each other network; a record is read where it is there.
 */
export function holderElsewhere(context: CallContext, { conf, files, names }: Asking) {
  const others = networkDirectories(undefined, names).map(directoryNameOf)
  const isOther = (network: string) => network !== directoryNameOf(files)
  return (address: string): AttachmentRecord | undefined => {
    const reservations = others.filter(isOther).map((network) => ({ network, name: address }))
    for (const reservation of reservations.filter(isReserved)) {
      const holder = reservationHolder(reservation)
      if (holder === undefined) continue
      const [found] = findRecords(networkFiles(reservation.network), holder.key)
      const stored = found ?? { file: '', isPending: false, record: holder }
      if (!isDead(stored, context) && mayMeet(conf, stored.record)) return stored.record
    }
    return undefined
  }
}

/** Whether a pod of the configuration and that of the record may meet: on the host's routes, a bridge or a master. */
function mayMeet(conf: NetConf, record: AttachmentRecord): boolean {
  const { key, spec, network } = record
  if (key.role !== conf.role) return false
  if (key.role === 'ipam') return configDigestAs(conf, key.network) === record.configDigest
  if (spec === undefined || network === undefined) return true
  const [bridge, keys] = [bridgeOf(conf), masterOf(conf)]
  if (bridge !== undefined && bridge === spec.port?.bridge) return true
  if (keys !== undefined) return spec.macvlan?.master === (keys.master ?? uplinkName())
  return hasHostGateway(gatewaySide(conf, [])) && (hasHostGateway(network) || modeOf(spec).isRouted)
}
