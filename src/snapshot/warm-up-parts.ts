// SPDX-License-Identifier: Apache-2.0
// An ADD that the build cannot run as it is: a network with a gateway would switch this machine's forwarding on, and a
// usual one needs a bridge that is there. Its order is carried out without such settings.

import { closeSync } from 'node:fs'
import type { Invocation } from '../cni/invocation.ts'
import type { Result } from '../cni/result.ts'
import { interfacePort } from '../commands/attach/attach-port.ts'
import { intentFor } from '../commands/attach/intent.ts'
import { addInterface } from '../commands/attach/interface.ts'
import type { InterfacePort } from '../commands/attach/ports.ts'
import type { CallContext } from '../commands/call/context.ts'
import type { NetConf } from '../config/net-conf.ts'
import { interfaceConf } from '../drivers/drivers.ts'
import type { Op } from '../model/op.ts'
import type { Plan } from '../plan/order/stage.ts'
import { namesOnce } from '../system/files/files.ts'
import { networkFiles } from '../system/files/state.ts'
import { linkCommands } from '../system/kernel/execute.ts'
import { inFiles, prestart } from '../system/process/runner.ts'

/** A pod network in the short form, with what a pod may ask for. */
export const podNetwork = {
  cniVersion: '1.1.0',
  name: 'warm-up',
  type: 'trestle',
  podcidr: ['10.240.0.0/24', 'fd00:240::/64'],
  firewall: { ingressPolicy: 'same-bridge' },
  bandwidth: { ingressRate: 1e8, ingressBurst: 1e7 },
}

/** What `nft -j` answers in the warm-up. */
export const tableListing = JSON.stringify({
  nftables: [
    { chain: { name: 'forward' } },
    { rule: { chain: 'forward', comment: 'none' } },
    { set: { name: 'masq4', elem: [{ prefix: { addr: '10.240.0.0', len: 24 } }, { concat: ['tcp', 1] }] } },
  ],
})

/** The story of an ADD with tools that are harmless. */
export async function warmUpAdd(context: CallContext, call: Invocation, read: NetConf): Promise<Result> {
  const conf = interfaceConf(read)
  const key = { network: conf.name, containerId: call.containerId, ifName: call.ifName, role: conf.role }
  const addition = { context, call, conf, key, files: networkFiles(conf.name) }
  const netns = context.openNetns(call.netns)
  const record = await intentFor(addition, netns.identity)
  const prestarted = prestart(inFiles(context.run), linkCommands(netns.fd))
  const place = { run: prestarted.run, netnsFd: netns.fd, prestarted }
  const real = interfacePort({ ...addition, record, names: namesOnce() }, { netns, place })
  const port: InterfacePort = {
    ...real,
    run: async (plan) => await real.run(withoutFiles(plan)),
    // As if the bridge were there: the second ADD finds the network as it is to be.
    lookAtKnown: () => ({ ...real.lookAtKnown(), hasBridge: true, forwarding: [4, 6] }),
  }
  try {
    return await addInterface(port, { key, conf, netns: call.netns, mtu: 1500, machineId: '' })
  } finally {
    await prestarted.discard()
    closeSync(netns.fd)
  }
}

/** The build must not change a setting of this machine. */
function withoutFiles(plan: Plan): Plan {
  const isFile = ({ kind }: Op) => kind === 'forwarding.on' || kind === 'sysctl.write'
  const stages = plan.stages.map(({ run, ...stage }) => ({
    ...stage,
    run: run.kind === 'batch' ? { ...run, ops: run.ops.filter((op) => !isFile(op)) } : run,
  }))
  return { ...plan, stages }
}
