// SPDX-License-Identifier: Apache-2.0
// The effects of a set-up on this machine: looks at the shared parts of networks, and writes of their state.

import { acceptedOf } from '../../features/firewall.ts'
import { type AttachmentSpec, isSameNetwork, type NetworkSpec } from '../../model/attachment.ts'
import { isPodLinkName } from '../../model/names.ts'
import { emptyNamespace, type ObservedNamespace } from '../../model/observed.ts'
import { forwardingKey } from '../../model/op.ts'
import { acceptingAll } from '../../plan/order/earlier-networks.ts'
import { isInPlace, type Known, type NetworkFacts } from '../../plan/order/facts.ts'
import { type NetworkFiles, networkParts } from '../../system/files/state.ts'
import { lookingOnce, settleHostAccept } from '../../system/firewalls/host-accept.ts'
import { settleMarkAccept } from '../../system/firewalls/mark-accept.ts'
import { linkExists, linkNames, readKey } from '../../system/kernel/kernel-files.ts'
import { observeHost, observeSysctls, observeVlans } from '../../system/kernel/observe.ts'
import type { PlanPlace } from '../../system/kernel/run-plan.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { phase } from '../../system/process/trace.ts'
import { readCluster } from '../../system/store/cluster.ts'
import { openedLinks } from '../../system/store/localnet.ts'
import { withLock } from '../../system/store/lock.ts'
import { allNetworks, knownNetwork, readNetwork, writeNetwork } from '../../system/store/records.ts'
import { runnerIn } from '../call/beside.ts'
import type { CallContext } from '../call/context.ts'
import { earlierInUse, liveAndMade } from '../call/in-use.ts'
import { machineLock } from '../call/locks.ts'
import { healBeforeRules } from '../recover/recover.ts'
import { refuseOwnedPorts } from './intent.ts'
import type { HostLook, SharedPort } from './ports.ts'
import { rebuildRules, setUpAlone } from './set-up.ts'

/**
 * Makes the network's bridge, forwarding and rules be as wanted, without an attachment. Returns the network as it is:
 * an existing bridge keeps its MAC and MTU. Throws CniError 108 when the bridge has an address of another network, 110
 * when a network in the way of its ranges is there.
 */
export async function setUpNetwork(
  context: CallContext,
  { files, network }: { readonly files: NetworkFiles; readonly network: NetworkSpec },
): Promise<NetworkSpec> {
  const port = sharedPort(context, { run: context.run }, files)
  return await setUpAlone(port, network, machineId())
}

/** Builds all rules of all networks anew after a flush, or after an overlap of networks. */
export async function repairRules(context: CallContext): Promise<void> {
  await rebuildRules(rulesPort(context, { run: context.run }))
}

/** The effects of a set-up. `files`: of the network that is set up. */
export function sharedPort(context: CallContext, place: PlanPlace, files: NetworkFiles): SharedPort {
  return {
    ...rulesPort(context, place),
    lookAtHost: async (look) => await lookAtNetworkState(context, files, look),
    lookAtVlans: async () => await observeVlans(context.run),
    settleAccepts: async (accepting, all) => {
      await settleHostAccept(context, files, accepting)
      await settleMarkAccept(context.run, all)
    },
    writeNetwork: (network) => writeNetwork(files, network),
  }
}

function rulesPort(context: CallContext, place: PlanPlace) {
  return {
    run: runnerIn(context, place),
    locked: async <T>(because: string, body: () => Promise<T>) => {
      phase(because)
      return await withLock(machineLock(context, because), body)
    },
    lookAtRules: async (spec: AttachmentSpec | undefined): Promise<NetworkFacts> => {
      await healBeforeRules(context)
      await refuseOwnedPorts(context, spec)
      return { ...networkState(context), isMade: false, before: undefined, host: undefined }
    },
    settleAllAccepts: async () => await settleHostAccepts(context),
  }
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
  { network, unlessMade, abandoned, spec }: HostLook,
): Promise<NetworkFacts> {
  const known = lookAtKnown(files, network.bridge?.name)
  const isMade = unlessMade && isSameNetwork(known.network, network) && isInPlace(network, known)
  if (!isMade) {
    await healBeforeRules(context)
    await refuseOwnedPorts(context, spec)
  }
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
    opened: openedLinks(),
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
  { network: { bridge }, abandoned }: Pick<HostLook, 'network' | 'abandoned'>,
  attachments: readonly AttachmentSpec[],
): Promise<ObservedNamespace | undefined> {
  if (abandoned.length > 0) return await observeHost(context.run)
  if (bridge === undefined) return emptyNamespace
  const others = attachments.filter(({ port }) => port?.bridge !== bridge.name).map(({ host }) => host?.name)
  const mayBePort = (name: string) => isPodLinkName(name) && !others.includes(name)
  return linkExists(bridge.name) || linkNames().some(mayBePort) ? await observeHost(context.run) : undefined
}
