// SPDX-License-Identifier: Apache-2.0
// Brings what the agent knows of the cluster into state and rules, under the machine's lock: a setup beside it fills
// the sets from state.

import { isDeepStrictEqual } from 'node:util'
import { type Cluster, changedElements } from '../../features/cluster.ts'
import { elementOps } from '../../model/op.ts'
import { isTaken } from '../../system/kernel/execute.ts'
import { readCluster, writeCluster } from '../../system/store/cluster.ts'
import { withLock } from '../../system/store/lock.ts'
import { allNetworks } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { machineLock } from '../call/locks.ts'
import { repairRules } from './shared-port.ts'

const emptyCluster: Cluster = { pods: [], peers: [], addresses: [] }

/**
 * Changes the sets by what is different from before, and writes the cluster down last: after an agent that was killed
 * in between, the next one finds another cluster in the file and changes the sets again. Without a network there is no
 * table yet: its first ADD fills the sets. Throws CniError as `restore` does.
 */
export async function setCluster(context: CallContext, cluster: Cluster): Promise<void> {
  const isFitting = await withLock(machineLock(context, 'write down the cluster'), async () => {
    const before = readCluster()
    if (isDeepStrictEqual(before, cluster)) return true
    const hasFit = allNetworks().length === 0 || (await haveChanged(context, before ?? emptyCluster, cluster))
    writeCluster(cluster)
    return hasFit
  })
  // The table was flushed, is another version's, or somebody else has changed the sets: all of it is filled anew.
  if (!isFitting) await repairRules(context)
}

/** Changes the sets. Returns false where the table is not as the cluster before. */
async function haveChanged({ run }: CallContext, before: Cluster, now: Cluster): Promise<boolean> {
  const { over, begun } = changedElements(before, now)
  return await isTaken({ run }, [...elementOps(over, 'nft.del'), ...elementOps(begun)])
}
