// SPDX-License-Identifier: Apache-2.0
// Every element of our tables that networks, pods and the cluster need together.

import { type Cluster, clusterElements, networkElements } from '../features/network-elements.ts'
import { elementKey } from '../kernel/elements.ts'
import type { Element } from '../kernel/nft-table.ts'
import { ownElements, sharedElements } from './attachment.ts'
import type { NetworkSpec, Spec } from './spec.ts'

/** Each element once. Without pods and networks there are none: nobody needs the cluster's. */
export function everyElement(
  networks: readonly NetworkSpec[],
  specs: readonly Spec[],
  cluster: Cluster | undefined,
): readonly Element[] {
  const own = [
    ...networkElements(networks),
    ...specs.flatMap((spec) => [...sharedElements(spec), ...ownElements(spec)]),
  ]
  const all = own.length === 0 || cluster === undefined ? own : [...clusterElements(cluster), ...own]
  return [...new Map(all.map((element) => [elementKey(element), element])).values()]
}
