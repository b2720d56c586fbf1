// SPDX-License-Identifier: Apache-2.0
// What is around an interface that another plugin made.

import { bareAddress, familyOf } from '../../cni/model/address.ts'
import type { ChainedNetConf } from '../../cni/model/net-conf.ts'
import { addressesOf, type ChainedSurroundings, hostLinksOf } from '../../plan/modes/chained.ts'
import { observeHostLinks, observePod } from '../../system/kernel/observe.ts'
import type { Run } from '../../system/process/runner.ts'

/** Pod and host side by side: a process each, and one more for IPv6 rules where sbr is set. `dev`: the interface. */
export async function lookAround(
  { run, netnsFd }: { readonly run: Run; readonly netnsFd: number },
  conf: ChainedNetConf,
  dev: string,
): Promise<ChainedSurroundings> {
  const prevResult = conf.prevResult ?? { interfaces: [], ips: [], routes: [] }
  const ips = addressesOf(prevResult, dev)
  const isV6 = ips.some(({ address }) => familyOf(address) === 6)
  const families = conf.sbr === undefined ? [] : isV6 ? ([4, 6] as const) : ([4] as const)
  const addresses = conf.portMappings.length === 0 ? [] : ips.map(({ address }) => bareAddress(address))
  const [pod, { host, hostLinks }] = await Promise.all([
    observePod(run, netnsFd, families),
    observeHostLinks(run, { names: hostLinksOf(prevResult), addresses }),
  ])
  return { pod, host, hostLinks }
}
