// SPDX-License-Identifier: Apache-2.0
// What `trestle agent` has written down of the cluster, for whoever sets rules up: also while no agent runs.

import { type Cluster, decodeCluster } from '../../features/cluster.ts'
import { encodeFile } from '../../model/kinds.ts'
import { replaceText } from '../files/files.ts'
import { readState, stateRoot } from '../files/state.ts'

/** What was read last: an agent reads the same again and again. */
let last: { readonly text: string; readonly cluster: Cluster | undefined } | undefined

/** The cluster as it was written last; undefined where there is none, or what is there cannot be read. */
export function readCluster(): Cluster | undefined {
  return readState(clusterFile(), (text) => {
    if (text !== last?.text) last = { text, cluster: decodeCluster(text) }
    return last.cluster
  })
}

/** Writes it. To be called under the machine's lock: a setup beside it fills the sets from here. */
export function writeCluster(cluster: Cluster): void {
  replaceText(clusterFile(), encodeFile(cluster))
}

function clusterFile(): string {
  return `${stateRoot()}/cluster.json`
}
