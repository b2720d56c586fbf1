// SPDX-License-Identifier: Apache-2.0
// ADD: completes, or leaves the machine as it found it, but for what attachments share (bridge, rules, forwarding). What it
// has made is undone by the record that it writes first.

import type { Call } from '../cni/call.ts'
import { CniError, Code, oneLine } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
import type { Result } from '../cni/results.ts'
import type { ChainedConf, InterfaceConf, IpamRoleConf, NetworkConf } from '../config/network-conf.ts'
import { asksForAnything, chainedAddresses, chainedResult, describeChained } from '../drivers/chained.ts'
import { describe, noLease } from '../drivers/describe.ts'
import type { Device } from '../drivers/driver.ts'
import { driverOf, makesInterface } from '../drivers/drivers.ts'
import { hostLinkName, ifbName } from '../drivers/names.ts'
import { afterPrevious, leaseResult, resultOf } from '../drivers/result.ts'
import { type AttachmentId, emptySpec, type Lease, type Spec } from '../drivers/spec.ts'
import { flushFlowsBefore } from '../features/flows.ts'
import { requirePlugin } from '../ipam/delegate.ts'
import { reserveAddresses } from '../ipam/lease.ts'
import { findDevice } from '../kernel/devices.ts'
import { lookAtPod, lookForWays } from '../kernel/look.ts'
import { closeNetns, type OpenNetns, openNetnsIfThere } from '../kernel/netns.ts'
import { linkExists, machineId, uplinkMtu } from '../kernel/proc.ts'
import { endKilledCallsIfPossible } from '../process/killed-calls.ts'
import { machineLockFile, requireState } from '../state/layout.ts'
import { waitForLock } from '../state/lock.ts'
import {
  type AttachmentRecord,
  allRecords,
  findPending,
  findRecord,
  finishRecord,
  isDead,
  readNetwork,
  writePending,
} from '../state/records.ts'
import { isStateLost, recoverLostState } from '../state/recover.ts'
import { portName, reservePorts } from '../state/reservations.ts'
import { attach } from './attach.ts'
import { type Context, undoingContext } from './context.ts'
import { detach, detachWithoutRecord } from './detach.ts'
import { writeIntent } from './intent.ts'
import { addLoopback } from './loopback.ts'
import { reportLeft, settleDeadWith, settleKilledCalls } from './settle.ts'
import { checkAllowlist } from './sysctl-allowlist.ts'

export async function add(call: Call, conf: NetworkConf, context: Context): Promise<Result> {
  if (conf.mode === 'loopback') return await addLoopback(call, conf, context)
  if (conf.mode !== 'ipam') checkAllowlist(conf, call)
  const netns = conf.mode === 'ipam' ? openNetnsIfThere(call.netns) : context.machine.openNetns(call.netns)
  try {
    requireState(conf.name)
    if (conf.ipam.kind === 'delegated') requirePlugin({ type: conf.ipam.type, path: call.path })
    const id = { network: conf.name, containerId: call.containerId, ifName: call.ifName, role: conf.role }
    // Loading tools takes longer than most batches: they load while we write the record.
    if (netns !== undefined && makesInterface(conf)) context.machine.prepare(netns)
    await endKilledCallsIfPossible()
    await settleKilledCalls(conf.name, context, id)
    const hasRecord = findRecord(id) !== undefined
    const isRecordLost = conf.role === 'main' && !hasRecord && linkExists(hostLinkName(id))
    if (isRecordLost || isStateLost()) await recoverLostState(context.machine)
    else if (conf.role !== 'ipam' && !hasRecord && linkExists(ifbName(id))) await detachWithoutRecord(id, context)
    const intent = await writeIntent({ id, conf, netns }, context)
    try {
      const result = await addAttachment({ intent, conf, call, netns, context })
      finishRecord(id)
      return result
    } catch (error) {
      await context.machine.discard()
      await takeBack(id, undoingContext(context))
      throw error
    }
  } finally {
    await context.machine.discard()
    closeNetns(netns)
  }
}

interface Addition<Conf extends NetworkConf = NetworkConf> {
  readonly intent: AttachmentRecord
  readonly conf: Conf
  readonly call: Call
  readonly netns: OpenNetns | undefined
  readonly context: Context
}

/** By the mode: an interface of ours, another plugin's, or addresses alone. */
async function addAttachment(addition: Addition): Promise<Result> {
  const { conf, netns } = addition
  if (conf.mode === 'ipam') return await addLease(addition as Addition<IpamRoleConf>)
  if (netns === undefined) throw new CniError(Code.internal, 'internal-error', 'internal error: no namespace')
  if (conf.mode === 'chained') return await addToInterface(addition as Addition<ChainedConf>, netns)
  return await addInterface(addition as Addition<InterfaceConf>, netns)
}

/** Modes that make an interface. */
async function addInterface(
  { intent, conf, call, netns: _, context }: Addition<InterfaceConf>,
  netns: OpenNetns,
): Promise<Result> {
  const { id } = intent
  const device = await findOwnDevice(conf, id, context)
  const usedTables = conf.sbr === undefined ? undefined : await tablesInUse(netns, context)
  const node = { mtu: uplinkMtu() ?? 1500, machineId: machineId() }
  const known = readNetwork({ name: conf.name, role: 'main' })
  const describeWith = (lease: Lease) => describe({ id, conf, lease, node, device, known, ...defined({ usedTables }) })
  // With a delegated plugin the interface comes first: dhcp needs it. Names and MACs are the same with the lease.
  const isDelegated = conf.ipam.kind === 'delegated'
  const before = isDelegated ? await makeAttachment(intent, describeWith(noLease), netns, context) : undefined
  const lease = await reserveAddresses({ id, conf, call, settleDead: settleDeadWith(context) }, context.machine)
  const spec = await makeAttachment(intent, describeWith(lease), netns, context, before)
  return afterPrevious(resultOf(spec, lease.routes, call.netns, conf.isDefaultGateway), conf)
}

/** Reserves ports, writes everything down, and makes it. */
async function makeAttachment(
  intent: AttachmentRecord,
  described: Spec,
  netns: OpenNetns,
  context: Context,
  before?: Spec,
): Promise<Spec> {
  const spec = await withReservedPorts(described, context)
  // From here on a later call can undo everything.
  writePending({ ...intent, spec })
  // A set-up that read the records before would drop our elements.
  await waitForLock({ file: machineLockFile(), purpose: 'attach', deadline: context.deadline })
  const made = await attach(spec, netns, context, before)
  if (made !== spec) writePending({ ...intent, spec: made })
  await flushFlowsBefore(context.machine, made.hostPorts?.ports ?? [])
  return made
}

/** Without the ports that another interface of the container serves. */
async function withReservedPorts(spec: Spec, context: Context): Promise<Spec> {
  const { hostPorts, id } = spec
  if (hostPorts === undefined) return spec
  const ports = await reservePorts(id, hostPorts.ports, settleDeadWith(context))
  const others = hostPorts.ports.filter((port) => !ports.includes(port)).map(portName)
  if (others.length > 0)
    process.stderr.write(`trestle: another interface of the container serves ${others.join(' ')}, not ${id.ifName}\n`)
  if (ports.length > 0) return { ...spec, hostPorts: { ...hostPorts, ports } }
  const { hostPorts: _, ...rest } = spec
  return rest
}

/** mode `chained`: looks first, decides everything, and refuses before anything is changed. */
async function addToInterface(
  { intent, conf, call, context }: Addition<ChainedConf>,
  netns: OpenNetns,
): Promise<Result> {
  const { id } = intent
  const { machine } = context
  const prevResult = conf.prevResult ?? { interfaces: [], ips: [], routes: [] }
  // Where earlier configurations asked for something, the network is set up without it.
  if (!asksForAnything(conf) && readNetwork({ name: conf.name, role: 'chained' }) === undefined) {
    // Its DEL finds by the record that there is nothing.
    writePending({ ...intent, spec: emptySpec(id, 'chained') })
    return prevResult
  }
  const addresses = chainedAddresses(prevResult, call.ifName).map(({ address }) => address.split('/')[0] ?? '')
  const hostNames = prevResult.interfaces.filter(({ sandbox }) => !sandbox).map(({ name }) => name)
  const [{ pod }, { host, ways }] = await Promise.all([
    lookAtPod(machine, netns, conf.sbr === undefined ? {} : { ruleFamilies: [4, 6] }),
    lookForWays(machine, hostNames.length === 0 ? 'all' : hostNames, addresses),
  ])
  const described = describeChained(id, conf, { pod, host, ways })
  const spec = await makeAttachment(intent, described, netns, context)
  return chainedResult(prevResult, spec)
}

/** Another plugin delegates to us. */
async function addLease({ intent, conf, call, context }: Addition<IpamRoleConf>): Promise<Result> {
  const { id } = intent
  const lease = await reserveAddresses({ id, conf, call, settleDead: settleDeadWith(context) }, context.machine)
  writePending({ ...intent, spec: { ...emptySpec(id, 'ipam'), addresses: lease.addresses } })
  return leaseResult(lease)
}

/** The link of the host that the mode needs; one that another pod has is refused. */
async function findOwnDevice(conf: InterfaceConf, id: AttachmentId, context: Context): Promise<Device | undefined> {
  const { machine } = context
  const query = driverOf(conf).deviceOf?.(conf)
  if (query === undefined) return undefined
  const found = await findDevice(machine, query)
  if (conf.mode !== 'host-device') return found
  const names = [found.name, query.value, found.link?.mac].filter((name) => name)
  const holder = allRecords().find(({ id: other, spec }) => {
    const of = [spec?.device?.name, spec?.device?.mac, found.link && spec?.macvlan?.master]
    return other.containerId !== id.containerId && of.some((name) => name && names.includes(name))
  })
  if (holder === undefined) return found
  if (isDead(holder)) {
    // Its removal brings the device home under its own name.
    await detach(holder, context)
    return await findDevice(machine, query)
  }
  const what = `${found.name || query.value} is in use by container ${holder.id.containerId}, ${holder.id.ifName}`
  throw new CniError(Code.invalidConfig, 'device-in-use', `mode host-device: ${what}`, {
    details: 'its DEL brings it back; give this one another device',
  })
}

async function tablesInUse(netns: OpenNetns, { machine }: Context): Promise<ReadonlySet<number>> {
  const { pod } = await lookAtPod(machine, netns, { ruleFamilies: [4, 6] })
  return new Set([...pod.routes.map(({ table }) => table), ...(pod.rules ?? []).map(({ table }) => table)])
}

/** Undoes a failed ADD. What cannot be undone stays in the record. */
async function takeBack(id: AttachmentId, context: Context): Promise<void> {
  const record = findPending(id)
  if (record === undefined) return
  try {
    for (const error of await detach(record, context))
      process.stderr.write(`trestle: undoing ADD: ${oneLine(error.message)}\n`)
  } catch (error) {
    reportLeft(error as Error)
  }
}
