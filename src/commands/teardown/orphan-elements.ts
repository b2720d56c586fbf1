// SPDX-License-Identifier: Apache-2.0
// Elements of our table that no record speaks of any more: of an attachment whose record was lost, and
// those that stand in the way of a pod that has the port now. Rare, so the table is looked at.

import { bareAddress } from '../../cni/model/address.ts'
import type { AttachmentKey } from '../../plan/model/attachment.ts'
import type { Element } from '../../plan/model/elements.ts'
import { hostLinkName } from '../../plan/model/names.ts'
import type { ObservedTable } from '../../plan/model/observed.ts'
import { sameKey } from '../../plan/model/record.ts'
import { orphanElements } from '../../plan/rules/orphan-elements.ts'
import { directoryNameOf, type NetworkFiles } from '../../system/files/state.ts'
import { observeTable } from '../../system/kernel/observe.ts'
import { allRecords } from '../../system/store/records.ts'
import { reservedBy } from '../../system/store/reservations.ts'
import type { CallContext } from '../call/context.ts'

/**
 * The elements of an attachment that has no record, found by its reservations and the name of its link. Two processes.
 */
export async function elementsWithoutRecord(
  context: CallContext,
  files: NetworkFiles,
  key: AttachmentKey,
): Promise<readonly Element[]> {
  return orphanElements(await bothTables(context), {
    portNames: reservedBy(key),
    addresses: reservedBy(key, directoryNameOf(files)).filter((address) => !isRecorded(key, address)),
    link: hostLinkName(key),
  })
}

/**
 * Whether a record has the address, of another attachment or under another network's name: what leads to it is in use.
 */
function isRecorded(key: AttachmentKey, address: string): boolean {
  return allRecords().some(
    ({ record }) =>
      !sameKey(record.key, key) && record.spec?.ips.some((ip) => bareAddress(ip.address) === address) === true,
  )
}

/**
 * Whether `macspoofchk` still has the link of an attachment that may be gone. One process; what it cannot tell is
 * reported on stderr.
 */
export async function hasMacCheck({ cleanup }: CallContext, key: AttachmentKey): Promise<boolean> {
  try {
    const table = await observeTable(cleanup, 'bridge')
    const owner = { portNames: [], addresses: [], link: hostLinkName(key) }
    return table !== 'absent' && orphanElements(table, owner).length > 0
  } catch (error) {
    process.stderr.write(
      `trestle: DEL: cannot tell whether the MAC of ${key.ifName} is checked: ${(error as Error).message}\n`,
    )
    return false
  }
}

/** The elements of both of our tables; a table that is not there has none. */
export async function bothTables({ cleanup }: CallContext): Promise<ObservedTable> {
  const tables = await Promise.all([observeTable(cleanup, 'inet'), observeTable(cleanup, 'bridge')])
  const elements = tables.flatMap((table) => (table === 'absent' ? [] : [...table.elements]))
  return { rules: new Map(), elements: new Map(elements) }
}
