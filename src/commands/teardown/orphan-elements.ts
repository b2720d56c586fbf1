// SPDX-License-Identifier: Apache-2.0
// Elements of our table that no record speaks of any more: of an attachment whose record was lost, and
// those that stand in the way of a pod that has the port now. Rare, so the table is looked at.

import { bareAddress } from '../../cni/model/address.ts'
import { CommandError } from '../../compile/command-error.ts'
import type { AttachmentKey } from '../../plan/model/attachment.ts'
import { type Element, elementOps } from '../../plan/model/elements.ts'
import { hostLinkName } from '../../plan/model/names.ts'
import type { ObservedTable } from '../../plan/model/observed.ts'
import type { Op } from '../../plan/model/op.ts'
import { sameKey } from '../../plan/model/record.ts'
import type { TableFamily } from '../../plan/model/sets.ts'
import { elementsInTheWay, orphanElements } from '../../plan/rules/orphan-elements.ts'
import { tableRemoval } from '../../plan/rules/ruleset.ts'
import { directoryNameOf, type NetworkFiles } from '../../system/files/state.ts'
import { execute, type Place } from '../../system/kernel/execute.ts'
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

/**
 * Runs a plan with rules in it. Elements in the way, left from a lost record, are removed and the rules said once more;
 * a table that they do not fit into is replaced.
 */
export async function executeWithRules(place: Place, ops: readonly Op[]): Promise<void> {
  try {
    await execute(place, ops)
  } catch (error) {
    const isMisfit = error instanceof CommandError && error.op?.kind === 'nft.base'
    if (isMisfit && (await replaceTable(place, ops, error.op.table))) return
    // The lanes are independent: a failure of the rules is only told when the links are as wanted.
    const isInTheWay = error instanceof CommandError && error.op?.kind === 'nft.add' && error.reason === 'exists'
    const table = isInTheWay ? await observeTable(place.run, 'inet') : 'absent'
    const obstacles = table === 'absent' ? [] : elementsInTheWay(table, ops)
    if (obstacles.length === 0) throw error
    await execute(place, elementOps(obstacles, 'nft.del'))
    await execute(
      place,
      ops.filter((op) => op.kind.startsWith('nft.')),
    )
  }
}

/**
 * A table that is dormant, or has a set of another type under a name of ours. In one transaction: where it does not
 * help, nothing has changed. The plan has the elements of all attachments.
 */
async function replaceTable(place: Place, ops: readonly Op[], table: TableFamily): Promise<boolean> {
  const rules = ops.filter((op) => op.kind.startsWith('nft.'))
  try {
    await execute(place, [tableRemoval(table), ...rules])
    return true
  } catch (error) {
    if (error instanceof CommandError) return false
    throw error
  }
}
