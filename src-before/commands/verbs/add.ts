// SPDX-License-Identifier: Apache-2.0
// ADD: the intent record is on disk before anything is reserved, and the whole record before anything is made; a later
// call can settle a killed ADD from its record alone. A failed ADD is undone here, as DEL does it.

import { CniError } from '../../cni/error.ts'
import { CniCode } from '../../cni/error-code.ts'
import type { Invocation } from '../../cni/invocation.ts'
import type { Result } from '../../cni/result.ts'
import { isIpv4Only } from '../../config/config.ts'
import type { ChainedNetConf, InterfaceNetConf, IpamNetConf, NetConf, OwnNetConf } from '../../config/net-conf.ts'
import { asksForAnything, emptySpec } from '../../drivers/chained.ts'
import type { AttachmentRecord } from '../../model/record.ts'
import type { Begun } from '../../plan/order/facts.ts'
import { type NamesIn, namesOnce } from '../../system/files/files.ts'
import { chainedFiles, networkFiles, requireState } from '../../system/files/state.ts'
import { linkCommands } from '../../system/kernel/execute.ts'
import { closeNetns, identityOfNetns, type OpenNetns } from '../../system/kernel/netns.ts'
import { requireAllowedSysctls } from '../../system/kernel/sysctl-allowlist.ts'
import { uplinkMtu } from '../../system/kernel/uplink.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { inFiles, prestart } from '../../system/process/runner.ts'
import { findRecords, readNetwork, writeAdopted } from '../../system/store/records.ts'
import { type Attaching, chainedPort, interfacePort, leasePort } from '../attach/attach-port.ts'
import { addChained } from '../attach/chained.ts'
import { type Addition, intentFor } from '../attach/intent.ts'
import { addInterface } from '../attach/interface.ts'
import { addLease } from '../attach/lease.ts'
import { type CallContext, contextOfTeardown } from '../call/context.ts'
import { teardown } from '../teardown/attachments.ts'
import { returnLease } from '../teardown/delegated-lease.ts'
import { removeWhenEmpty } from '../teardown/remove-network.ts'
import { addLoopback } from './loopback.ts'

/** MTU of Ethernet, where no default route tells better. */
const ethernetMtu = 1500

/**
 * Attaches the pod. Throws CniError: 4 for a namespace or name that cannot be used, 101-105 for
 * addresses, 110 for a range in use, 103 when the attachment exists, 11 when another call holds it, 100 when a tool
 * fails.
 */
export async function add(context: CallContext, call: Invocation, conf: NetConf): Promise<Result> {
  requireState(conf.name)
  const key = { network: conf.name, containerId: call.containerId, ifName: call.ifName, role: conf.role }
  const addition = { context, call, key, files: networkFiles(conf.name) }
  if (conf.mode === 'ipam') return await addAddresses({ ...addition, conf })
  requireAllowedSysctls(Object.keys(conf.tuning?.sysctl ?? {}), call.ifName)
  const netns = context.openNetns(call.netns)
  try {
    switch (conf.mode) {
      case 'loopback':
        return await addLoopback(context, conf, netns)
      case 'chained':
        return await addToInterface({ ...addition, conf }, netns)
      default:
        return await addPodInterface({ ...addition, conf }, netns)
    }
  } finally {
    closeNetns(netns)
  }
}

async function addPodInterface(addition: Addition<InterfaceNetConf>, netns: OpenNetns): Promise<Result> {
  const record = await intentFor(addition, netns.identity)
  const prestarted = prestart(inFiles(addition.context.run), linkCommands(netns.fd))
  const context = { ...addition.context, run: prestarted.run }
  try {
    return await orUndo(addition, record, async () => {
      const attaching = { ...addition, context, record, names: namesOnce() }
      const place = { run: context.run, netnsFd: netns.fd, prestarted }
      return await addInterface(interfacePort(attaching, { netns, place }), begun(attaching))
    })
  } finally {
    await prestarted.discard()
  }
}

/** Adds what the configuration asks for to the interface of prevResult. */
async function addToInterface(addition: Addition<ChainedNetConf>, netns: OpenNetns): Promise<Result> {
  const { context, conf, files, key } = addition
  const { prevResult } = conf
  if (prevResult === undefined) throw new Error('config.ts lets no chained ADD come without a prevResult')
  const record = await intentFor(addition, netns.identity)
  if (!asksForAnything(conf, readNetwork(chainedFiles(files)))) {
    writeAdopted(files, { ...record, spec: emptySpec(key) })
    return prevResult
  }
  return await orUndo(addition, record, async () => {
    const attaching = { ...addition, record, names: namesOnce() }
    const place = { run: context.run, netnsFd: netns.fd }
    return await addChained(chainedPort(attaching, { netns, place }), { ...begun(attaching), prevResult })
  })
}

/** Delegated to: addresses only. The namespace is somebody else's to enter. */
async function addAddresses(addition: Addition<IpamNetConf>): Promise<Result> {
  const record = await intentFor(addition, identityOfNetns(addition.call.netns))
  return await orUndo(addition, record, async () => {
    const { key, conf } = addition
    return await addLease(leasePort({ ...addition, record, names: namesOnce() }), { key, conf })
  })
}

function begun<Conf extends OwnNetConf>({ key, conf, call, names }: Attaching<Conf>): Begun<Conf> {
  const mtu = conf.mtu === 'auto' ? autoMtu(conf, names) : conf.mtu
  return { key, conf, netns: call.netns, mtu, machineId: machineId() }
}

function autoMtu({ ipam }: OwnNetConf, names: NamesIn): number {
  return uplinkMtu(isIpv4Only(ipam) ? 'IPv4' : 'any', names) ?? ethernetMtu
}

/** Runs `body`; when it fails, everything made for the intent record is taken back before the error goes on. */
async function orUndo<T>(addition: Addition, record: AttachmentRecord, body: () => Promise<T>): Promise<T> {
  try {
    return await body()
  } catch (error) {
    const unreported = (await undo(addition, record)).filter((failure) => !isSameMissing(failure, error))
    for (const failure of unreported) process.stderr.write(`trestle: undoing ADD: ${failure.message}\n`)
    throw error
  }
}

/** Never throws: the error of the ADD counts. Where a step fails, the intent record is there for a later call. */
async function undo({ context, files, call, conf }: Addition, record: AttachmentRecord): Promise<readonly Error[]> {
  const failures: Error[] = []
  const attempt = async (step: () => Promise<unknown>) => {
    await step().catch((failure: Error) => failures.push(failure))
  }
  await attempt(async () => {
    const stored = findRecords(files, record.key)
    const latest = (stored.find(({ isPending }) => isPending) ?? stored[0])?.record ?? record
    failures.push(...(await teardown(contextOfTeardown(context), files, latest)))
  })
  const { ipam, stdin } = conf
  if (ipam.kind === 'delegated') {
    // CNI spec 1.1.0, section 4: a delegated plugin gets a DEL when ADD fails, whether or not it was reached.
    const lease = { type: ipam.type, path: call.path, stdin, attachment: call }
    await attempt(() => returnLease(context, lease))
  }
  await attempt(() => removeWhenEmpty(contextOfTeardown(context), files))
  return failures
}

/** Whether DEL failed as ADD did because the plugin is absent: it has nothing to undo, and the ADD's error says so. */
function isSameMissing(failure: Error, error: unknown): boolean {
  const isDelegate = failure instanceof CniError && failure.code === CniCode.delegateFailed
  return isDelegate && error instanceof CniError && failure.message === error.message
}
