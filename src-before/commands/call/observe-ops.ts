// SPDX-License-Identifier: Apache-2.0
// Looks at everything that a list of operations is about, side by side, a process for each kind.

import { familyOf } from '../../cni/address.ts'
import { defined } from '../../cni/json.ts'
import type { Observed } from '../../model/observed.ts'
import { forwardingKey, type Op } from '../../model/op.ts'
import { closeNetns } from '../../system/kernel/netns.ts'
import {
  observeHost,
  observePodWith,
  observeQueues,
  observeSysctls,
  observeTable,
  observeVlans,
} from '../../system/kernel/observe.ts'
import type { Run } from '../../system/process/runner.ts'
import type { CallContext } from './context.ts'

/** What the kernel has of what `ops` say. `path`: the pod's namespace. */
export async function observeFor(context: CallContext, path: string, ops: readonly Op[]): Promise<Observed> {
  const { run } = context
  const netns = context.openNetns(path)
  const podKeys = ops.flatMap((op) => (op.kind === 'sysctl.pod' ? [op.key] : []))
  try {
    const [host, inPod, shared] = await Promise.all([
      observeHost(
        run,
        unique(ops.filter((op) => op.in === 'host').flatMap(linkOf)),
        ops.flatMap(hostRouteOf).map((dst) => ['exact', dst] as const),
      ),
      observePodWith(run, netns.fd, { families: ruleFamilies(ops), keys: podKeys }),
      observeBesideLinks(run, ops),
    ])
    return { host, ...inPod, ...shared }
  } finally {
    closeNetns(netns)
  }
}

/** The same of the host alone, but for its links and their routes: rules, queues, VLANs, sysctls. */
export async function observeBesideLinks(run: Run, ops: readonly Op[]): Promise<Omit<Observed, 'host' | 'pod'>> {
  const has = (test: (op: Op) => boolean) => ops.some(test)
  const queued = unique(ops.flatMap((op) => (op.kind === 'qdisc.tbf' || op.kind === 'qdisc.ingress' ? [op.dev] : [])))
  const [table, bridgeTable, queues, vlans] = await Promise.all([
    has((op) => op.kind === 'nft.base' && op.table === 'inet') ? observeTable(run, 'inet') : undefined,
    has((op) => op.kind === 'nft.base' && op.table === 'bridge') ? observeTable(run, 'bridge') : undefined,
    queued.length > 0 ? observeQueues(run, queued) : undefined,
    has((op) => op.kind === 'vlan.add') ? observeVlans(run) : undefined,
  ])
  const sysctls = observeSysctls(ops.flatMap(sysctlOf))
  return { sysctls, ...defined({ table, bridgeTable, queues, vlans }) }
}

function linkOf(op: Op): readonly string[] {
  if ('dev' in op) return [op.dev]
  return 'name' in op ? [op.name] : []
}

function hostRouteOf(op: Op): readonly string[] {
  return op.kind === 'hostroute.replace' ? [op.dst] : []
}

function ruleFamilies(ops: readonly Op[]): readonly (4 | 6)[] {
  return ops.flatMap((op) => (op.kind === 'rule.add' ? [familyOf(op.from)] : []))
}

function sysctlOf(op: Op): readonly string[] {
  if (op.kind === 'forwarding.on') return [forwardingKey(op.family)]
  return op.kind === 'sysctl.write' ? [op.key] : []
}

function unique(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)]
}
