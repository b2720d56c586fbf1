// SPDX-License-Identifier: Apache-2.0
// Looks at what the host and other pods have of a network's ranges: when it is set up, before an address is given out.
// One process, one more for an error; an ADD of a network that is set up with these ranges looks at nothing.

import { bareAddress, formatAddress, parseAddress } from '../../cni/model/address.ts'
import { CniError } from '../../cni/model/error.ts'
import type { FeatureConf } from '../../cni/model/net-conf.ts'
import { describeOverlap, linksToKeep, overlapError } from '../../plan/ipam/overlap-error.ts'
import {
  emptyInTheWay,
  excludedAddresses,
  type GatewaySide,
  judgeRanges,
  type PlacedPod,
  wasSetUp,
} from '../../plan/ipam/range-overlap.ts'
import type { AttachmentKey, NetworkSpec } from '../../plan/model/attachment.ts'
import { bridgeMac } from '../../plan/model/names.ts'
import type { Ranges } from '../../plan/order/facts.ts'
import { networkFiles } from '../../system/files/state.ts'
import { observeHost } from '../../system/kernel/observe.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { allNetworks } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { placedPods } from '../call/in-use.ts'
import { removeEmpty } from '../teardown/remove-network.ts'

/**
 * What the network's ranges meet on the host. `key`: the call's attachment; `known`: the network as it was set up.
 * Throws CniError 110 for an overlap; of one that live pods of the network have already stderr tells.
 */
export async function requireApart(
  context: CallContext,
  conf: Pick<FeatureConf, 'allowOverlap' | 'ipam'>,
  about: { readonly key: AttachmentKey; readonly network: GatewaySide; readonly known: NetworkSpec | undefined },
): Promise<Ranges> {
  const { key, network, known } = about
  if (wasSetUp(network, known)) {
    requireNoGateway(conf.ipam, known?.excluded ?? [], () => placedPods(context, allNetworks()))
    return { excluded: known?.excluded ?? [], abandoned: [] }
  }
  const host = await observeHost(context.run)
  const question = await askedOf(context, network)
  const gateways = conf.ipam.kind === 'pool' ? conf.ipam.rangeSets.flat().map(({ gateway }) => gateway) : []
  const excluded = excludedAddresses(question, host, gateways)
  requireNoGateway(conf.ipam, excluded, () => question.pods)
  if (conf.allowOverlap) return { excluded, abandoned: [] }
  const ownMac = (bridge: string) => bridgeMac(bridge, machineId())
  const { tolerated, refused, abandoned } = judgeRanges(question, key, { host, known, ownMac })
  if (refused !== undefined) {
    const { routes } = await observeHost(context.run, [], ['0.0.0.0/0', '::/0'])
    throw overlapError(network.name, { overlaps: refused, kept: linksToKeep({ links: host.links, routes }) })
  }
  for (const each of tolerated) process.stderr.write(`trestle: ${describeOverlap(each)}: pods may be unreachable\n`)
  return { excluded, abandoned }
}

/** Throws CniError 102 for a requested address that live pods of an earlier range have as their gateway. */
function requireNoGateway(
  ipam: FeatureConf['ipam'],
  excluded: readonly string[],
  pods: () => readonly PlacedPod[],
): void {
  const requested = ipam.kind === 'pool' ? ipam.requested.map(canonical) : []
  for (const address of requested.filter((each) => excluded.includes(each))) {
    // What was excluded at the set-up may be free by now.
    const pod = pods().find(({ ips }) => ips.some(({ gateway }) => gateway === address))
    if (pod === undefined) continue
    const { containerId, network } = pod.key
    const message = `requested ip ${address} is the gateway of container ${containerId} of network ${network}`
    throw new CniError('requested-gateway', message, { details: 'Ask for another address, or for none.' })
  }
}

/** The address without its prefix length, as records have it; text that is no address stays. */
function canonical(text: string): string {
  const address = parseAddress(bareAddress(text))
  return address === undefined ? text : formatAddress(address)
}

/** A routed network without a pod in the way is taken back: its next ADD sets it up again, if it can. */
async function askedOf(context: CallContext, network: GatewaySide) {
  const networks = allNetworks()
  const pods = placedPods(context, networks)
  const others = networks.filter(({ name }) => name !== network.name)
  const empty = emptyInTheWay({ network, others, pods })
  for (const name of empty) await removeEmpty(context, networkFiles(name))
  return {
    network,
    pods,
    others: empty.length > 0 ? allNetworks().filter(({ name }) => name !== network.name) : others,
  }
}
