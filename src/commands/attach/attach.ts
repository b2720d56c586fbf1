// SPDX-License-Identifier: Apache-2.0
// Carries an ADD out as its order says (plan/order), from its claim to its answer; what fails is undone.

import { CniError } from '../../cni/model/error.ts'
import type { Result } from '../../cni/model/result.ts'
import type { AttachmentRecord } from '../../plan/model/record.ts'
import { asksForAnything } from '../../plan/modes/chained.ts'
import type { AddFacts } from '../../plan/order/facts.ts'
import { nextOfAdd } from '../../plan/order/next.ts'
import { chainedFiles } from '../../system/files/state.ts'
import { linkCommands } from '../../system/kernel/execute.ts'
import type { OpenNetns } from '../../system/kernel/netns.ts'
import { uplinkMtu } from '../../system/kernel/uplink.ts'
import { type Ahead, startAhead } from '../../system/process/ahead.ts'
import { machineId } from '../../system/process/stamp.ts'
import { finish, readNetwork } from '../../system/store/records.ts'
import { carryOut } from '../call/carry-out.ts'
import { type Addition, claimFor, undoneOnError } from './claim.ts'
import { doorOf } from './door.ts'

/** MTU of Ethernet, where no default route tells better. */
const ethernetMtu = 1500

/** The pod's interface and all that belongs to it. Throws CniError as the order says. */
export async function attach(addition: Addition, netns: OpenNetns): Promise<Result> {
  const record = await claimFor(addition, netns.stamp)
  const ahead = startAhead(addition.context.run, linkCommands(netns.fd))
  const context = { ...addition.context, run: ahead.run }
  try {
    return await undoneOnError(addition, record, () => carryOutAdd({ ...addition, context }, { netns, record, ahead }))
  } finally {
    await ahead.discard()
  }
}

/** Adds what the configuration asks for to the interface of prevResult. */
export async function attachChained(addition: Addition, netns: OpenNetns): Promise<Result> {
  const { conf, files, key } = addition
  const { prevResult } = conf
  if (prevResult === undefined) {
    throw new CniError('chained-first', 'mode: "chained" needs a prevResult', {
      details: 'put this plugin after the one that makes the interface, or leave "mode" out',
    })
  }
  const record = await claimFor(addition, netns.stamp)
  if (!asksForAnything(conf, readNetwork(chainedFiles(files)))) {
    finish(files, key)
    return prevResult
  }
  return await undoneOnError(addition, record, () => carryOutAdd(addition, { netns, record }))
}

/** What an ADD has by the time its order begins. */
interface Begun {
  readonly netns: OpenNetns
  readonly record: AttachmentRecord
  readonly ahead?: Ahead
}

async function carryOutAdd(addition: Addition, { netns, record, ahead }: Begun): Promise<Result> {
  const { context, conf, key, call } = addition
  const place = { run: context.run, netnsFd: netns.fd, ahead }
  const facts: AddFacts = {
    key,
    conf,
    netns: call.netns,
    mtu: conf.mtu === 'auto' ? (uplinkMtu() ?? ethernetMtu) : conf.mtu,
    machineId: machineId(),
    learnt: {},
    runs: [],
  }
  return await carryOut(context, { place, door: doorOf({ ...addition, record, netns }), next: nextOfAdd }, facts)
}
