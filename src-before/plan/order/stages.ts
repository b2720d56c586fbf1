// SPDX-License-Identifier: Apache-2.0
// The stages that plans of an ADD have in common: rules on its way, the pod's side, and what follows from both.

import { familyOf } from '../../cni/address.ts'
import { afterRuleOps, hostOps, nameOps, podOps, podSysctlOps, queueingOps } from '../../drivers/attach.ts'
import { fastPathRuleOps, hasRefilledElements, tablesOf } from '../../drivers/network.ts'
import { acceptMark } from '../../features/firewall.ts'
import { flowsToList } from '../../features/port-flows.ts'
import type { AttachmentSpec, NetworkSpec } from '../../model/attachment.ts'
import type { Op } from '../../model/op.ts'
import { setSpec, type TableFamily } from '../../model/tables.ts'
import { type Failure, type Outcome, outcomeOf, type PlanRun, type Stage } from './stage.ts'

/** IPv6 duplicate address detection: a router or another pod may have the address (enabledad). */
const dadKeys = ['enhanced_dad', 'accept_dad']

/** `said`: the stages that say rules; `all`: with the wait before and the look after them. */
export interface RuleStages {
  readonly said: readonly Stage[]
  readonly all: readonly Stage[]
}

/** Of a plan after a set-up, which has said the rules. */
export const noRules: RuleStages = { said: [], all: [] }

/**
 * The rules on the way of an ADD, said again without a lock. A process for each table: of two `list table` in one
 * input, nft 1.0.6 looks at the last one's table only (src/cache.c, the filter), and does not find the other.
 * `networks`: all of the machine, read after the attachment's intent was written.
 */
export function ruleStages(spec: AttachmentSpec, networks: readonly NetworkSpec[]): RuleStages {
  const ops = fastPathRuleOps({ networks, attachments: [spec] })
  const tables = ops.length === 0 ? [] : tablesOf(ops)
  const mark = acceptMark(networks)
  const said = tables.map(
    (table): Stage => ({
      id: `rules ${table}`,
      run: { kind: 'batch', ops: ops.filter((op) => isOfTable(op, table)) },
      after: hasRefilledElements(spec) ? ['refill'] : [],
      proof: { kind: 'rules', table, mark: table === 'inet' ? mark : undefined },
    }),
  )
  // Elements of a network that has gone meanwhile, said with ours, would stay (remove-network.ts).
  const mayGo = tables.length > 0 && networks.some(({ removeWhenEmpty }) => removeWhenEmpty)
  const all: readonly Stage[] = [
    // Who empties sets and fills them may have read the records before ours was there.
    ...(tables.length > 0 && hasRefilledElements(spec)
      ? [{ id: 'refill', run: { kind: 'wait', until: 'refill', spec }, after: [] } as const]
      : []),
    ...said,
    ...(mayGo
      ? [{ id: 'networks', run: { kind: 'look', what: 'networks left' }, after: said.map(({ id }) => id) } as const]
      : []),
  ]
  return { said, all }
}

/**
 * Whether the rules on the way of a usual ADD failed with an answer of nft, or have elements of a network that has been
 * removed meanwhile: then all rules are built anew.
 */
export function areRulesMissing(run: PlanRun, { said }: RuleStages, networks: readonly NetworkSpec[]): boolean {
  const left = run.outcomes.find(({ seen }) => seen?.networksLeft !== undefined)?.seen?.networksLeft
  const hasGone = networks.some(({ name, removeWhenEmpty }) => removeWhenEmpty && left?.has(name) === false)
  return hasGone || said.some((stage) => outcomeOf(run, stage)?.failed !== undefined)
}

/** The first failure of a usual ADD that building the rules anew does not repair. */
export function unrepairable(run: PlanRun, { said }: RuleStages): Failure | undefined {
  const isRepairable = ({ id, failed }: Outcome) =>
    failed?.reason !== undefined && said.some((stage) => stage.id === id)
  return run.outcomes.find((outcome) => outcome.failed !== undefined && !isRepairable(outcome))?.failed
}

/** The stages of the pod's side; `pod` is the one whose failures may have a cure (`cureInPod`). */
export interface PodSide {
  readonly pod: Stage
  readonly all: readonly Stage[]
}

/** How the pod's side begins. `after`: the stages of its links; `starts`: the stages that its tools start beside. */
interface PodStart {
  readonly after: readonly string[]
  readonly starts: readonly string[]
  /** It has its name and its limits already: a second plan of the same interface. */
  readonly isMade: boolean
}

/** The pod's side, and the queueing on the host beside it. */
export function podStages(spec: AttachmentSpec, { after, starts, isMade }: PodStart): PodSide {
  const detectsDuplicates = spec.dad && spec.ips.some(({ address }) => familyOf(address) === 6)
  const naming = isMade ? [] : nameOps(spec)
  // Settings of an interface are below its name.
  const [detection, pod] = detectsDuplicates
    ? [[...naming, ...dadOps(spec.key.ifName)], podOps(spec)]
    : [[], [...naming, ...podOps(spec)]]
  const own: Stage = { id: 'pod', run: { kind: 'batch', ops: pod }, after: [...after, 'detection'] }
  const all: readonly Stage[] = [
    { id: 'detection', run: { kind: 'batch', ops: detection }, after },
    own,
    { id: 'limits', run: { kind: 'batch', ops: isMade ? [] : queueingOps(spec) }, after, starts },
    { id: 'pod settings', run: { kind: 'batch', ops: podSysctlOps(spec) }, after: [...after, 'pod'], starts },
    ...(detectsDuplicates
      ? [{ id: 'addresses', run: { kind: 'wait', until: 'addresses', spec }, after: ['pod settings'] } as const]
      : []),
  ]
  return { pod: own, all }
}

/** What a chained entry makes: pod and host side by side. */
export function chainedStages(spec: AttachmentSpec): readonly Stage[] {
  return [
    { id: 'host', run: { kind: 'batch', ops: [...hostOps(spec), ...queueingOps(spec)] }, after: [] },
    { id: 'pod', run: { kind: 'batch', ops: [...podOps(spec), ...podSysctlOps(spec)] }, after: [] },
  ]
}

/**
 * The operations that hold as long as the attachment is there, apart from rules: CHECK and `restore` compare them with
 * the kernel. Naming and duplicate address detection are over. `settings`: those of the host's links.
 */
export function ownOps(spec: AttachmentSpec): { readonly own: readonly Op[]; readonly settings: readonly Op[] } {
  const pod = [...podOps(spec), ...podSysctlOps(spec)]
  return { own: [...hostOps(spec), ...queueingOps(spec), ...pod], settings: afterRuleOps(spec) }
}

/** Stages that wait for the rules, which guard them: settings of the host's links, and the end of older flows. */
export function lastStages(spec: AttachmentSpec, after: readonly string[], warns: boolean): readonly Stage[] {
  const ports = spec.hostPorts?.ports ?? []
  return [
    { id: 'settings', run: { kind: 'batch', ops: afterRuleOps(spec) }, after },
    { id: 'flows', run: { kind: 'flows', verb: 'list', flows: flowsToList(ports), ports }, after: ['settings'] },
    ...(warns && ports.length > 0 ? [listenerLook(spec)] : []),
  ]
}

/**
 * To warn of listeners, beside the last tool: the kernel walks a table of sockets as large as the machine's memory
 * allows, 1.5 ms to 11 ms and more (net/ipv4/tcp_ipv4.c, established_get_first), while no tool waits for us. To refuse
 * them it is known before anything is made (intent.ts).
 */
function listenerLook(spec: AttachmentSpec): Stage {
  const run = { kind: 'look', what: 'listeners', spec } as const
  if (flowsToList(spec.hostPorts?.ports ?? []).length > 0) return { id: 'listeners', run, after: [], beside: 'flows' }
  if (spec.chained) return { id: 'listeners', run, after: ['host', 'pod'] }
  return { id: 'listeners', run, after: [], beside: podSysctlOps(spec).length > 0 ? 'pod settings' : 'pod' }
}

/** enhanced_dad: on a hairpin port the pod hears its own question, which carries a nonce then (RFC 7527). */
function dadOps(ifName: string): readonly Op[] {
  return dadKeys.map((name) => ({
    in: 'pod',
    kind: 'sysctl.pod',
    key: `net/ipv6/conf/${ifName}/${name}`,
    value: '1',
    why: 'switch on duplicate address detection',
  }))
}

function isOfTable(op: Op, table: TableFamily): boolean {
  if (op.kind === 'nft.base.show') return op.table === table
  return (op.kind === 'nft.add' ? setSpec(op.set).table : 'inet') === table
}
