// SPDX-License-Identifier: Apache-2.0
// The plans that take an attachment down. commands/teardown/remove-attachment.ts has their order.

import { CniError } from '../../cni/error.ts'
import { chainRemovals, chainsBehind } from '../../features/port-conditions.ts'
import { flowsAfterDel } from '../../features/port-flows.ts'
import type { AttachmentKey } from '../../model/attachment.ts'
import { type Element, elementOps } from '../../model/elements.ts'
import type { Op } from '../../model/op.ts'
import { proofOfLinks, proofOfRules } from './proof.ts'
import type { Removal } from './removal.ts'
import { type EarlyProof, type Plan, planOf, type Stage } from './stage.ts'

/**
 * The result of a teardown. `refused`: objects that the kernel keeps in a sandbox that lives on, which is the pod's own
 * doing.
 */
export interface TornDown {
  readonly failures: readonly Error[]
  readonly refused: readonly Error[]
}

/** The look before a removal: the links that are there, and the condition chains that no other attachment has. */
export interface Present {
  readonly links: ReadonlySet<string>
  readonly unused: readonly string[]
}

/** A removal to be made. `elements`: of an attachment without a record; `isWhole`: flows end with it. */
export interface TearingDown {
  readonly removal: Removal
  readonly hasPod: boolean
  readonly present: Present
  readonly elements: readonly Element[]
  readonly isWhole: boolean
}

/**
 * Pod, then host: links, limits and rules, each tool beside the others. A link that is gone needs no process. Flows
 * into the pod end when its rules are gone, before others may have its addresses and ports.
 */
export function teardownPlan({ removal, hasPod, present, elements, isWhole }: TearingDown): Plan {
  const own = removal.host.filter((op, _, all) => isStillNeeded(op, all, present.links))
  const rules = [...elementOps(elements, 'nft.del'), ...chainRemovals([...present.unused, ...chainsBehind(elements)])]
  const links = own.filter((op) => !isOfRules(op))
  const stages: readonly Stage[] = [
    { id: 'pod', run: { kind: 'batch', ops: hasPod ? removal.pod : [], tolerates: 'refusals' }, after: [] },
    removalStage('links', links, proofOfLinks),
    removalStage('rules', [...own.filter(isOfRules), ...rules], proofOfRules),
  ]
  const flows = isWhole ? [flowsStage(removal, stages)] : []
  return planOf({
    id: 'teardown',
    because: removal.hasRecord ? 'the record says what was made' : 'its ids tell what was made',
    stages: [...stages, ...flows],
  })
}

/** Removes the condition chains that the other attachments have left since the look. `isWhole`: flows end with it. */
export function chainsPlan(removal: Removal, unused: readonly string[], isWhole: boolean): Plan {
  const chains: Stage = {
    id: 'chains',
    run: { kind: 'batch', ops: chainRemovals(unused), tolerates: 'absent' },
    after: [],
  }
  return planOf({
    id: 'give back',
    because: 'whoever had its chains is known by now',
    stages: [chains, ...(isWhole ? [flowsStage(removal, [chains])] : [])],
  })
}

function flowsStage({ reserved }: Removal, after: readonly Stage[]): Stage {
  const flows = flowsAfterDel(reserved?.ports ?? [])
  return { id: 'flows', run: { kind: 'flows', verb: 'delete', flows }, after: after.map(({ id }) => id) }
}

/** Whether operations say rules: calls that rebuild rules are waited for then. */
export function hasRules({ host }: Removal): boolean {
  return host.some(({ kind }) => kind === 'nft.del')
}

/** The kernel ends a removal with a grace period. The stage does not wait for it where an earlier proof shows the end. */
function removalStage(id: string, ops: readonly Op[], proofOf: (ops: readonly Op[]) => EarlyProof | undefined): Stage {
  const proof = proofOf(ops)
  return { id, run: { kind: 'batch', ops, tolerates: 'absent' }, after: ['pod'], anyway: true, ...(proof && { proof }) }
}

function isOfRules({ kind }: Op): boolean {
  return kind.startsWith('nft.')
}

/** The failure of a look for an attachment's elements. */
export function rulesLeft({ ifName, containerId }: AttachmentKey, cause: Error): CniError {
  return new CniError('cleanup-incomplete', `rules of ${ifName} of container ${containerId} may be left`, {
    details: `${cause.message}\nits reservations stay until a later call removes them`,
    cause,
  })
}

/** The links on the host that operations are about. */
export function linksIn(ops: readonly Op[]): readonly string[] {
  return ops.flatMap((op) => ('dev' in op ? [op.dev] : []))
}

/** containerd's second DEL then starts no process. */
function isStillNeeded(op: Op, all: readonly Op[], links: ReadonlySet<string>): boolean {
  const isOfLink = op.kind === 'link.del' || op.kind === 'link.group' || op.kind === 'qdisc.del'
  if (isOfLink || op.kind === 'port.isolation') return links.has(op.dev)
  if (op.kind === 'group.del') return all.some((other) => other.kind === 'link.group' && links.has(other.dev))
  return true
}
