// SPDX-License-Identifier: Apache-2.0
// Says rules where something of an earlier attachment or release may stand in their way.

import { CommandError } from '../../compile/command-error.ts'
import { elementOps } from '../../plan/model/elements.ts'
import type { Op } from '../../plan/model/op.ts'
import type { TableFamily } from '../../plan/model/sets.ts'
import { elementsInTheWay } from '../../plan/rules/orphan-elements.ts'
import { tableRemoval } from '../../plan/rules/ruleset.ts'
import { execute, type Place } from './execute.ts'
import { observeTable } from './observe.ts'

/**
 * Runs operations with rules among them. Elements in the way, left from a lost record, are removed and the rules said
 * once more; a table that they do not fit into is replaced. Throws as `execute`.
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
