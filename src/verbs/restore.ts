// SPDX-License-Identifier: Apache-2.0
// Makes again what the state has and the host lacks: the set-up of all networks, and what live pods have lost on the host.

import { opsOf } from '../drivers/attachment.ts'
import type { Spec } from '../drivers/spec.ts'
import { unsettledAccepts } from '../features/host-accept.ts'
import { differencesOf } from '../kernel/differences.ts'
import { lookAtTable } from '../kernel/look.ts'
import type { Observed, Place } from '../kernel/observed.ts'
import { type Op, setLink } from '../kernel/operation.ts'
import { readSysctl } from '../kernel/proc.ts'
import { lookAtQueues, lookAtVlans } from '../kernel/queue-look.ts'
import type { Machine } from '../process/machine.ts'
import { machineLockFile, requireStateIfThere } from '../state/layout.ts'
import { withLock } from '../state/lock.ts'
import { type AttachmentRecord, findFinished, isDead, sweepState } from '../state/records.ts'
import { recoverIfLost } from '../state/recover.ts'
import type { Context } from './context.ts'
import { applySetUp, planSetUp } from './set-up.ts'

/** What is not as it was set up. */
interface RestoreReport {
  /** In words, everything once. */
  readonly missing: readonly string[]
  /** Accepts in other firewalls. */
  readonly accepts: readonly string[]
  /** Live pods whose link on the host is gone: nothing gives it back. */
  readonly lost: readonly AttachmentRecord[]
  /** Pods that are gone: a DEL or `trestle gc` removes what is left of them. */
  readonly ended: readonly AttachmentRecord[]
}

/** `isDry`: changes nothing. Throws CniError 11 where another set-up takes too long. */
export async function restoreNetworks(context: Context, isDry = false): Promise<RestoreReport> {
  // A lock would make the directory.
  if (isDry && !requireStateIfThere()) return await restore(context, isDry)
  const lock = { file: machineLockFile(), purpose: 'restore all networks', deadline: context.deadline }
  return await withLock(lock, () => restore(context, isDry))
}

async function restore({ machine }: Context, isDry: boolean): Promise<RestoreReport> {
  if (!isDry) {
    sweepState()
    await recoverIfLost(machine)
  }
  const plan = await planSetUp(undefined, machine)
  // The interface of a chained ADD at work is there before its limits are.
  const settled = plan.live.flatMap(({ id, spec }) => (spec && (!spec.chained || findFinished(id)) ? [spec] : []))
  const linkOps = [...plan.linkOps, ...settled.flatMap((spec) => hostOpsOf(spec, plan.host))]
  const observed = await look([...linkOps, ...plan.ruleOps], plan.host, machine)
  const found = [...linkOps, ...plan.ruleOps].map((op) => ({ op, found: differencesOf(op, observed) }))
  const differences = found.filter((each) => each.found.length > 0)
  const accepts = await unsettledAccepts(machine, plan.networks)
  // A table is removed before it is set up where its rules are of an older version, which CHECK does not mind.
  const isOlder = plan.ruleOps.some(({ kind }) => kind === 'table.delete')
  const texts = [...differences.flatMap((each) => each.found), ...accepts]
  const missing = texts.length === 0 && isOlder ? ['rules of this version of trestle'] : [...new Set(texts)]
  if (missing.length > 0 && !isDry) {
    const lacking = new Set(differences.map(({ op }) => op))
    // The bridges' own part holds whatever is there; of a pod only what it lacks is made.
    const ofPods = linkOps.slice(plan.linkOps.length).filter((op) => lacking.has(op) || op.kind === 'sysctl.set')
    await applySetUp({ ...plan, linkOps: [...plan.linkOps, ...ofPods] }, machine)
  }
  const lost = plan.live.filter(
    ({ id, spec }) =>
      findFinished(id) !== undefined && spec?.host !== undefined && !plan.host.links.has(spec.host.name),
  )
  return { missing, accepts, lost, ended: plan.records.filter(isDead) }
}

/** Settings, addresses, routes and queues of the links that a pod has on the host. */
function hostOpsOf(spec: Spec, host: Place): readonly Op[] {
  const { host: end, chained, givenElements } = spec
  const link = host.links.get(end?.name ?? chained?.hostLink ?? '')
  // A chained link of the same name may be another pod's by now.
  if (givenElements !== undefined || link === undefined || (end === undefined && link.index !== chained?.hostIndex))
    return []
  const ops = opsOf(spec).filter((op) => op.place === 'host' && !('element' in op) && op.kind !== 'veth.add')
  // A link that is down takes no route, and others may have set its MAC: its own line comes first.
  const isAsMade = end === undefined || (link.up && link.mac === end.mac)
  const own = isAsMade ? [] : [setLink('host', end.name, { mac: end.mac, up: true }, `set ${end.name} as it was made`)]
  return [...own, ...ops].map((op): Op => ({ ...op, tolerate: 'absent' }))
}

/** What the operations are about. */
async function look(ops: readonly Op[], host: Place, machine: Machine): Promise<Observed> {
  const keys = ops.flatMap((op) => (op.kind === 'sysctl.set' ? [op.key] : []))
  const limited = ops.flatMap((op) => (op.kind === 'bucket.set' || op.kind === 'redirect.set' ? [op.dev] : []))
  const names = [...new Set(limited)].filter((name) => host.links.has(name))
  const tables = new Map()
  for (const family of ['inet', 'bridge'] as const) {
    const table = await lookAtTable(machine, family)
    if (table !== undefined) tables.set(family, table)
  }
  return {
    host,
    hostSysctls: new Map(keys.map((key) => [key, readSysctl(key)])),
    tables,
    queues: names.length === 0 ? new Map() : await lookAtQueues(machine, names),
    ...(ops.some(({ kind }) => kind === 'vlan.add') ? { vlans: await lookAtVlans(machine) } : {}),
  }
}
