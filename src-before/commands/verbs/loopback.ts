// SPDX-License-Identifier: Apache-2.0
// mode `loopback`: ADD, CHECK and DEL of the pod's lo, as the upstream loopback plugin sets it up (docs/design.md,
// "Upstream loopback"). CNI_IFNAME is ignored, and nothing is left on the host, reserved or recorded.

import { familyOf } from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import type { Invocation } from '../../cni/invocation.ts'
import type { Result } from '../../cni/result.ts'
import type { LoopbackNetConf } from '../../config/net-conf.ts'
import type { ObservedLink } from '../../model/observed.ts'
import type { Op } from '../../model/op.ts'
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

const dev = 'lo'

/** Sets lo up, and shows the addresses that the kernel then gives it. */
export const loopbackOps: readonly Op[] = [
  { in: 'pod', kind: 'link.up', dev, why: 'set lo up in the pod' },
  { in: 'pod', kind: 'addr.show', dev, why: 'see the addresses of lo' },
]

export const loopbackDownOps: readonly Op[] = [{ in: 'pod', kind: 'link.down', dev, why: 'set lo down in the pod' }]

/** The result: the first address of each family. Throws CniError 7 when lo has another than loopback addresses. */
export function loopbackResult(link: ObservedLink, sandbox: string): Result {
  const foreign = link.addresses.find((address) => !isLoopback(address))
  if (foreign !== undefined) {
    throw new CniError('loopback-other-address', `loopback interface found with non-loopback address "${foreign}"`, {
      details: `take it off: nsenter --net=${sandbox} ip addr del ${foreign} dev lo`,
    })
  }
  const first = [4, 6].map((family) => link.addresses.find((address) => familyOf(address) === family))
  const ips = first.filter((address) => address !== undefined).map((address) => ({ address, interface: 0 }))
  return { interfaces: [{ name: dev, mac: link.mac, sandbox }], ips, routes: [] }
}

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1/128'
}
