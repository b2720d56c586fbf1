// SPDX-License-Identifier: Apache-2.0
// Looks at what other interfaces have of a network's ranges: when it is set up, before an address is given out. One
// process, one more for an error; an ADD of a network that is set up with these ranges looks at nothing.

import type { NetConf } from '../../cni/model/net-conf.ts'
import {
  addressesInRanges,
  describeOverlap,
  type GatewaySide,
  judgeOverlaps,
  linksToKeep,
  overlapError,
  wasSetUp,
} from '../../plan/ipam/range-overlap.ts'
import type { AttachmentKey, NetworkSpec } from '../../plan/model/attachment.ts'
import type { Ranges } from '../../plan/order/facts.ts'
import { observeHost } from '../../system/kernel/observe.ts'
import { allNetworks } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'

/**
 * What the network's ranges meet on the host. `key`: the call's attachment; `known`: the network as it was set up.
 * Throws CniError 110 for an overlap; a network with pods is only warned of on stderr.
 */
export async function requireApart(
  context: CallContext,
  conf: Pick<NetConf, 'allowOverlap'>,
  about: { readonly key: AttachmentKey; readonly network: GatewaySide; readonly known: NetworkSpec | undefined },
): Promise<Ranges> {
  const { key, network, known } = about
  if (wasSetUp(network, known)) return { excluded: known?.excluded ?? [], mayOverlap: true }
  const host = await observeHost(context.run)
  const others = allNetworks().filter(({ name }) => name !== network.name)
  const { found, isLive, refused } = judgeOverlaps({ network, host, others, key, allowOverlap: conf.allowOverlap })
  if (refused !== undefined) {
    const { routes } = await observeHost(context.run, [], ['0.0.0.0/0', '::/0'])
    throw overlapError(network.name, { overlaps: refused, kept: linksToKeep({ links: host.links, routes }) })
  }
  for (const each of found) process.stderr.write(`trestle: ${describeOverlap(each)}: pods may lose their way\n`)
  return { excluded: addressesInRanges({ network, host }), mayOverlap: conf.allowOverlap || isLive }
}
