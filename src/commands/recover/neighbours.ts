// SPDX-License-Identifier: Apache-2.0
// A network that was given another name while its pods live: the new one has a pool of its own, and would give out
// what those have, on the same bridge.

import { bareAddress } from '../../cni/model/address.ts'
import type { NetConf } from '../../cni/model/net-conf.ts'
import { rangeOf } from '../../plan/ipam/allocate.ts'
import { bridgeOf } from '../../plan/modes/modes.ts'
import { reservationsOf } from '../../plan/recovery/orphan-reservations.ts'
import { encodeRecord } from '../../plan/state/stored-record.ts'
import { createText } from '../../system/files/files.ts'
import { hostStateOf } from '../../system/kernel/host-namespace.ts'
import { netnsState } from '../../system/kernel/netns.ts'
import { allRecords } from '../../system/store/records.ts'
import { reservationFile } from '../../system/store/reservations.ts'
import type { CallContext } from '../call/context.ts'
import { withoutSpec } from '../call/record-without-spec.ts'

/**
 * Reserves the addresses of the configuration's ranges that live pods of other networks have on the same bridge: an
 * intent record without a record, under the name that their DEL is sent with from now on. That releases it, or the end
 * of the pod does.
 */
export function reserveNeighbours(context: CallContext, conf: NetConf): void {
  const { ipam, name } = conf
  const bridge = bridgeOf(conf)
  if (ipam.kind !== 'pool' || bridge === undefined) return
  const isOurs = ({ address }: { address: string }) =>
    ipam.rangeSets.some((set) => rangeOf(set, bareAddress(address)) !== undefined)
  for (const { record } of allRecords()) {
    const { key, spec, netns } = record
    const isNeighbour = key.network !== name && key.role === 'main' && spec?.port?.bridge === bridge
    const ips = isNeighbour ? spec.ips.filter(isOurs) : []
    if (ips.length === 0 || hostStateOf(record.writer, context.identity) !== 'here' || netnsState(netns) !== 'live')
      continue
    const intent = withoutSpec(context, { ...key, network: name }, netns)
    for (const each of reservationsOf({ key: intent.key, ips, ports: [] })) {
      createText(reservationFile(each), encodeRecord(intent))
    }
  }
}
