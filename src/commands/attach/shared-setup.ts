// SPDX-License-Identifier: Apache-2.0
// Sets up and repairs what attachments share: bridge, forwarding, rules. One call at a time does it,
// under the machine's lock, from state and from what the kernel has: everything of every live
// attachment, not only the caller's part (docs/design.md, "ADD").

import { isDeepStrictEqual } from 'node:util'
import { CommandError } from '../../compile/command-error.ts'
import { difference } from '../../plan/difference/difference.ts'
import { agreeOnAddresses } from '../../plan/link/bridge-addresses.ts'
import type { AttachmentSpec, NetworkSpec } from '../../plan/model/attachment.ts'
import { bridgeMac } from '../../plan/model/names.ts'
import { emptyNamespace, type ObservedNamespace } from '../../plan/model/observed.ts'
import type { Op } from '../../plan/model/op.ts'
import { bridgeSysctlOps, forwardingKey } from '../../plan/modes/network.ts'
import { mergeNetworks } from '../../plan/modes/resolve.ts'
import { bridgeOps, refilledRuleOps, ruleOps, sharesRules } from '../../plan/modes/shared.ts'
import { acceptingAll } from '../../plan/recovery/earlier-networks.ts'
import { acceptedOf } from '../../plan/rules/host-accept.ts'
import { type NetworkFiles, networkParts } from '../../system/files/state.ts'
import { lookingOnce, settleHostAccept } from '../../system/firewalls/host-accept.ts'
import { settleMarkAccept } from '../../system/firewalls/mark-accept.ts'
import { linkExists, readKey } from '../../system/kernel/kernel-files.ts'
import { learnNftVersion } from '../../system/kernel/nft-version.ts'
import { observeHost, observeSysctls, observeVlans } from '../../system/kernel/observe.ts'
import { machineId } from '../../system/process/stamp.ts'
import { readCluster } from '../../system/store/cluster.ts'
import { withLock } from '../../system/store/lock.ts'
import { allNetworks, knownNetwork, readNetwork, writeNetwork } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { earlierInUse, liveSpecs } from '../call/in-use.ts'
import { machineLock } from '../call/machine-lock.ts'
import { refuseOwnedPorts } from '../recover/port-owners.ts'
import { executeWithRules } from '../teardown/orphan-elements.ts'
import { requireStillApart } from './range-overlap.ts'

/** How often everything is looked at: of pods that go, a few at once are many. */
const mostLooks = 5

/** What to set up. `own`: operations of the caller's attachment for the same process; `netnsFd` for those. */
export interface SharedSetup {
  readonly files: NetworkFiles
  readonly network: NetworkSpec
  /** Whether the configuration names the subnets; else they are learnt, and kept. */
  readonly namesSubnets: boolean
  readonly own: readonly Op[]
  readonly netnsFd: number
  /** Nothing is done when another call has set up the same meanwhile: of many first ADDs one does it. */
  readonly unlessMade?: true
  /** The ranges are those of a network that is there, or may overlap others'. */
  readonly mayOverlap?: boolean
  /** The caller's own attachment, where it has one. */
  readonly spec?: AttachmentSpec
}

/**
 * Makes the network's bridge, forwarding and rules be as wanted, whatever is there, then runs the
 * caller's own operations. Returns the network as it is: an existing bridge keeps its MAC and MTU.
 * Undefined where nothing was done (`unlessMade`). Throws CniError 108 when the bridge has an address of another network, 110 when
 * a network in the way of its ranges was set up since they were looked at.
 */
export async function setUpShared(context: CallContext, setup: SharedSetup): Promise<NetworkSpec | undefined> {
  return await underLock(context, `set up network ${setup.network.name}`, async () => {
    if (setup.unlessMade && isMade(setup)) return undefined
    for (let looks = 1; ; looks++) {
      try {
        return await setUpAsSeen(context, setup)
      } catch (error) {
        if (looks === mostLooks || !isOvertaken(error, setup)) throw error
      }
    }
  })
}

/** A pod's link was there at the look and has gone with its DEL, which takes no lock; the caller's own operations come later. */
function isOvertaken(error: unknown, { own }: SharedSetup): boolean {
  if (!(error instanceof CommandError) || error.op === undefined || error.reason !== 'absent') return false
  return ['port.master', 'port.flags', 'vlan.add'].includes(error.op.kind) && !own.includes(error.op)
}

async function setUpAsSeen(context: CallContext, setup: SharedSetup): Promise<NetworkSpec> {
  await refuseOwnedPorts(context, setup.spec)
  const others = allNetworks().filter((other) => other.name !== setup.network.name)
  const attachments = liveSpecs(context)
  const host = await lookAtBridge(context, setup.network, attachments)
  // Merged once more: another first ADD may have been here since the caller read it.
  const before = knownNetwork(setup.files)
  const network = asFound(mergeNetworks(before, setup.network, setup.namesSubnets), host)
  if (setup.mayOverlap !== true) requireStillApart(network, others)
  const corrections = host === undefined ? [] : agreeOnAddresses({ network, others, host, ownMac: ownMacOf(network) })
  const links = bridgeOps(
    network,
    attachments.filter((spec) => isThere(spec, host)),
  )
  const missing = host === undefined ? links : await notThere(context, links, host)
  const earlier = earlierInUse(context, [...others, network])
  const source = { networks: [...others, network, ...earlier], attachments, cluster: readCluster() }
  // Elements of other networks may overlap ours, and those of our own may be over: then the sets are filled anew.
  const hadRules = before !== undefined && sharesRules(before)
  const rules = others.length === 0 && !hadRules ? ruleOps(source) : refilledRuleOps(source, hadRules)
  const ops = [...corrections, ...missing, ...rules, ...sysctls(network), ...setup.own]
  await besideNftVersion(context, rules, () => executeWithRules({ run: context.run, netnsFd: setup.netnsFd }, ops))
  await settleHostAccept(context, setup.files, acceptingAll(network, earlier))
  await settleMarkAccept(context.run, source.networks)
  // Last: a setup that was cut short is not taken for a finished one by the next ADD.
  writeNetwork(setup.files, network)
  return network
}

/** STATUS is to know of an nft that is too old, also where that is why the rules fail. */
async function besideNftVersion(context: CallContext, rules: readonly Op[], body: () => Promise<unknown>) {
  const learning = rules.length > 0 ? learnNftVersion(context.run) : undefined
  try {
    await body()
  } finally {
    await learning
  }
}

function isMade({ files, network }: SharedSetup): boolean {
  return isDeepStrictEqual(readNetwork(files), network) && isInPlace(network)
}

/**
 * Whether the network's bridge is there and forwarding is on, as far as files tell. Forwarding is switched on under the
 * machine's lock only: that changes settings of links, and another setup may be about to change those of its bridge.
 */
export function isInPlace({ bridge, forwarding }: NetworkSpec): boolean {
  return (
    (bridge === undefined || linkExists(bridge.name)) &&
    forwarding.every((family) => readKey(forwardingKey(family)) === '1')
  )
}

/** The operations that do not hold. VLANs of ports are looked at where there are any. */
async function notThere(context: CallContext, links: readonly Op[], host: ObservedNamespace): Promise<readonly Op[]> {
  const hasVlans = links.some((op) => op.kind === 'vlan.add')
  const vlans = hasVlans ? { vlans: await observeVlans(context.run) } : {}
  return difference(links, { host, sysctls: forwardingNow(), ...vlans }).map(({ op }) => op)
}

/** Builds all rules of all networks anew after a flush, or after an overlap of networks. `spec`: of the call, where it has one. Throws CniError 104 for a port of others. */
export async function repairRules(context: CallContext, spec?: AttachmentSpec): Promise<void> {
  await underLock(context, 'rebuild the rules', async () => {
    await refuseOwnedPorts(context, spec)
    const networks = allNetworks()
    const all = [...networks, ...earlierInUse(context, networks)]
    const source = { networks: all, attachments: liveSpecs(context), cluster: readCluster() }
    await executeWithRules({ run: context.run }, refilledRuleOps(source))
    await settleHostAccepts(context)
  })
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

/** The host's links, or undefined where there is nothing to look at: no bridge, and nothing that was on it. */
async function lookAtBridge(
  context: CallContext,
  network: NetworkSpec,
  attachments: readonly AttachmentSpec[],
): Promise<ObservedNamespace | undefined> {
  const { bridge } = network
  if (bridge === undefined) return emptyNamespace
  const ports = attachments.filter((spec) => spec.port?.bridge === bridge.name)
  const isNew = !linkExists(bridge.name) && !ports.some((spec) => spec.host !== undefined && linkExists(spec.host.name))
  return isNew ? undefined : await observeHost(context.run)
}

function isThere(spec: AttachmentSpec, host: ObservedNamespace | undefined): boolean {
  return spec.host !== undefined && host?.links.has(spec.host.name) === true
}

function asFound(network: NetworkSpec, host: ObservedNamespace | undefined): NetworkSpec {
  const { bridge } = network
  const link = bridge && host?.links.get(bridge.name)
  return bridge === undefined || link === undefined
    ? network
    : { ...network, bridge: { ...bridge, mac: link.mac, mtu: link.mtu } }
}

function ownMacOf(network: NetworkSpec): string {
  return bridgeMac(network.bridge?.name ?? '', machineId())
}

function forwardingNow(): ReadonlyMap<string, string | undefined> {
  return observeSysctls([forwardingKey(4), forwardingKey(6)])
}

function sysctls(network: NetworkSpec): readonly Op[] {
  return network.bridge === undefined ? [] : bridgeSysctlOps(network.bridge)
}

async function underLock<T>(context: CallContext, purpose: string, body: () => Promise<T>): Promise<T> {
  return await withLock({ ...machineLock(context, purpose), deadline: context.work }, body)
}
