// SPDX-License-Identifier: Apache-2.0
// What orders look at and write of everything that attachments share. The machine's lock is held, but for the networks.

import { isDeepStrictEqual } from 'node:util'
import type { AttachmentSpec } from '../../plan/model/attachment.ts'
import { isPodLinkName } from '../../plan/model/names.ts'
import { emptyNamespace, type ObservedNamespace } from '../../plan/model/observed.ts'
import { forwardingKey } from '../../plan/modes/network.ts'
import { isInPlace } from '../../plan/order/decided.ts'
import type { Known, Learnt, NetworkFacts } from '../../plan/order/facts.ts'
import type { LookRun, OtherRun } from '../../plan/order/stage.ts'
import { acceptingAll } from '../../plan/recovery/earlier-networks.ts'
import { acceptedOf } from '../../plan/rules/host-accept.ts'
import { type NetworkFiles, networkParts } from '../../system/files/state.ts'
import { lookingOnce, settleHostAccept } from '../../system/firewalls/host-accept.ts'
import { settleMarkAccept } from '../../system/firewalls/mark-accept.ts'
import type { Place } from '../../system/kernel/execute.ts'
import { linkExists, linkNames, readKey } from '../../system/kernel/kernel-files.ts'
import { learnNftVersion } from '../../system/kernel/nft-version.ts'
import { observeHost, observeSysctls, observeVlans } from '../../system/kernel/observe.ts'
import { readCluster } from '../../system/store/cluster.ts'
import { allNetworks, knownNetwork, readNetwork, writeNetwork } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { earlierInUse, liveAndMade } from '../call/in-use.ts'
import { refuseOwnedPorts } from '../recover/port-owners.ts'
import { executeWithRules } from '../teardown/orphan-elements.ts'

/**
 * Looks and writes that are about everything shared; 'other' for what is the caller's own. `files`: of one network,
 * where it is about one.
 */
export async function networkDoor(
  context: CallContext,
  files: NetworkFiles | undefined,
  place: Place,
  run: OtherRun,
): Promise<Learnt | undefined | 'other'> {
  if (run.kind === 'rules') return await executeWithRules(place, run.ops).then(() => undefined)
  if (run.kind === 'look')
    switch (run.what) {
      case 'networks left':
        return { networksLeft: new Set(allNetworks().map(({ name }) => name)) }
      case 'host':
        return { shared: await lookAtNetworkState(context, required(files), run) }
      case 'rules':
        await refuseOwnedPorts(context, run.spec)
        return { shared: { ...networkState(context), isMade: false, before: undefined, host: undefined } }
      case 'vlans':
        return { vlans: await observeVlans(context.run) }
      case 'nft':
        return await learnNftVersion(context.run).then(() => undefined)
      default:
        return 'other'
    }
  if (run.kind !== 'state') return 'other'
  switch (run.what) {
    case 'accepts':
      await settleHostAccept(context, required(files), run.accepting)
      return await settleMarkAccept(context.run, run.all).then(() => undefined)
    case 'accepts of all':
      return await settleHostAccepts(context).then(() => undefined)
    case 'network':
      writeNetwork(required(files), run.network)
      return undefined
    default:
      return 'other'
  }
}

function required(files: NetworkFiles | undefined): NetworkFiles {
  if (files === undefined) throw new Error('this is about one network')
  return files
}

/** Puts the accepts of all networks again: what flushed our rules may have flushed them. */
export async function settleHostAccepts(context: CallContext): Promise<void> {
  const place = { run: context.run, look: lookingOnce(context.run) }
  const networks = allNetworks()
  const earlier = earlierInUse(context, networks)
  for (const files of networkParts()) {
    const network = knownNetwork(files)
    const accepting = network && acceptingAll(network, earlier)
    if (accepting !== undefined && acceptedOf(accepting).length > 0) await settleHostAccept(place, files, accepting)
  }
  await settleMarkAccept(context.run, [...networks, ...earlier])
}

/** State of the network and what files tell. `bridge`: its name, where it has one. */
export function lookAtKnown(files: NetworkFiles, bridge: string | undefined): Known {
  return {
    network: readNetwork(files),
    hasBridge: bridge !== undefined && linkExists(bridge),
    forwarding: ([4, 6] as const).filter((family) => readKey(forwardingKey(family)) === '1'),
  }
}

async function lookAtNetworkState(
  context: CallContext,
  files: NetworkFiles,
  { network, unlessMade, abandoned, spec }: Extract<LookRun, { what: 'host' }>,
): Promise<NetworkFacts> {
  const known = lookAtKnown(files, network.bridge?.name)
  const isMade = unlessMade && isDeepStrictEqual(known.network, network) && isInPlace(network, known)
  if (!isMade) await refuseOwnedPorts(context, spec)
  const state = networkState(context)
  return {
    ...state,
    isMade,
    before: knownNetwork(files),
    host: isMade ? undefined : await lookAtBridge(context, { network, abandoned }, state.attachments),
  }
}

function networkState(context: CallContext) {
  const networks = allNetworks()
  return {
    networks,
    ...liveAndMade(context, networks),
    cluster: readCluster(),
    links: new Set(linkNames()),
    sysctls: observeSysctls([forwardingKey(4), forwardingKey(6)]),
  }
}

/**
 * The host's links, or undefined where there is nothing to look at: no bridge, nothing that was on it, or may have
 * been, and no other one that is to make room.
 */
async function lookAtBridge(
  context: CallContext,
  { network: { bridge }, abandoned }: Pick<Extract<LookRun, { what: 'host' }>, 'network' | 'abandoned'>,
  attachments: readonly AttachmentSpec[],
): Promise<ObservedNamespace | undefined> {
  if (abandoned.length > 0) return await observeHost(context.run)
  if (bridge === undefined) return emptyNamespace
  const others = attachments.filter(({ port }) => port?.bridge !== bridge.name).map(({ host }) => host?.name)
  const mayBePort = (name: string) => isPodLinkName(name) && !others.includes(name)
  return linkExists(bridge.name) || linkNames().some(mayBePort) ? await observeHost(context.run) : undefined
}
