// SPDX-License-Identifier: Apache-2.0
// mode `loopback`: ADD, CHECK and DEL of the pod's lo. CNI_IFNAME is ignored, and nothing is reserved or recorded.

import { CniError } from '../../cni/error.ts'
import type { Invocation } from '../../cni/invocation.ts'
import type { Result } from '../../cni/result.ts'
import type { LoopbackNetConf } from '../../config/net-conf.ts'
import { loopbackDownOps, loopbackOps, loopbackResult } from '../../drivers/loopback.ts'
import type { ObservedLink } from '../../model/observed.ts'
import { execute, executeAll } from '../../system/kernel/execute.ts'
import { closeNetns, identityOfNetns, netnsState, type OpenNetns } from '../../system/kernel/netns.ts'
import { CommandError } from '../../tools/command-error.ts'
import { readDocuments, readLinks } from '../../tools/ip.ts'
import { type CallContext, openIfThere } from '../call/context.ts'

/** Sets lo up, in one process that also shows its addresses. */
export async function addLoopback(context: CallContext, conf: LoopbackNetConf, netns: OpenNetns): Promise<Result> {
  const result = loopbackResult(await showLo(context, netns, loopbackOps), netns.identity.path)
  return conf.prevResult ?? result
}

/** Throws CniError 107 when lo is down. */
export async function checkLoopback(context: CallContext, call: Invocation): Promise<void> {
  const netns = context.openNetns(call.netns)
  try {
    const looking = loopbackOps.filter((op) => op.kind === 'addr.show')
    if ((await showLo(context, netns, looking)).up) return
    throw new CniError('loopback-down', 'loopback interface is down', {
      details: `set it up: nsenter --net=${call.netns} ip link set lo up`,
    })
  } finally {
    closeNetns(netns)
  }
}

/** Sets lo down where the namespace is there. Never throws: a namespace that is gone took lo along. */
export async function delLoopback(context: CallContext, { netns: path }: Invocation): Promise<void> {
  const netns = netnsState(identityOfNetns(path)) === 'live' ? openIfThere(context, path) : undefined
  if (netns === undefined) return
  const failures = await executeAll({ run: context.cleanup, netnsFd: netns.fd }, loopbackDownOps)
  for (const failure of failures) {
    const what = failure instanceof CommandError ? 'left in the sandbox' : 'DEL'
    process.stderr.write(`trestle: ${what}: ${failure.message}\n`)
  }
  closeNetns(netns)
}

async function showLo(context: CallContext, netns: OpenNetns, ops: typeof loopbackOps): Promise<ObservedLink> {
  const printed = await execute({ run: context.run, netnsFd: netns.fd }, ops)
  const lo = readLinks(readDocuments(printed.map(({ stdout }) => stdout).join('\n'))).get('lo')
  if (lo !== undefined) return lo
  throw new CniError('loopback-missing', 'the sandbox shows no lo', { details: 'every network namespace has one' })
}
