// SPDX-License-Identifier: Apache-2.0
// mode `loopback`: ADD, CHECK and DEL of the pod's lo. CNI_IFNAME is ignored.

import { CniError } from '../../cni/model/error.ts'
import type { Invocation } from '../../cni/model/invocation.ts'
import type { DelConf } from '../../cni/model/net-conf.ts'
import type { Result } from '../../cni/model/result.ts'
import { readDocuments, readLinks } from '../../compile/read-ip.ts'
import type { ObservedLink } from '../../plan/model/observed.ts'
import type { Op } from '../../plan/model/op.ts'
import { loopbackDifference, loopbackOps } from '../../plan/modes/loopback.ts'
import type { AddFacts } from '../../plan/order/facts.ts'
import { nextOfAdd } from '../../plan/order/next.ts'
import { loopbackRemoval } from '../../plan/order/removal.ts'
import { networkFiles } from '../../system/files/state.ts'
import { execute } from '../../system/kernel/execute.ts'
import { closeNetns, identityOfNetns, type OpenNetns } from '../../system/kernel/netns.ts'
import { carryOut } from '../call/carry-out.ts'
import type { CallContext } from '../call/context.ts'
import { remove } from '../teardown/removal.ts'
import type { Addition } from './intent.ts'

/** Sets lo up, as the order says. Nothing is reserved, so there is no intent record. */
export async function addLoopback({ context, call, conf, key }: Addition, netns: OpenNetns): Promise<Result> {
  const facts: AddFacts = { key, conf, netns: call.netns, mtu: 0, machineId: '', learnt: {}, runs: [] }
  const order = { place: { run: context.run, netnsFd: netns.fd }, door: async () => undefined, next: nextOfAdd }
  return await carryOut(context, order, facts)
}

/** Throws CniError 107 when lo is down. */
export async function checkLoopback(context: CallContext, call: Invocation): Promise<void> {
  const netns = context.openNetns(call.netns)
  try {
    const looking = loopbackOps.filter((op) => op.kind === 'addr.show')
    const found = loopbackDifference(await showLo(context, netns, looking))
    if (found[0] === undefined) return
    throw new CniError('loopback-down', found[0], {
      details: `set it up: nsenter --net=${call.netns} ip link set lo up`,
    })
  } finally {
    closeNetns(netns)
  }
}

/** Sets lo down where the namespace is there. Never throws: a namespace that is gone took it along. */
export async function delLoopback(context: CallContext, call: Invocation, { name, role }: DelConf): Promise<void> {
  const key = { network: name, containerId: call.containerId, ifName: call.ifName, role }
  const at = { files: networkFiles(name), netns: identityOfNetns(call.netns) }
  const failures = await remove(context, loopbackRemoval(key), at)
  for (const failure of failures) process.stderr.write(`trestle: DEL: ${failure.message}\n`)
}

async function showLo(context: CallContext, netns: OpenNetns, ops: readonly Op[]): Promise<ObservedLink> {
  const printed = await execute({ run: context.run, netnsFd: netns.fd }, ops)
  const lo = readLinks(readDocuments(printed.map((each) => each.stdout).join('\n'))).get('lo')
  if (lo !== undefined) return lo
  throw new CniError('loopback-missing', 'the sandbox shows no lo', { details: 'every network namespace has one' })
}
