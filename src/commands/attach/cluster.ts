// SPDX-License-Identifier: Apache-2.0
// Brings what the agent knows of the cluster into state and rules, under the machine's lock: a setup beside it fills
// the sets from state.

import { isDeepStrictEqual } from 'node:util'
import { type Cluster, changedElements } from '../../features/cluster.ts'
import { elementOps } from '../../model/op.ts'
import { execute } from '../../system/kernel/execute.ts'
import { readCluster, writeCluster } from '../../system/store/cluster.ts'
import { withLock } from '../../system/store/lock.ts'
import { allNetworks } from '../../system/store/records.ts'
import { CommandError } from '../../tools/command-error.ts'
import type { CallContext } from '../call/context.ts'
import { machineLock } from '../call/locks.ts'
import { repairRules } from './shared-port.ts'

const emptyCluster: Cluster = { pods: [], peers: [], addresses: [] }

/**
 * Writes the cluster down and changes the sets by what is different from before. Returns whether anything was. Without
 * a network there is no table yet: its first ADD fills the sets. Throws CniError as `restore` does.
 */
export async function setCluster(context: CallContext, cluster: Cluster): Promise<boolean> {
  const done = await withLock(machineLock(context, 'write down the cluster'), async () => {
    const before = readCluster()
    if (isDeepStrictEqual(before, cluster)) return 'same' as const
    writeCluster(cluster)
    if (allNetworks().length === 0) return 'written' as const
    const { over, begun } = changedElements(before ?? emptyCluster, cluster)
    try {
      await execute({ run: context.run }, [...elementOps(over, 'nft.del'), ...elementOps(begun)])
      return 'written' as const
    } catch (error) {
      if (error instanceof CommandError) return 'misfit' as const
      throw error
    }
  })
  // The table was flushed, is another version's, or somebody else has changed the sets: all of it is filled anew.
  if (done === 'misfit') await repairRules(context)
  return done !== 'same'
}
