// SPDX-License-Identifier: Apache-2.0
// Carries an ADD out as its order says (plan/order), from its intent record to its answer; what fails is undone.

import { isIpv4Only } from '../../cni/config/config-mtu.ts'
import { CniError } from '../../cni/model/error.ts'
import type { ChainedNetConf, InterfaceNetConf, IpamNetConf, NetConf } from '../../cni/model/net-conf.ts'
import type { Result } from '../../cni/model/result.ts'
import type { AttachmentRecord } from '../../plan/model/record.ts'
import { asksForAnything } from '../../plan/modes/chained.ts'
import type { AddFacts } from '../../plan/order/facts.ts'
import { nextOfAdd } from '../../plan/order/next.ts'
import { type NamesIn, namesOnce } from '../../system/files/files.ts'
import { chainedFiles } from '../../system/files/state.ts'
import { linkCommands } from '../../system/kernel/execute.ts'
import { identityOfNetns, type OpenNetns } from '../../system/kernel/netns.ts'
import { uplinkMtu } from '../../system/kernel/uplink.ts'
import { type Prestarted, prestart } from '../../system/process/prestart.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { inFiles } from '../../system/process/runner.ts'
import { finish, readNetwork } from '../../system/store/records.ts'
import { carryOut } from '../call/carry-out.ts'
import { doorOf, placeOf } from './door.ts'
import { type Addition, intentFor, teardownOnError } from './intent.ts'

/** MTU of Ethernet, where no default route tells better. */
const ethernetMtu = 1500

/** The pod's interface and all that belongs to it. Throws CniError as the order says. */
export async function attach(addition: Addition<InterfaceNetConf>, netns: OpenNetns): Promise<Result> {
  const record = await intentFor(addition, netns.identity)
  const prestarted = prestart(inFiles(addition.context.run), linkCommands(netns.fd))
  const context = { ...addition.context, run: prestarted.run }
  try {
    return await teardownOnError(addition, record, () =>
      carryOutAdd({ ...addition, context }, { netns, record, prestarted }),
    )
  } finally {
    await prestarted.discard()
  }
}

/** Adds what the configuration asks for to the interface of prevResult. */
export async function attachChained(addition: Addition<ChainedNetConf>, netns: OpenNetns): Promise<Result> {
  const { conf, files, key } = addition
  const { prevResult } = conf
  if (prevResult === undefined) {
    throw new CniError('chained-first', 'mode: "chained" needs a prevResult', {
      details: 'put this plugin after the one that makes the interface, or leave "mode" out',
    })
  }
  const record = await intentFor(addition, netns.identity)
  if (!asksForAnything(conf, readNetwork(chainedFiles(files)))) {
    finish(files, key)
    return prevResult
  }
  return await teardownOnError(addition, record, () => carryOutAdd(addition, { netns, record }))
}

/** Delegated to: addresses only. The namespace is somebody else's to enter. */
export async function lease(addition: Addition<IpamNetConf>): Promise<Result> {
  const record = await intentFor(addition, identityOfNetns(addition.call.netns))
  return await teardownOnError(addition, record, () => carryOutAdd(addition, { record }))
}

/** What an ADD has by the time its order begins. */
interface Begun {
  readonly netns?: OpenNetns
  readonly record: AttachmentRecord
  readonly prestarted?: Prestarted
}

async function carryOutAdd(addition: Addition, { prestarted, ...begun }: Begun): Promise<Result> {
  const { context, conf, key, call } = addition
  const attaching = { ...addition, ...begun, names: namesOnce() }
  const place = { ...placeOf(attaching), prestarted }
  const facts: AddFacts = {
    key,
    conf,
    netns: call.netns,
    mtu: conf.mode === 'ipam' ? 0 : conf.mtu === 'auto' ? autoMtu(conf, attaching.names) : conf.mtu,
    machineId: machineId(),
    learnt: {},
    runs: [],
  }
  return await carryOut(context, { place, door: doorOf(attaching), next: nextOfAdd }, facts)
}

function autoMtu({ ipam }: NetConf, names: NamesIn): number {
  return uplinkMtu(isIpv4Only(ipam) ? 'IPv4' : 'any', names) ?? ethernetMtu
}
