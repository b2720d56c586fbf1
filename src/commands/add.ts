// SPDX-License-Identifier: Apache-2.0
// ADD: claim, lease, decide, make, finish. The claim is on disk before anything is reserved, and
// the whole record before anything is made: a later call can settle a killed one from it alone.

import { CniCode, CniError } from '../cni/error.ts'
import type { Invocation } from '../cni/invocation.ts'
import type { NetConf } from '../cni/net-conf.ts'
import type { Result } from '../cni/result.ts'
import { delegatedResult, resultOf } from '../plan/answer.ts'
import type { AttachmentKey, AttachmentSpec } from '../plan/attachment.ts'
import { configDigest } from '../plan/config-digest.ts'
import type { Lease } from '../plan/lease.ts'
import { type AttachmentRecord, describeHolder, type NetnsStamp } from '../plan/record.ts'
import { attachmentSpec } from '../plan/resolve.ts'
import { startAhead } from '../system/ahead.ts'
import { linkCommands } from '../system/execute.ts'
import { delegatedLease, ownLease } from '../system/ipam.ts'
import { uplinkMtu } from '../system/kernel-files.ts'
import { closeNetns, type OpenNetns, stampOf } from '../system/netns.ts'
import { reservePorts } from '../system/ports.ts'
import { claim, findRecords, finish, pendingFile, writePending } from '../system/records.ts'
import { type NetworkFiles, networkFiles, requireState } from '../system/state.ts'
import { requireAllowedSysctls } from '../system/sysctl-allowlist.ts'
import { type Connection, connect } from './connect.ts'
import type { CallContext } from './context.ts'
import { delegateDel, detach, isDead, reclaimDead, settleLeftovers } from './detach.ts'

/** MTU of Ethernet, where no default route tells better. */
const ethernetMtu = 1500

/** One ADD under way. */
interface Addition {
  readonly context: CallContext
  readonly call: Invocation
  readonly conf: NetConf
  readonly key: AttachmentKey
  readonly files: NetworkFiles
}

/**
 * Attaches the pod. Throws CniError: 4 for a namespace or name that cannot be used, 101-105 for
 * addresses, 103 when the attachment exists, 11 when another call holds it, 100 when a tool fails.
 */
export async function add(context: CallContext, call: Invocation, conf: NetConf): Promise<Result> {
  requireState()
  const key = { network: conf.name, containerId: call.containerId, ifName: call.ifName, role: conf.role }
  const addition = { context, call, conf, key, files: networkFiles(conf.name) }
  if (conf.role === 'ipam') return await addLease(addition)
  requireAllowedSysctls(Object.keys(conf.tuning?.sysctl ?? {}), call.ifName)
  const netns = context.openNetns(call.netns)
  try {
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
    return await undoneOnError(addition, record, () => makeInterface({ ...addition, context, record, netns }))
  } finally {
    await ahead.discard()
  }
}

async function makeInterface(connection: Connection): Promise<Result> {
  const { conf, files, key, call } = connection
  const own = await leaseOf(connection)
  const first = specOf(connection, own)
  await reservePortsOf(connection, first)
  const made =
    conf.ipam.kind === 'delegated'
      ? await connectDelegated(connection, first)
      : { ...(await connect(connection, first)), lease: own }
  finish(files, key)
  return resultOf({ spec: made.spec, network: made.network, lease: made.lease, netns: call.netns })
}

/** A delegated plugin may need the interface (dhcp does): it is made and up first, addresses follow. */
async function connectDelegated(connection: Connection, bare: AttachmentSpec) {
  const { conf, call, context } = connection
  await connect(connection, bare)
  const type = conf.ipam.kind === 'delegated' ? conf.ipam.type : ''
  const lease = await delegatedLease(context.run, conf, { type, path: call.path })
  const spec = specOf(connection, lease)
  await reservePortsOf(connection, spec)
  return { ...(await connect({ ...connection, isMade: true }, spec)), lease }
}

/** Delegated to: addresses only. */
async function addLease(addition: Addition): Promise<Result> {
  const record = await claimFor(addition, stampOf(addition.call.netns))
  return await undoneOnError(addition, record, async () => {
    const lease = await leaseOf(addition)
    const { key, files, conf } = addition
    const cooldownS = conf.ipam.kind === 'pool' ? conf.ipam.cooldownS : 0
    const bare = {
      mode: conf.mode,
      mtu: 0,
      routes: [],
      defaultRoutes: [],
      podLinkDown: true,
      dad: false,
      selfHairpin: false,
      isPool: conf.ipam.kind === 'pool',
    }
    writePending(files, { ...record, spec: { ...bare, key, ips: lease.ips, cooldownS } })
    finish(files, key)
    return delegatedResult(lease)
  })
}

/** Chained: what an earlier plugin made is passed on. */
async function addChained(addition: Addition, netns: OpenNetns): Promise<Result> {
  const { conf, files, key } = addition
  if (conf.prevResult === undefined) {
    throw new CniError(CniCode.invalidConfig, 'mode: "chained" needs a prevResult', {
      details: 'put this plugin after the one that makes the interface, or leave "mode" out',
    })
  }
  await claimFor(addition, netns.stamp)
  finish(files, key)
  return conf.prevResult
}

/** Claims the attachment, after settling what killed calls left. Throws CniError 103 or 11. */
async function claimFor(addition: Addition, netns: NetnsStamp): Promise<AttachmentRecord> {
  const { context, files, key, conf } = addition
  await settleLeftovers(context, files)
  for (const stored of findRecords(files, key)) {
    if (stored.isPending || !isDead(stored, context)) throw taken(stored.record, stored.isPending)
    await detach(context, files, stored.record)
  }
  const record: AttachmentRecord = {
    format: 1,
    key,
    writer: context.stamp,
    netns,
    createdAt: new Date().toISOString(),
    ...(conf.pod ? { pod: conf.pod } : {}),
    configDigest: configDigest(conf.stdin),
    ...(conf.ipam.kind === 'delegated' ? { delegatedIpam: conf.ipam.type } : {}),
  }
  if (claim(files, record)) return record
  const other = findRecords(files, key).find((stored) => stored.isPending)
  throw taken(other?.record ?? record, true)
}

async function leaseOf(addition: Addition): Promise<Lease> {
  const { context, conf, files, key } = addition
  const reclaim = () => reclaimDead(context, files)
  return await ownLease({ conf, files, claimFile: pendingFile(files, key), reclaim })
}

/** Host ports are known with the addresses; a dead holder of one is taken down, whatever its network. */
async function reservePortsOf({ context, files, key }: Addition, spec: AttachmentSpec): Promise<void> {
  const settle = async (record: AttachmentRecord) => {
    if (!isDead({ file: '', isPending: false, record }, context)) return false
    return (await detach(context, networkFiles(record.key.network), record)).length === 0
  }
  await reservePorts({ claimFile: pendingFile(files, key), key, settle }, spec.hostPorts?.ports ?? [])
}

function specOf({ key, conf }: Addition, lease: Lease): AttachmentSpec {
  const mtu = conf.mtu === 'auto' ? (uplinkMtu() ?? ethernetMtu) : conf.mtu
  return attachmentSpec({ key, conf, lease, mtu })
}

/** Runs `body`; when it fails, everything made for the claim is taken back before the error goes on. */
async function undoneOnError<T>(addition: Addition, record: AttachmentRecord, body: () => Promise<T>): Promise<T> {
  try {
    return await body()
  } catch (error) {
    const { context, files, call, conf } = addition
    const latest = findRecords(files, record.key).find((stored) => stored.isPending)?.record ?? record
    const failures = [...(await detach(context, files, latest))]
    if (conf.ipam.kind === 'delegated') {
      // Section 4: a delegated plugin gets a DEL when ADD fails, whether or not it was reached.
      await delegateDel(context, call, { type: conf.ipam.type, stdin: conf.stdin }).catch((failure: Error) =>
        failures.push(failure),
      )
    }
    for (const failure of failures) process.stderr.write(`trestle: undoing ADD: ${failure.message}\n`)
    throw error
  }
}

function taken(holder: AttachmentRecord, isPending: boolean): CniError {
  const { containerId, ifName, network } = holder.key
  if (isPending) {
    return new CniError(CniCode.tryAgainLater, `another call is working on ${ifName} of container ${containerId}`, {
      details: `process ${holder.writer.pid} since ${holder.createdAt}`,
    })
  }
  return new CniError(
    CniCode.attachmentExists,
    `container ${containerId} already has ${ifName} on network ${network}`,
    {
      details: `${describeHolder(holder)}, since ${holder.createdAt}; a runtime sends DEL before it sends ADD again`,
    },
  )
}
