// SPDX-License-Identifier: Apache-2.0
// The plans that take an attachment down. commands/teardown/remove-attachment.ts has their order.

import { bareAddress } from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import { linkRemovals, podTeardownOps, teardownOps } from '../../drivers/attach.ts'
import { driverOf } from '../../drivers/drivers.ts'
import { loopbackGuard } from '../../features/host-ports.ts'
import { hairpinLink } from '../../features/masquerade.ts'
import { chainRemovals, chainsBehind, conditionChains } from '../../features/port-conditions.ts'
import { flowsAfterDel } from '../../features/port-flows.ts'
import type { AttachmentKey, AttachmentSpec, HostPort } from '../../model/attachment.ts'
import { hostLinkName, ifbName } from '../../model/names.ts'
import { type Element, type Elements, elementAt, elementOps, isOfRules, type Op } from '../../model/op.ts'
import type { AttachmentRecord } from '../../model/record.ts'
import { type EarlyProof, type Plan, planOf, proofOfLinks, proofOfRules, type Stage } from './stage.ts'

/** `refused`: what the kernel keeps in a sandbox that lives on, which is the pod's own doing. */
export interface TornDown {
  readonly failures: readonly Error[]
  readonly refused: readonly Error[]
}

/**
 * The look before a removal: the links that are there, and the condition chains that no other attachment has. `theirs`:
 * elements of other attachments, which have the link's name or the address by now.
 */
export interface Present {
  readonly links: ReadonlySet<string>
  readonly unused: readonly string[]
  readonly theirs: Elements
}

/**
 * A removal to be made. `home`: brings a link of the host home; `elements`: of an attachment without a record;
 * `isWhole`: flows end with it.
 */
interface TearingDown {
  readonly removal: Removal
  readonly home: readonly Op[]
  readonly hasPod: boolean
  readonly present: Present
  readonly elements: readonly Element[]
  readonly isWhole: boolean
}

/**
 * Pod, then host: links, limits and rules, each tool beside the others. A link that is gone needs no process. Flows
 * into the pod end when its rules are gone, before others may have its addresses and ports.
 */
export function teardownPlan({ removal, hasPod, home, present, elements, isWhole }: TearingDown): Plan {
  const own = removal.host.filter((op, _, all) => isStillNeeded(op, all, present))
  const rules = [...elementOps(elements, 'nft.del'), ...chainRemovals([...present.unused, ...chainsBehind(elements)])]
  const links = own.filter((op) => !isOfRules(op))
  const fromPod = home.filter((op) => op.in === 'pod')
  const onHost = home.filter((op) => op.in === 'host')
  const stages: readonly Stage[] = [
    { id: 'pod', run: { kind: 'batch', ops: hasPod ? removal.pod : [], tolerates: 'refusals' }, after: [] },
    { id: 'home', run: { kind: 'batch', ops: fromPod, tolerates: 'absent' }, after: ['pod'], anyway: true },
    // Not after a failure: these go by a name, which another link may have by now.
    { id: 'device', run: { kind: 'batch', ops: onHost, tolerates: 'absent' }, after: ['home'] },
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
  return {
    id,
    run: { kind: 'batch', ops, tolerates: 'absent' },
    after: ['home'],
    anyway: true,
    ...(proof && { proof }),
  }
}

export function rulesLeft({ ifName, containerId }: AttachmentKey, cause: Error): CniError {
  return new CniError('cleanup-incomplete', `rules of ${ifName} of container ${containerId} may be left`, {
    details: `${cause.message}\nits reservations stay until a later call removes them`,
    cause,
  })
}

/** The device of an attachment that the kernel is to bring home, and has not yet. */
export function notHome({ ifName, containerId }: AttachmentKey, missing: string): CniError {
  return new CniError('cleanup-incomplete', `device of ${ifName} of container ${containerId}: ${missing}`, {
    details: 'a later call looks once more',
  })
}

export function linksIn(ops: readonly Op[]): readonly string[] {
  return ops.flatMap((op) => ('dev' in op ? [op.dev] : []))
}

/** containerd's second DEL then starts no process. */
function isStillNeeded(op: Op, all: readonly Op[], { links, theirs }: Present): boolean {
  if (op.kind === 'nft.del') return elementAt(theirs, op) === undefined
  const isOfLink = op.kind === 'link.del' || op.kind === 'link.group' || op.kind === 'qdisc.del'
  if (isOfLink || op.kind === 'port.isolation') return links.has(op.dev)
  if (op.kind === 'group.del') return all.some((other) => other.kind === 'link.group' && links.has(other.dev))
  return true
}

// What there is to remove of one attachment, by its record, or where that was lost by its ids, by which its links
// are called and its reservations are found.

/** Addresses without prefix length, and after how many seconds they may be given out again. */
interface Reserved {
  readonly ports: readonly HostPort[]
  /** Absent: those that say they are its own. */
  readonly addresses?: readonly string[]
  readonly cooldownS: number
}

export interface Removal {
  readonly key: AttachmentKey
  /** Links of ours, settings of links that stay, and elements of our rules. */
  readonly host: readonly Op[]
  /** What does not go with an interface of ours, in a sandbox that lives on. */
  readonly pod: readonly Op[]
  /** Of an attachment that may have a link of the host in its pod: where that is takes a look. */
  readonly moved?: AttachmentSpec
  /** Chains of port conditions, which others may have too. */
  readonly chains: readonly string[]
  /** Absent: what says that it is its own, and the elements that lead there. */
  readonly reserved?: Reserved
  /** What the upstream plugins keep for an attachment that was taken over from them. `dataDir`: host-local's. */
  readonly upstream?: { readonly dataDir: string; readonly addresses: readonly string[] }
  /** There is a record, where what fails is written down, and which goes last. */
  readonly hasRecord: boolean
  /** Who rebuilds the rules of all pods leaves it out already. */
  readonly isLeftOut: boolean
}

/** By its record. `group`: a link group that is the caller's alone. */
export function removalOf(
  record: Pick<AttachmentRecord, 'key' | 'spec' | 'seen' | 'pendingCleanup' | 'adopted' | 'delegatedIpam'>,
  group: number,
): Removal {
  const { key, spec, seen, pendingCleanup, adopted, delegatedIpam } = record
  if (spec === undefined) {
    const pod = seen === undefined ? [] : podTeardownOps(seen)
    return { ...removalFromIds(key, group), pod, ...movedIn(seen), hasRecord: true }
  }
  const addresses = spec.ips.map(({ address }) => bareAddress(address))
  // The interface comes before the plugin's addresses: an ADD may have ended after reserving, before writing them down.
  const isUnknown = delegatedIpam !== undefined && addresses.length === 0
  return {
    key,
    host: teardownOps(spec, group),
    pod: podTeardownOps(spec),
    ...movedIn(spec),
    chains: conditionChains(spec.hostPorts),
    reserved: { ports: spec.hostPorts?.ports ?? [], ...(!isUnknown && { addresses }), cooldownS: spec.cooldownS },
    ...(adopted && { upstream: { dataDir: adopted.dataDir, addresses } }),
    hasRecord: true,
    isLeftOut: pendingCleanup !== undefined,
  }
}

function movedIn(spec: AttachmentSpec | undefined): Pick<Removal, 'moved'> {
  return spec !== undefined && driverOf(spec).homecoming !== undefined ? { moved: spec } : {}
}

/** By its ids alone. Only a main attachment has links; a chained one shares its ids with it. */
export function removalFromIds(key: AttachmentKey, group: number): Removal {
  const links = key.role === 'main' ? [hostLinkName(key), ifbName(key)] : []
  return { key, host: linkRemovals(links, group), pod: [], chains: [], hasRecord: false, isLeftOut: true }
}

/** Removes links that are no attachment's, one by one. */
export function removeLinks(links: readonly string[]): readonly Op[] {
  return links.map((dev): Op => ({ in: 'host', kind: 'link.del', dev, why: `remove ${dev}` }))
}

/** Removes the links of a network without attachments. `rules`: those that stay, filled anew. */
export function emptyNetworkOps(links: readonly string[], rules: readonly Op[]): readonly Op[] {
  const guards = elementOps([...links.map(loopbackGuard), ...links.map(hairpinLink)], 'nft.del')
  return [...removeLinks(links), ...rules, ...guards]
}
