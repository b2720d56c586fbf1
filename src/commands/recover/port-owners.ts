// SPDX-License-Identifier: Apache-2.0
// A host port whose reservation was lost can be reserved again by another pod. Its rules stand in the way then, or are
// built with those of all others: whose it is shows before that.

import { existsSync } from 'node:fs'
import { bareAddress } from '../../cni/model/address.ts'
import type { AttachmentKey, AttachmentSpec, HostPort } from '../../plan/model/attachment.ts'
import { type AttachmentRecord, sameKey } from '../../plan/model/record.ts'
import { isPortConflict, reservationName } from '../../plan/rules/host-ports.ts'
import { portNamesTo } from '../../plan/rules/orphan-elements.ts'
import { chainedFiles, networkFiles } from '../../system/files/state.ts'
import { observeTable } from '../../system/kernel/observe.ts'
import { portTaken } from '../../system/store/ports.ts'
import { allRecords } from '../../system/store/records.ts'
import { reservationHolder } from '../../system/store/reservations.ts'
import type { CallContext } from '../call/context.ts'
import { isDead } from '../teardown/teardown.ts'
import { reserveFor } from './reserve.ts'

/**
 * Throws CniError 104 where a live attachment has a host port of `spec`, whose own reservations were made by now; the
 * port is reserved for its owner again. One process where there are chained attachments: of a lost record of one, the
 * rules tell.
 */
export async function refuseOwnedPorts(context: CallContext, spec: AttachmentSpec | undefined): Promise<void> {
  const ports = spec?.hostPorts?.ports ?? []
  if (spec === undefined || ports.length === 0) return
  const live = allRecords().filter(
    (stored) => !stored.isPending && !sameKey(stored.record.key, spec.key) && !isDead(stored, context),
  )
  const records = live.map(({ record }) => record)
  for (const record of records) {
    const portNames = (record.spec?.hostPorts?.ports ?? []).map(reservationName)
    await refuse(context, { ports, portNames, record, key: spec.key })
  }
  const main = records.filter(
    ({ key }) => key.role === 'main' && existsSync(chainedFiles(networkFiles(key.network)).network),
  )
  const table = main.length === 0 ? 'absent' : await observeTable(context.run, 'inet')
  if (table === 'absent') return
  for (const { spec: _, ...record } of main) {
    const portNames = portNamesTo(table, _?.ips.map(({ address }) => bareAddress(address)) ?? [])
    const chained = { ...record, key: { ...record.key, role: 'chained' } as const }
    await refuse(context, { ports, portNames, record: chained, key: spec.key })
  }
}

/** `own`: the names of the host ports that the record's attachment has; `key`: who asks for `ports`. */
async function refuse(
  context: CallContext,
  asked: { ports: readonly HostPort[]; portNames: readonly string[]; record: AttachmentRecord; key: AttachmentKey },
): Promise<void> {
  const { ports, portNames, record, key } = asked
  for (const port of ports) {
    const name = portNames.find((each) => isPortConflict(each, reservationName(port)))
    if (name === undefined) continue
    await reserveFor(context, { reservation: { name }, record }, () => {
      const holder = reservationHolder({ name })
      return holder === undefined || sameKey(holder.key, key)
    })
    throw portTaken(port, key)
  }
}
