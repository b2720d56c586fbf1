// SPDX-License-Identifier: Apache-2.0
// What a network has of ranges that are over goes, once no attachment has an address of them.

import { bridgeMac } from '../../plan/model/names.ts'
import { formerBridges, isOfRanges } from '../../plan/recovery/former-bridges.ts'
import { networkFiles } from '../../system/files/state.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import { observeHost } from '../../system/kernel/observe.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { withLock } from '../../system/store/lock.ts'
import { allNetworks, allRecords, readNetwork } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { machineLock } from '../call/locks.ts'
import { removeEmpty, removeLinks } from './remove-network.ts'

/** `over`: ranges that are over; `today`: those that are not. `hasBridge`: whether the network is to have one. */
export interface Former {
  readonly network: string
  readonly over: readonly string[]
  readonly today: readonly string[]
  readonly hasBridge: boolean
}

/**
 * Removes our bridges with these ranges alone that nothing is plugged into, but the network's own: of a range that is
 * not over, two bridges would be the way to it. With its own one goes the network, where nothing is attached to it and
 * its ranges are over, or it is to have none: its next ADD sets it up as it is today. Returns what was removed. Throws
 * CniError when it cannot look, or is refused the lock.
 */
export async function removeFormer(context: CallContext, former: Former): Promise<readonly string[]> {
  const { network, over, today, hasBridge } = former
  const files = networkFiles(network)
  const now = readNetwork(files)
  const bridge = now?.bridge?.name
  const isOver = now !== undefined && (isOfRanges(now, over) || (bridge !== undefined) !== hasBridge)
  if (isOver) await removeEmpty(context, files)
  const lock = { ...machineLock(context, 'remove bridges of earlier ranges'), deadline: context.work }
  const removed = await withLock(lock, async () => {
    const found = formerBridges({
      host: await observeHost(context.run),
      ranges: [...over, ...today],
      inUse: bridgesInUse(),
      ownMac: (name) => bridgeMac(name, machineId()),
    })
    if (found.length > 0) await removeLinks(context, found, [])
    return found
  })
  const own = isOver && bridge !== undefined && !linkExists(bridge) ? [bridge] : []
  return [...new Set([...own, ...removed])]
}

function bridgesInUse(): ReadonlySet<string> {
  const ofRecords = allRecords().flatMap(({ record }) => record.network?.bridge?.name ?? [])
  return new Set([...allNetworks().flatMap(({ bridge }) => bridge?.name ?? []), ...ofRecords])
}
