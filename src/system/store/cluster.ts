// SPDX-License-Identifier: Apache-2.0
// What `trestle agent` has written down of the cluster, for whoever sets rules up: also while no agent runs.

import { type Cluster, decodeCluster } from '../../features/cluster.ts'
import { encodeFile } from '../../model/kinds.ts'
import { readText, replaceText } from '../files/files.ts'
import { setAside, stateRoot } from '../files/state.ts'

/** What was read last: an agent reads the same again and again. */
let last: { readonly text: string; readonly cluster: Cluster | undefined } | undefined

/** The cluster as it was written last; undefined where there is none, or what is there cannot be read. */
export function readCluster(): Cluster | undefined {
  const found = readText(clusterFile())
  if (found === undefined) return undefined
  if (found !== 'unreadable' && found.text !== last?.text)
    last = { text: found.text, cluster: decodeCluster(found.text) }
  const cluster = found === 'unreadable' ? undefined : last?.cluster
  if (cluster === undefined) setAside(clusterFile())
  return cluster
}

/** Writes it. To be called under the machine's lock: a setup beside it fills the sets from here. */
export function writeCluster(cluster: Cluster): void {
  replaceText(clusterFile(), encodeFile(cluster))
}

function clusterFile(): string {
  return `${stateRoot()}/cluster.json`
}
