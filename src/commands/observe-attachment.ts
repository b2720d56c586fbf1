// SPDX-License-Identifier: Apache-2.0
// Looks at everything that a list of operations is about, side by side, a process for each kind.

import { forwardingKey } from '../plan/network.ts'
import type { Observed } from '../plan/observed.ts'
import type { Op } from '../plan/op.ts'
import { closeNetns } from '../system/netns.ts'
import {
  observeHost,
  observePod,
  observePodSysctls,
  observeQueues,
  observeSysctls,
  observeTable,
  observeVlans,
} from '../system/observe.ts'
import type { CallContext } from './context.ts'

/** What the kernel has of what `ops` say. `path`: the pod's namespace. */
export async function observeFor(context: CallContext, path: string, ops: readonly Op[]): Promise<Observed> {
  const { run } = context
  const netns = context.openNetns(path)
  const has = (test: (op: Op) => boolean) => ops.some(test)
  const podKeys = ops.flatMap((op) => (op.kind === 'sysctl.pod' ? [op.key] : []))
  const queued = unique(ops.flatMap((op) => (op.kind === 'qdisc.tbf' || op.kind === 'qdisc.ingress' ? [op.dev] : [])))
  try {
    const [host, pod, table, bridgeTable, queues, podSysctls, vlans] = await Promise.all([
      observeHost(run, unique(ops.filter((op) => op.in === 'host').flatMap(linkOf)), ops.flatMap(hostRouteOf)),
      observePod(run, netns.fd, ruleFamilies(ops)),
      has((op) => op.kind === 'nft.base' && op.table === 'inet') ? observeTable(run, 'inet') : undefined,
      has((op) => op.kind === 'nft.base' && op.table === 'bridge') ? observeTable(run, 'bridge') : undefined,
      queued.length > 0 ? observeQueues(run, queued) : undefined,
      podKeys.length > 0 ? observePodSysctls(run, netns.fd, podKeys) : undefined,
      has((op) => op.kind === 'vlan.add') ? observeVlans(run) : undefined,
    ])
    const seen = { table, bridgeTable, queues, podSysctls, vlans }
    const looked = Object.entries(seen).filter(([, value]) => value !== undefined)
    return { host, pod, sysctls: observeSysctls(ops.flatMap(sysctlOf)), ...Object.fromEntries(looked) }
  } finally {
    closeNetns(netns)
  }
}

function linkOf(op: Op): readonly string[] {
  if ('dev' in op) return [op.dev]
  return 'name' in op ? [op.name] : []
}

function hostRouteOf(op: Op): readonly string[] {
  return op.kind === 'hostroute.replace' ? [op.dst] : []
}

function ruleFamilies(ops: readonly Op[]): readonly (4 | 6)[] {
  return ops.flatMap((op) => (op.kind === 'rule.add' ? [op.from.includes(':') ? 6 : 4] : []))
}

function sysctlOf(op: Op): readonly string[] {
  if (op.kind === 'forwarding.on') return [forwardingKey(op.family)]
  return op.kind === 'sysctl.write' ? [op.key] : []
}

function unique(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)]
}
