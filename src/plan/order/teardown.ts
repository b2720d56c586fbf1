// SPDX-License-Identifier: Apache-2.0
// The order in which an attachment is torn down, from its record alone: DEL, the teardown of a failed ADD, GC, and what a
// killed call left. No failure stops it: what is left stays in the record with its addresses and ports.

import type { AttachmentSpec, HostPort } from '../model/attachment.ts'
import type { Op } from '../model/op.ts'
import { podTeardownOps, teardownOps } from '../modes/attach.ts'
import { loopbackDownOps } from '../modes/loopback.ts'
import { flowsAfterDel } from '../recovery/orphan-flows.ts'
import { type Plan, planOf } from './stage.ts'

/** What is around an attachment that goes. */
export interface Removal {
  /** A link group that is the caller's alone. */
  readonly group: number
  /** Which of the attachment's links are on the host. */
  readonly links: ReadonlySet<string>
  /** Whether its sandbox is still there. */
  readonly hasPod: boolean
  /** Removals of chains of port conditions that nobody else has. */
  readonly chains: readonly Op[]
}

/** Pod, then host: links, limits and rules, each tool beside the others. A link that is gone needs no process. */
export function teardownPlan(spec: AttachmentSpec, { group, links, hasPod, chains }: Removal): Plan {
  const host = teardownOps(spec, group).filter((op, _, all) => isStillNeeded(op, all, links))
  return planOf({
    id: 'teardown',
    because: 'the record says what was made',
    stages: [
      { id: 'pod', run: { kind: 'batch', ops: hasPod ? podTeardownOps(spec) : [] }, after: [] },
      { id: 'host', run: { kind: 'batch', ops: [...host, ...chains] }, after: ['pod'] },
    ],
  })
}

/** Flows into the pod end when its rules are gone, before others may have its addresses and ports. */
export function endFlows(ports: readonly HostPort[]): Plan {
  return planOf({
    id: 'flows',
    because: 'nothing leads to the pod any more',
    stages: [{ id: 'flows', run: { kind: 'flows', verb: 'delete', flows: flowsAfterDel(ports) }, after: [] }],
  })
}

/** Gives the lease of a delegated plugin back, when all our own work is done. */
export function leaseRemoval(type: string): Plan {
  return {
    id: 'lease',
    because: `${type} has leased the addresses`,
    stages: [{ id: 'lease', run: { kind: 'delegate', type, verb: 'DEL' }, after: [] }],
  }
}

/** mode `loopback`: lo goes down. */
export const loopbackRemoval: Plan = {
  id: 'teardown',
  because: 'mode "loopback" sets lo down',
  stages: [{ id: 'lo', run: { kind: 'batch', ops: loopbackDownOps }, after: [] }],
}

/** The links on the host that a removal is about. */
export function linksOf(spec: AttachmentSpec): readonly string[] {
  return teardownOps(spec, 0).flatMap((op) => ('dev' in op ? [op.dev] : []))
}

/** containerd's second DEL then starts no process. */
function isStillNeeded(op: Op, all: readonly Op[], links: ReadonlySet<string>): boolean {
  const isOfLink = op.kind === 'link.del' || op.kind === 'link.group' || op.kind === 'qdisc.del'
  if (isOfLink || op.kind === 'port.isolation') return links.has(op.dev)
  if (op.kind === 'group.del') return all.some((other) => other.kind === 'link.group' && links.has(other.dev))
  return true
}
