// SPDX-License-Identifier: Apache-2.0
// Makes what an attachment's spec says. The short way first: everything is applied without looking.
// Where something shared is missing or stands in the way, it is set up from the difference, once.

import { isDeepStrictEqual } from 'node:util'
import { CniError } from '../../cni/model/error.ts'
import type { Invocation } from '../../cni/model/invocation.ts'
import type { NetConf } from '../../cni/model/net-conf.ts'
import { CommandError } from '../../compile/command-error.ts'
import type { AttachmentSpec, NetworkSpec } from '../../plan/model/attachment.ts'
import { aliasOf, ifbName } from '../../plan/model/names.ts'
import type { Op } from '../../plan/model/op.ts'
import type { AttachmentRecord } from '../../plan/model/record.ts'
import { afterRuleOps, hostOps, leasedHostOps, podSysctlOps, queueingOps } from '../../plan/modes/attach.ts'
import { mostBridgePorts } from '../../plan/modes/network.ts'
import { mergeNetworks, networkSpec } from '../../plan/modes/resolve.ts'
import { steadyBridgeOps } from '../../plan/modes/shared.ts'
import type { NetworkFiles } from '../../system/files/state.ts'
import { deleteEarlierFlows } from '../../system/kernel/conntrack.ts'
import { execute, laterCommands } from '../../system/kernel/execute.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import type { OpenNetns } from '../../system/kernel/netns.ts'
import { observeHost } from '../../system/kernel/observe.ts'
import type { Ahead } from '../../system/process/ahead.ts'
import { machineId } from '../../system/process/stamp.ts'
import { readNetwork, writePending } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { listenerLook } from './listener-look.ts'
import { configurePod } from './pod-side.ts'
import { type Ranges, requireApart } from './range-overlap.ts'
import { isAnotherBridge, ownBridgeMacOps, showBridgeOps } from './same-bridge.ts'
import { sayRules } from './say-rules.ts'
import { isInPlace, setUpShared } from './shared-setup.ts'

/** An attachment being made. `isMade`: its interfaces exist, only addresses, routes and what follows from them are missing. */
export interface Connection {
  readonly context: CallContext
  readonly call: Invocation
  readonly conf: NetConf
  readonly files: NetworkFiles
  readonly key: AttachmentSpec['key']
  readonly record: AttachmentRecord
  readonly netns: OpenNetns
  readonly isMade?: true
  /** Where tools are started before their input is known. */
  readonly ahead?: Pick<Ahead, 'start' | 'discard'>
  /** Routing tables of the pod that are in use, where one is to be chosen (sbr). */
  readonly usedTables?: ReadonlySet<number>
  /** What the ranges meet on the host, where the pool's were looked at. */
  readonly ranges?: Ranges
}

/** What was made. A default route that the pod had already is not in `spec`. */
export interface Connected {
  readonly spec: AttachmentSpec
  readonly network: NetworkSpec
}

/** Makes the interface, its addresses and routes, and what they need of bridge and rules. */
export async function connect(connection: Connection, spec: AttachmentSpec): Promise<Connected> {
  const { files, context } = connection
  const known = readNetwork(files)
  const wanted = wantedNetwork(connection, spec, known)
  const isSteady = isDeepStrictEqual(known, wanted) && isInPlace(wanted)
  const ranges = connection.ranges ?? (isSteady ? undefined : await rangesOfIps(connection, wanted, known))
  writePending(files, { ...connection.record, spec, network: wanted })
  const own = connection.isMade ? leasedHostOps(spec) : hostOps(spec)
  const decided = { spec, network: wanted, own, mayOverlap: ranges?.mayOverlap ?? true }
  const making = isSteady
    ? connectSteady(connection, decided)
    : connectFirst(connection, { ...decided, unlessMade: true })
  const made = await making.catch((error: unknown) => {
    throw isBridgeFull(error) ? bridgeFull(wanted, error) : error
  })
  await execute({ run: context.run }, afterRuleOps(spec))
  const flows = deleteEarlierFlows(context.run, spec.hostPorts?.ports ?? [])
  await Promise.all([flows, listenerLook(connection.conf, spec)('conntrack')])
  return made
}

/** Without ranges in the configuration they are known with the addresses. Its own link is made by then, where a plugin gave them. */
async function rangesOfIps({ context, conf, key }: Connection, network: NetworkSpec, known: NetworkSpec | undefined) {
  return await requireApart(context, conf, { key, network, known })
}

/** The network's first ADD, or one after its configuration changed: shared parts are set up under the lock. */
async function connectFirst(connection: Connection, decided: Decided): Promise<Connected> {
  const { spec, network, own } = decided
  const asIs = await withLeftoverRemoved(connection, spec, () => setUp(connection, decided))
  if (asIs === undefined) return await connectSteady(connection, { spec, network, own })
  return await finishPod(connection, { spec, network: asIs })
}

/** `unlessMade`: the shared parts may have been set up since they were looked at. */
interface Decided extends Connected {
  readonly own: readonly Op[]
  readonly unlessMade?: true
  readonly mayOverlap?: boolean
}

/** The usual ADD: rules beside links, nothing looked at beforehand. */
async function connectSteady(connection: Connection, decided: Decided): Promise<Connected> {
  // Links first: they take longer, and starting a process takes a millisecond.
  const said = [sayLinks(connection, decided), sayRules(connection.context, decided.spec)] as const
  connection.ahead?.start(laterCommands(connection.netns.fd, opsAfterLinks(connection, decided.spec)))
  const [links, rules] = await Promise.allSettled(said)
  if (links.status === 'rejected') throw links.reason
  if (rules.status === 'rejected') throw rules.reason
  return links.value
}

async function sayLinks(connection: Connection, decided: Decided): Promise<Connected> {
  const { spec, network, own } = decided
  const place = { run: connection.context.run, netnsFd: connection.netns.fd }
  try {
    const printed = await execute(place, [...steadyBridgeOps(network), ...own, ...showBridgeOps(network)])
    if (isAnotherBridge(network, printed)) {
      // Somebody made it anew: the ports of all pods are off it, and they know the gateway by its MAC.
      await execute(place, ownBridgeMacOps(network))
      await setUp(connection, { ...decided, own: [] })
    }
  } catch (error) {
    if (!(error instanceof CommandError) || isBridgeFull(error)) throw error
    // Bridge gone or changed, or a leftover of ours in the way: look, put right, and once more.
    await connection.ahead?.discard()
    return await connectFirst(connection, { ...decided, own: ownStillMissing(own, error.op) })
  }
  return await finishPod(connection, { spec, network })
}

async function setUp(connection: Connection, decided: Decided): Promise<NetworkSpec | undefined> {
  const { context, files, netns } = connection
  return await setUpShared(context, {
    ...decided,
    files,
    netnsFd: netns.fd,
    namesSubnets: connection.conf.ipam.kind === 'pool',
  })
}

/** What `finishPod` runs beside the pod's own links or after them. */
function opsAfterLinks({ isMade }: Connection, spec: AttachmentSpec): readonly Op[] {
  return [...(isMade ? [] : queueingOps(spec)), ...podSysctlOps(spec)]
}

/** The pod's side, and beside it the queueing on the host. */
async function finishPod(connection: Connection, { spec, network }: Connected): Promise<Connected> {
  const { context, netns, files, record } = connection
  const place = { run: context.run, netnsFd: netns.fd }
  const [pod, queues] = await Promise.allSettled([
    configurePod(context, { netnsFd: netns.fd, spec, beside: listenerLook(connection.conf, spec) }),
    execute(place, connection.isMade ? [] : queueingOps(spec)),
  ])
  if (pod.status === 'rejected') throw pod.reason
  if (queues.status === 'rejected') throw queues.reason
  const made = { ...spec, defaultRoutes: pod.value }
  if (pod.value.length < spec.defaultRoutes.length) writePending(files, { ...record, spec: made, network })
  return { spec: made, network }
}

/** The veth pair was made where a later line of the same batch failed; where its own line failed, it is in the way. */
function ownStillMissing(own: readonly Op[], failed: Op | undefined): readonly Op[] {
  return own.filter((op) => op.kind !== 'veth.add' || op === failed || !linkExists(op.name))
}

/**
 * A host end of ours without a record is left from a state directory that was removed: it goes, and
 * `body` runs once more. Throws CniError 4 when the pod has the interface already.
 */
async function withLeftoverRemoved<T>(
  connection: Connection,
  spec: AttachmentSpec,
  body: () => Promise<T>,
): Promise<T> {
  try {
    return await body()
  } catch (error) {
    const isTaken = error instanceof CommandError && error.op?.kind === 'veth.add' && error.reason === 'exists'
    if (!isTaken) throw error
    if (!(await removeLeftover(connection.context, spec))) throw interfaceExists(connection, error)
    return await body()
  }
}

async function removeLeftover(context: CallContext, spec: AttachmentSpec): Promise<boolean> {
  const { host } = spec
  if (host === undefined || !linkExists(host.name)) return false
  const found = (await observeHost(context.run, [host.name])).links.get(host.name)
  if (found?.alias !== aliasOf(spec.key)) return false
  // Of a limited pod the ifb stays when its veth goes.
  const left = [host.name, ifbName(spec.key)].filter(linkExists)
  await execute(
    { run: context.run },
    left.map((dev): Op => ({ in: 'host', kind: 'link.del', dev, why: `remove the leftover ${dev}` })),
  )
  return true
}

function interfaceExists(connection: Connection, cause: CommandError): CniError {
  const { ifName, netns } = connection.call
  return new CniError(
    'interface-name-taken',
    `CNI_IFNAME ${ifName}: an interface of that name is already in ${netns}`,
    {
      details: `choose another name, or remove it: nsenter --net=${netns} ip link del ${ifName}\n${cause.details ?? ''}`,
      cause,
    },
  )
}

/**
 * The kernel tells: it counts the ports of others too, and at the moment of the call, where a count of ours before
 * every ADD would cost time and still come too early.
 */
function isBridgeFull(error: unknown): boolean {
  return error instanceof CommandError && error.op?.kind === 'veth.add' && error.reason === 'full'
}

function bridgeFull({ bridge }: NetworkSpec, cause: unknown): CniError {
  const name = bridge?.name ?? ''
  return new CniError('bridge-ports-full', `bridge ${name} is full: it has ${mostBridgePorts} ports`, {
    details: `Linux allows no more on one bridge; use a second network with another "bridge", or see what is plugged in: ip link show master ${name}`,
    cause,
  })
}

function wantedNetwork(connection: Connection, spec: AttachmentSpec, known: NetworkSpec | undefined): NetworkSpec {
  const { conf, ranges } = connection
  const around = { mtu: spec.mtu, machineId: machineId() }
  const now = {
    ...networkSpec(conf, spec.ips, around),
    ...(ranges?.excluded.length ? { excluded: ranges.excluded } : {}),
  }
  const merged = mergeNetworks(known, now, conf.ipam.kind === 'pool')
  const { bridge } = merged
  if (bridge === undefined || known?.bridge?.name !== bridge.name || !linkExists(bridge.name)) return merged
  // A bridge keeps the MAC and MTU it was made with, or was found with.
  return { ...merged, bridge: { ...bridge, mac: known.bridge.mac, mtu: known.bridge.mtu } }
}
