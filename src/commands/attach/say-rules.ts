// SPDX-License-Identifier: Apache-2.0
// The rules on the way of an ADD, without a lock: what a call beside it does to the table under the machine's lock must
// not undo them, nor they that.

import { CommandError } from '../../compile/command-error.ts'
import { readBase } from '../../compile/read-nft.ts'
import type { AttachmentSpec, NetworkSpec } from '../../plan/model/attachment.ts'
import type { Op } from '../../plan/model/op.ts'
import { setSpec, type TableFamily } from '../../plan/model/sets.ts'
import { hasRefilledElements, steadyRuleOps, tablesOf } from '../../plan/modes/shared.ts'
import { acceptMark } from '../../plan/rules/accept-mark.ts'
import { isBaseComplete } from '../../plan/rules/ruleset.ts'
import { execute } from '../../system/kernel/execute.ts'
import { waitForHolder } from '../../system/store/lock.ts'
import { allNetworks } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { machineLock } from '../call/machine-lock.ts'
import { repairRules } from './shared-setup.ts'

/** Says the rules again; where the table is not as it should be, all of it is built anew. The attachment's record is written. */
export async function sayRules(context: CallContext, spec: AttachmentSpec): Promise<void> {
  const networks = allNetworks()
  const ops = steadyRuleOps({ networks, attachments: [spec] })
  if (ops.length === 0) return
  await waitForRefill(context, spec)
  try {
    // A process for each table: of two `list table` in one input, nft 1.0.6 looks at the last one's table only
    // (src/cache.c, the filter), and does not find the other.
    const parts = tablesOf(ops).map((table) => ops.filter((op) => isOfTable(op, table)))
    const said = await Promise.allSettled(parts.map((part) => execute({ run: context.run }, part)))
    for (const each of said) if (each.status === 'rejected') throw each.reason
    const printed = said.flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
    const listed = readBase(printed.map((each) => each.stdout).join(''))
    const isComplete = isBaseComplete(listed, tablesOf(ops), acceptMark(networks))
    if (isComplete && !hasGone(networks)) return
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
  }
  await repairRules(context, spec)
}

/**
 * Who empties sets and fills them reads the records under the machine's lock: perhaps ours was not there yet. Whoever takes
 * the lock later finds it.
 */
async function waitForRefill(context: CallContext, spec: AttachmentSpec): Promise<void> {
  if (!hasRefilledElements(spec)) return
  const purpose = `say the rules of ${spec.key.ifName} of container ${spec.key.containerId}`
  await waitForHolder({ ...machineLock(context, purpose), deadline: context.work })
}

/** Whether one that goes with its last attachment has gone since: its elements, said with ours, would stay (remove-network.ts). */
function hasGone(networks: readonly NetworkSpec[]): boolean {
  const removable = networks.filter(({ removeWhenEmpty }) => removeWhenEmpty)
  if (removable.length === 0) return false
  const left = new Set(allNetworks().map(({ name }) => name))
  return removable.some(({ name }) => !left.has(name))
}

function isOfTable(op: Op, table: TableFamily): boolean {
  if (op.kind === 'nft.base.show') return op.table === table
  return (op.kind === 'nft.add' ? setSpec(op.set).table : 'inet') === table
}
