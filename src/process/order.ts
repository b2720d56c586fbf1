// SPDX-License-Identifier: Apache-2.0
// The only scheduler: which operations are one process, and which processes wait for which. What does not depend on each
// other runs side by side. The order was measured (docs/design.md, "The order of an ADD").

import { type Batch, toBatch, toolOf } from '../kernel/batch.ts'
import { tableOf } from '../kernel/nft-table.ts'
import type { Op } from '../kernel/operation.ts'
import { readSysctl } from '../kernel/proc.ts'

export type StepName =
  /** Settings of the host before anything else: forwarding, and those of the bridge. */
  | 'first settings'
  | 'links'
  | 'vlans'
  /** Interfaces of the pod get their names, where settings name them before the addresses come. */
  | 'pod names'
  | 'rules'
  | 'bridge rules'
  /** Settings of the pod before its addresses: duplicate address detection. */
  | 'detection'
  | 'pod'
  | 'pod rules'
  | 'queues'
  | 'pod settings'
  /** Settings of the host that the rules guard. */
  | 'last settings'

/** One process, or settings that trestle writes itself. It starts when the steps of `after` have ended well. */
export interface Step {
  readonly name: StepName
  readonly after: readonly StepName[]
  readonly batch: Batch
}

/** Adding: links before what is on them, rules beside the links, the pod's side when its interface is there. */
const orderOfAddition: Readonly<Record<StepName, readonly StepName[]>> = {
  'first settings': [],
  links: [],
  vlans: ['links'],
  rules: [],
  'bridge rules': [],
  'pod names': ['links'],
  detection: ['links', 'pod names'],
  pod: ['links', 'detection'],
  'pod rules': ['pod'],
  // tc of iproute2 7 learns the numbers of links when it starts: it starts when they are there.
  queues: ['links'],
  'pod settings': ['links', 'pod', 'pod rules'],
  // Everything but the pod's own settings guards or makes what these are about.
  'last settings': ['links', 'vlans', 'rules', 'bridge rules', 'pod', 'queues'],
}

/** Removing: the pod's side first, since the host's links take it along; then all of the host's side at once. */
const orderOfRemoval: Readonly<Record<StepName, readonly StepName[]>> = {
  'first settings': [],
  'pod names': [],
  detection: [],
  pod: [],
  'pod rules': [],
  'pod settings': ['pod'],
  queues: ['pod', 'pod rules'],
  vlans: ['pod', 'pod rules'],
  links: ['pod', 'pod rules', 'queues'],
  rules: ['pod', 'pod rules'],
  'bridge rules': ['pod', 'pod rules'],
  'last settings': ['links', 'rules'],
}

export function stepsToAdd(ops: readonly Op[]): readonly Step[] {
  return stepsOf(ops, orderOfAddition)
}

export function stepsToRemove(ops: readonly Op[]): readonly Step[] {
  return stepsOf(ops, orderOfRemoval)
}

function stepsOf(ops: readonly Op[], order: Readonly<Record<StepName, readonly StepName[]>>): readonly Step[] {
  const hasDetection = ops.some((op) => stepOf(op, false) === 'detection')
  const byName = Map.groupBy(ops, (op) => stepOf(op, hasDetection))
  const isThere = (name: StepName) => byName.has(name)
  // Each order names a step behind those that it waits for.
  const names = Object.keys(order) as readonly StepName[]
  return names.filter(isThere).map((name) => {
    const batch = toBatch(byName.get(name) ?? [], kernelRelease(byName.get(name) ?? []))
    return { name, after: order[name].filter(isThere), batch }
  })
}

function stepOf(op: Op, hasDetection: boolean): StepName {
  switch (toolOf(op)) {
    case 'nft':
      return isOfBridgeTable(op) ? 'bridge rules' : 'rules'
    case 'tc':
      return 'queues'
    case 'bridge':
      return 'vlans'
    case 'ip6':
      return 'pod rules'
    case 'file':
      return op.kind === 'sysctl.set' && op.when === 'first' ? 'first settings' : 'last settings'
    case 'sysctl':
      return op.kind === 'sysctl.set' && op.when === 'first' ? 'detection' : 'pod settings'
    default:
      if (op.place === 'host') return 'links'
      return hasDetection && op.kind === 'link.set' && op.set.name !== undefined ? 'pod names' : 'pod'
  }
}

/** Two tables in one input: nft 1.0.6 finds only the one that it has read (src/cache.c). */
function isOfBridgeTable(op: Op): boolean {
  if ('element' in op) return tableOf(op.element.set) === 'bridge'
  return 'table' in op && op.table === 'bridge'
}

/** Some expressions depend on the kernel; node:os has the release of the machine that the snapshot was built on. */
function kernelRelease(ops: readonly Op[]): string {
  return ops.some(({ kind }) => kind === 'table.set') ? (readSysctl('kernel/osrelease') ?? '') : ''
}
