// SPDX-License-Identifier: Apache-2.0
// The order in which an attachment is torn down: DEL, the teardown of a failed ADD, GC, and what a killed call left. No
// failure in the kernel stops it: what is left stays in the record with its addresses and ports.

import { CniError } from '../../cni/model/error.ts'
import type { AttachmentKey } from '../model/attachment.ts'
import { elementOps } from '../model/elements.ts'
import type { Op } from '../model/op.ts'
import { flowsAfterDel } from '../recovery/orphan-flows.ts'
import { chainRemovals, chainsBehind } from '../rules/port-conditions.ts'
import type { AddFacts } from './facts.ts'
import { ran } from './progress.ts'
import { proofOfLinks, proofOfRules } from './proof.ts'
import type { Removal } from './removal.ts'
import { inTurn } from './reserve.ts'
import {
  type EarlyProof,
  errorsIn,
  failureIn,
  type Plan,
  type PlanRun,
  planOf,
  type Stage,
  type Step,
} from './stage.ts'

/** A teardown under way. `hasPod`: its sandbox is there, and has something of it. */
export interface DelFacts extends Pick<AddFacts, 'learnt' | 'runs'> {
  readonly removal: Removal
  readonly hasPod: boolean
}

/**
 * What became of a teardown. `refused`: what the kernel keeps in a sandbox that lives on, which is the pod's own doing.
 */
export interface TornDown {
  readonly failures: readonly Error[]
  readonly refused: readonly Error[]
}

/**
 * What comes next. Ends with an error where state cannot be written, or who rebuilds rules keeps it waiting too long.
 */
export function nextOfDel(facts: DelFacts): Step<TornDown> {
  const { removal, runs } = facts
  const last = runs.at(-1)
  if (last === undefined) return leave(removal)
  const error = stateFailure(last)
  if (error !== undefined) return error
  if (last.plan.id === 'leave') return teardown(facts)
  if (last.plan.id === 'teardown' && sharedChains(facts).length > 0) return lookAtChains(removal)
  if (last.plan.id === 'look at chains') return giveBack(facts)
  const failures = failuresOf(facts)
  if (failures.length > 0 && removal.hasRecord && ran(facts, 'write down') === undefined) return writeDown(failures)
  const refused = runs.flatMap(({ outcomes }) => outcomes.flatMap((outcome) => outcome.refused ?? []))
  return { result: { failures, refused } }
}

/**
 * Who rebuilds the rules of all pods reads the records under the machine's lock (set-up.ts). From the mark on it leaves
 * this attachment out, and who has read before the mark is waited for: what is removed is not written once more, even
 * where that call fails or is killed. Without rules, nobody writes any: `restore` only must not take a link that goes
 * for a lost one. Then what is there: a second DEL starts no process.
 */
function leave({ host, chains, reserved, key, isLeftOut }: Removal): Plan {
  const links = linksIn(host)
  const hasRules = host.some(({ kind }) => kind === 'nft.del')
  const isInTables = reserved === undefined && key.role !== 'ipam'
  return {
    id: 'leave',
    because: 'who restores what is lost leaves it out from now on',
    stages: inTurn([
      ...(isLeftOut ? [] : [{ id: 'mark', run: { kind: 'state', what: 'leaving' }, after: [] } as const]),
      ...(hasRules ? [{ id: 'rebuilds', run: { kind: 'wait', until: 'rebuilds' }, after: [] } as const] : []),
      { id: 'present', run: { kind: 'look', what: 'present', links, chains }, after: [] },
      ...(isInTables ? [{ id: 'orphans', run: { kind: 'look', what: 'orphan elements' }, after: [] } as const] : []),
    ]),
  }
}

/**
 * Pod, then host: links, limits and rules, each tool beside the others. A link that is gone needs no process. Flows
 * into the pod end when its rules are gone, before others may have its addresses and ports.
 */
function teardown(facts: DelFacts): Plan {
  const { removal, learnt, hasPod } = facts
  const { links = new Set<string>(), unused = [] } = learnt.present ?? {}
  const elements = learnt.orphans ?? []
  const own = removal.host.filter((op, _, all) => isStillNeeded(op, all, links))
  const rules = [...elementOps(elements, 'nft.del'), ...chainRemovals([...unused, ...chainsBehind(elements)])]
  const isWhole = sharedChains(facts).length === 0 && failuresOf(facts).length === 0
  return planOf({
    id: 'teardown',
    because: removal.hasRecord ? 'the record says what was made' : 'its ids tell what was made',
    stages: [
      { id: 'pod', run: { kind: 'batch', ops: hasPod ? removal.pod : [], tolerates: 'refusals' }, after: [] },
      removalStage(
        'links',
        own.filter((op) => !isOfRules(op)),
        proofOfLinks,
      ),
      removalStage('rules', [...own.filter(isOfRules), ...rules], proofOfRules),
      ...(isWhole ? lastStages(removal, ['pod', 'links', 'rules']) : []),
    ],
  })
}

/** Grace periods of the kernel, which end a removal, are nothing to wait for: where it is done, that shows. */
function removalStage(id: string, ops: readonly Op[], proofOf: (ops: readonly Op[]) => EarlyProof | undefined): Stage {
  const proof = proofOf(ops)
  return { id, run: { kind: 'batch', ops, tolerates: 'absent' }, after: ['pod'], anyway: true, ...(proof && { proof }) }
}

function isOfRules({ kind }: Op): boolean {
  return kind.startsWith('nft.')
}

/** Chains that others had. Who else had one may have left meanwhile, and seen us: whoever goes last sees nobody. */
function sharedChains({ removal, learnt }: DelFacts): readonly string[] {
  return removal.chains.filter((chain) => !learnt.present?.unused.includes(chain))
}

function lookAtChains({ chains }: Removal): Plan {
  return {
    id: 'look at chains',
    because: 'others had chains of its port conditions',
    stages: [{ id: 'present', run: { kind: 'look', what: 'present', links: [], chains }, after: [] }],
  }
}

function giveBack(facts: DelFacts): Plan {
  const { removal, learnt, runs } = facts
  const before = runs.flatMap(({ plan }) => plan.stages).flatMap(({ run }) => ('ops' in run ? run.ops : []))
  const isRemoved = (chain: string) => before.some((op) => op.kind === 'nft.chain.del' && op.chain === chain)
  const unused = (learnt.present?.unused ?? []).filter((chain) => !isRemoved(chain))
  return planOf({
    id: 'give back',
    because: 'whoever had its chains is known by now',
    stages: [
      { id: 'chains', run: { kind: 'batch', ops: chainRemovals(unused), tolerates: 'absent' }, after: [] },
      ...(failuresOf(facts).length > 0 ? [] : lastStages(removal, ['chains'])),
    ],
  })
}

/** From `withdraw` on others may take its addresses and ports: a record that is left must not claim them. */
function lastStages({ reserved, upstream, hasRecord }: Removal, after: readonly string[]): readonly Stage[] {
  const { ports, addresses, cooldownS = 0 } = reserved ?? {}
  const [first, ...more] = inTurn([
    ...(upstream ? [{ id: 'upstream', run: { kind: 'upstream', ...upstream }, after: [] } as const] : []),
    { id: 'flows', run: { kind: 'flows', verb: 'delete', flows: flowsAfterDel(ports ?? []) }, after: [] },
    ...(hasRecord ? [{ id: 'withdraw', run: { kind: 'state', what: 'withdrawn' }, after: [] } as const] : []),
    ...(ports?.length === 0
      ? []
      : [{ id: 'ports', run: { kind: 'state', what: 'free ports', ...(ports && { ports }) }, after: [] } as const]),
    ...(addresses?.length === 0
      ? []
      : [
          {
            id: 'addresses',
            run: { kind: 'state', what: 'free addresses', ...(addresses && { addresses }), cooldownS },
            after: [],
          } as const,
        ]),
    ...(hasRecord ? [{ id: 'forget', run: { kind: 'state', what: 'forgotten' }, after: [] } as const] : []),
  ] satisfies Stage[])
  return first === undefined ? [] : [{ ...first, after }, ...more]
}

/** What a stage of state or a wait failed with: that ends a teardown. */
function stateFailure({ plan, outcomes }: PlanRun): Error | undefined {
  const isOfState = (id: string) =>
    plan.stages.some((stage) => stage.id === id && ['state', 'wait'].includes(stage.run.kind))
  return outcomes.find(({ id, failed }) => failed && isOfState(id))?.failed?.error
}

/** What failed in the kernel, in the order of the stages. */
function failuresOf({ removal, runs }: DelFacts): readonly Error[] {
  return runs.flatMap((run) =>
    run.outcomes.flatMap(({ id }) => {
      const errors = errorsIn(run, id)
      return id === 'orphans' ? errors.map((error) => rulesLeft(removal.key, error)) : errors
    }),
  )
}

function rulesLeft({ ifName, containerId }: AttachmentKey, cause: Error): CniError {
  return new CniError('cleanup-incomplete', `rules of ${ifName} of container ${containerId} may be left`, {
    details: `${cause.message}\nits reservations stay until a later call removes them`,
    cause,
  })
}

function writeDown(failures: readonly Error[]): Plan {
  const texts = failures.map(({ message }) => message)
  return {
    id: 'write down',
    because: 'a later call goes on with what is left',
    stages: [{ id: 'pending', run: { kind: 'state', what: 'pending cleanup', texts }, after: [] }],
  }
}

/** The links on the host that operations are about. */
function linksIn(ops: readonly Op[]): readonly string[] {
  return ops.flatMap((op) => ('dev' in op ? [op.dev] : []))
}

/** containerd's second DEL then starts no process. */
function isStillNeeded(op: Op, all: readonly Op[], links: ReadonlySet<string>): boolean {
  const isOfLink = op.kind === 'link.del' || op.kind === 'link.group' || op.kind === 'qdisc.del'
  if (isOfLink || op.kind === 'port.isolation') return links.has(op.dev)
  if (op.kind === 'group.del') return all.some((other) => other.kind === 'link.group' && links.has(other.dev))
  return true
}

/** The order in which a delegated plugin gets its lease back, when all our own work is done. */
export function nextOfLeaseRemoval({
  type,
  runs,
}: Pick<AddFacts, 'runs'> & { readonly type: string }): Step<undefined> {
  const [run] = runs
  if (run !== undefined) return failureIn(run)?.error ?? { result: undefined }
  return {
    id: 'lease',
    because: `${type} has leased the addresses`,
    stages: [{ id: 'lease', run: { kind: 'delegate', type, verb: 'DEL' }, after: [] }],
  }
}
