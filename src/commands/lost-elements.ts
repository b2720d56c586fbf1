// SPDX-License-Identifier: Apache-2.0
// Elements of our table that no record speaks of any more: of an attachment whose record was lost, and
// those that stand in the way of a pod that has the port now. Rare, so the table is looked at.

import { CommandError } from '../compile/command-error.ts'
import type { AttachmentKey } from '../plan/attachment.ts'
import { elementOps } from '../plan/elements.ts'
import { hostLinkName } from '../plan/names.ts'
import type { ObservedTable } from '../plan/observed.ts'
import type { Op } from '../plan/op.ts'
import { elementsInTheWay, remainingElements } from '../plan/stale-elements.ts'
import { addressesOf } from '../system/addresses.ts'
import { execute, executeAll, type Place } from '../system/execute.ts'
import { observeTable } from '../system/observe.ts'
import { portsOf } from '../system/ports.ts'
import type { NetworkFiles } from '../system/state.ts'
import type { CallContext } from './context.ts'

/**
 * Removes the elements of an attachment that has no record, found by its reservations and the name of its link. False
 * when something may be left, which is told on stderr: then the reservations must stay, for a later DEL to try again.
 */
export async function removeLostElements(
  context: CallContext,
  files: NetworkFiles,
  key: AttachmentKey,
): Promise<boolean> {
  const remains = {
    portNames: portsOf(key),
    addresses: addressesOf(files, key),
    link: key.role === 'ipam' ? '' : hostLinkName(key),
  }
  // Delegated to, nothing of it but addresses was ever made.
  if (key.role === 'ipam') return true
  try {
    const ops = elementOps(remainingElements(await bothTables(context), remains), 'nft.del')
    const [failure] = await executeAll({ run: context.cleanup }, ops)
    if (failure === undefined) return true
    throw failure
  } catch (error) {
    process.stderr.write(`trestle: DEL: owed: ${(error as Error).message}\n`)
    return false
  }
}

async function bothTables({ cleanup }: CallContext): Promise<ObservedTable> {
  const tables = await Promise.all([observeTable(cleanup, 'inet'), observeTable(cleanup, 'bridge')])
  const elements = tables.flatMap((table) => (table === 'absent' ? [] : [...table.elements]))
  return { rules: new Map(), elements: new Map(elements) }
}

/** Runs a plan with rules in it. Elements in the way, left from a lost record, are removed and the rules said once more. */
export async function executeWithRules(place: Place, ops: readonly Op[]): Promise<void> {
  try {
    await execute(place, ops)
  } catch (error) {
    // The lanes are independent: a failure of the rules is only told when the links are as wanted.
    const isInTheWay = error instanceof CommandError && error.op?.kind === 'nft.add' && error.reason === 'exists'
    const table = isInTheWay ? await observeTable(place.run, 'inet') : 'absent'
    const stale = table === 'absent' ? [] : elementsInTheWay(table, ops)
    if (stale.length === 0) throw error
    await execute(place, elementOps(stale, 'nft.del'))
    await execute(
      place,
      ops.filter((op) => op.kind.startsWith('nft.')),
    )
  }
}
