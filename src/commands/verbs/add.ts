// SPDX-License-Identifier: Apache-2.0
// ADD: claim, lease, decide, make, finish. The claim is on disk before anything is reserved, and
// the whole record before anything is made: a later call can settle a killed one from it alone.

import { familyOf } from '../../cni/model/address.ts'
import type { Invocation } from '../../cni/model/invocation.ts'
import type { NetConf } from '../../cni/model/net-conf.ts'
import type { Result } from '../../cni/model/result.ts'
import { withExcluded } from '../../plan/ipam/range-overlap.ts'
import { tablesInUse } from '../../plan/link/sbr.ts'
import type { AttachmentSpec } from '../../plan/model/attachment.ts'
import { bareSpec } from '../../plan/model/bare.ts'
import type { Lease } from '../../plan/model/lease.ts'
import { afterPrevious, delegatedResult, resultOf } from '../../plan/modes/answer.ts'
import { attachmentSpec, gatewaySide } from '../../plan/modes/resolve.ts'
import { networkFiles, requireState } from '../../system/files/state.ts'
import { delegatedLease, ownLease } from '../../system/ipam/ipam.ts'
import { linkCommands } from '../../system/kernel/execute.ts'
import { closeNetns, type OpenNetns, stampOf } from '../../system/kernel/netns.ts'
import { observePod } from '../../system/kernel/observe.ts'
import { requireAllowedSysctls } from '../../system/kernel/sysctl-allowlist.ts'
import { uplinkMtu } from '../../system/kernel/uplink.ts'
import { startAhead } from '../../system/process/ahead.ts'
import { finish, pendingFile, readNetwork, writePending } from '../../system/store/records.ts'
import { addChained } from '../attach/chained.ts'
import { type Addition, claimFor, reservePortsOf, undoneOnError } from '../attach/claim.ts'
import { type Connection, connect } from '../attach/connect.ts'
import { addLoopback } from '../attach/loopback.ts'
import { requireApart } from '../attach/range-overlap.ts'
import type { CallContext } from '../call/context.ts'
import { healBeforeAdd } from '../recover/heal.ts'
import { reclaimOrphans } from '../recover/orphan-reservations.ts'
import { reclaimDead } from '../teardown/detach.ts'

/** MTU of Ethernet, where no default route tells better. */
const ethernetMtu = 1500

/**
 * Attaches the pod. Throws CniError: 4 for a namespace or name that cannot be used, 101-105 for
 * addresses, 110 for a range in use, 103 when the attachment exists, 11 when another call holds it, 100 when a tool fails.
 */
export async function add(context: CallContext, call: Invocation, conf: NetConf): Promise<Result> {
  requireState(conf.name)
  const key = { network: conf.name, containerId: call.containerId, ifName: call.ifName, role: conf.role }
  const addition = { context, call, conf, key, files: networkFiles(conf.name) }
  if (conf.role === 'ipam') return await addLease(addition)
  requireAllowedSysctls(Object.keys(conf.tuning?.sysctl ?? {}), call.ifName)
  const netns = context.openNetns(call.netns)
  try {
    if (conf.mode === 'loopback') return await addLoopback(context, { call, conf, netns })
    if (conf.role === 'chained') return await addChained(addition, netns)
    return await addInterface(addition, netns)
  } finally {
    closeNetns(netns)
  }
}

/** The pod's interface and all that belongs to it. */
async function addInterface(addition: Addition, netns: OpenNetns): Promise<Result> {
  const record = await claimFor(addition, netns.stamp)
  const ahead = startAhead(addition.context.run, linkCommands(netns.fd))
  const context = { ...addition.context, run: ahead.run }
  try {
    return await undoneOnError(addition, record, () => makeInterface({ ...addition, context, record, netns, ahead }))
  } finally {
    await ahead.discard()
  }
}

async function makeInterface(connection: Connection): Promise<Result> {
  const { conf, files, key, call } = connection
  const placed = await withRanges(connection)
  const own = await leaseOf(placed)
  const looked = await withTables(placed, own)
  const first = specOf(looked, own)
  await reservePortsOf(looked, first)
  const made =
    conf.ipam.kind === 'delegated'
      ? await connectDelegated(looked, first)
      : { ...(await connect(looked, first)), lease: own }
  finish(files, key)
  const result = resultOf({ spec: made.spec, network: made.network, lease: made.lease, netns: call.netns })
  return afterPrevious(result, conf)
}

/** A delegated plugin may need the interface (dhcp does): it is made and up first, addresses follow. */
async function connectDelegated(connection: Connection, bare: AttachmentSpec) {
  const { conf, call, context, files, record } = connection
  const { network } = await connect(connection, withoutSysctls(bare))
  const type = conf.ipam.kind === 'delegated' ? conf.ipam.type : ''
  const lease = await delegatedLease(context.run, conf, { type, path: call.path })
  const spec = specOf(connection, lease)
  // A teardown gives back the ports that the record has: they are in it before they are reserved.
  if (spec.hostPorts !== undefined) writePending(files, { ...record, spec, network })
  await reservePortsOf(connection, spec)
  return { ...(await connect({ ...connection, isMade: true }, spec)), lease }
}

/** They are set with the addresses, once: both runs would be a process each. */
function withoutSysctls(spec: AttachmentSpec): AttachmentSpec {
  return spec.tuning === undefined ? spec : { ...spec, tuning: { ...spec.tuning, sysctl: {} } }
}

/** Delegated to: addresses only. */
async function addLease(addition: Addition): Promise<Result> {
  const record = await claimFor(addition, stampOf(addition.call.netns))
  return await undoneOnError(addition, record, async () => {
    const lease = await leaseOf(addition)
    const { key, files, conf } = addition
    const cooldownS = conf.ipam.kind === 'pool' ? conf.ipam.cooldownS : 0
    const spec = { ...bareSpec(key), mode: conf.mode, ips: lease.ips, isPool: conf.ipam.kind === 'pool', cooldownS }
    writePending(files, { ...record, spec })
    finish(files, key)
    return delegatedResult(lease)
  })
}

async function leaseOf(addition: Addition): Promise<Lease> {
  const { context, conf, files, key } = addition
  const perPod = conf.ipam.kind === 'pool' ? conf.ipam.rangeSets.length : 0
  if (perPod > 0 || conf.portMappings.length > 0) await healBeforeAdd(context, { files, conf, perPod })
  const reclaim = async () => {
    await reclaimDead(context, files)
    await reclaimOrphans(context, { network: key.network, isMain: key.role === 'main' })
  }
  return await ownLease({ conf, files, claimFile: pendingFile(files, key), reclaim })
}

/** Where the configuration names the ranges they are looked at before an address is given out: only when the network is set up. */
async function withRanges(connection: Connection): Promise<Connection> {
  const { conf, context, files, key } = connection
  if (conf.ipam.kind !== 'pool') return connection
  const about = { key, network: gatewaySide(conf, []), known: readNetwork(files) }
  const ranges = await requireApart(context, conf, about)
  return { ...connection, ranges, conf: { ...conf, ipam: withExcluded(conf.ipam, ranges.excluded) } }
}

/** sbr takes tables that are free: the one thing an ADD looks at beforehand. */
async function withTables(connection: Connection, { ips }: Lease): Promise<Connection> {
  const { conf, context, netns } = connection
  if (conf.sbr === undefined || conf.sbr.table !== undefined) return connection
  const isV4Only = conf.ipam.kind !== 'delegated' && !ips.some(({ address }) => familyOf(address) === 6)
  const pod = await observePod(context.run, netns.fd, isV4Only ? [4] : [4, 6])
  return { ...connection, usedTables: tablesInUse(pod) }
}

function specOf({ key, conf, usedTables = new Set() }: Connection, lease: Lease): AttachmentSpec {
  const mtu = conf.mtu === 'auto' ? (uplinkMtu() ?? ethernetMtu) : conf.mtu
  return attachmentSpec({ key, conf, lease, mtu, usedTables })
}
