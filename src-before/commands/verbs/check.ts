// SPDX-License-Identifier: Apache-2.0
// CHECK: everything we made, compared at once; every difference is reported, not only the first.

import { bareAddress, isOverlap } from '../../cni/address.ts'
import { CniError } from '../../cni/error.ts'
import type { Invocation } from '../../cni/invocation.ts'
import type { NetConf } from '../../config/net-conf.ts'
import { ownMacOps } from '../../drivers/bridge.ts'
import { acceptedOf, acceptMark } from '../../features/firewall.ts'
import { reservationName } from '../../features/host-ports.ts'
import { isSameNetwork, type NetworkSpec, type Role } from '../../model/attachment.ts'
import type { Observed } from '../../model/observed.ts'
import { isOfRules, type Op } from '../../model/op.ts'
import { type AttachmentRecord, knownSpec, sameKey } from '../../model/record.ts'
import { isOfOtherVersion } from '../../model/tables.ts'
import { type Difference, difference } from '../../plan/order/difference.ts'
import { asEarlier, earlierNetworks } from '../../plan/order/earlier-networks.ts'
import { absentFromPod, expectedBy, expectedOps, withLaterMtu } from '../../plan/order/expected.ts'
import { configDigest } from '../../plan/state/config-digest.ts'
import { mtuSetLater } from '../../plan/upstream/libcni-cache.ts'
import { chainedFiles, type NetworkFiles, networkFiles, requireState } from '../../system/files/state.ts'
import { missingAccepts, readZones } from '../../system/firewalls/host-accept.ts'
import { missingMarkAccepts } from '../../system/firewalls/mark-accept.ts'
import { delegate } from '../../system/ipam/delegate.ts'
import { requireOwnHost } from '../../system/kernel/host-namespace.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { holderOf } from '../../system/store/addresses.ts'
import { allNetworks, findRecords, readNetwork } from '../../system/store/records.ts'
import { reservationHolder } from '../../system/store/reservations.ts'
import { cachedAttachment } from '../../system/upstream/read-libcni-cache.ts'
import type { CallContext } from '../call/context.ts'
import { earlierInUse } from '../call/in-use.ts'
import { observeFor } from '../call/observe-ops.ts'
import { checkLoopback } from './loopback.ts'

/** Checks the attachment. Throws CniError 107 with every difference in `details`, or a delegate's error. */
export async function check(context: CallContext, call: Invocation, conf: NetConf): Promise<void> {
  requireState(conf.name)
  if (conf.mode === 'loopback') return await checkLoopback(context, call)
  const files = networkFiles(conf.name)
  const record = findRecord(files, call, conf)
  if (record !== undefined) requireOwnHost(record, context.identity)
  const found =
    record === undefined
      ? [`no record of this attachment in ${files.directory}`]
      : await differences(context, { call, conf, files, record })
  const failures: Error[] = found.length === 0 ? [] : [different(call, found)]
  // Chained, as the record tells, no addresses were asked for.
  if (conf.ipam.kind === 'delegated' && record?.key.role !== 'chained') {
    const delegation = { type: conf.ipam.type, verb: 'CHECK', path: call.path, stdin: conf.stdin } as const
    await delegate(context.run, delegation).catch((error: Error) => failures.push(error))
  }
  if (failures.length > 0) throw new AggregateError(failures, 'CHECK found differences')
}

function different(call: Invocation, found: readonly string[]): CniError {
  const what = `${call.ifName} of container ${call.containerId} is not as it was made: ${found[0]}`
  // Several operations may say the same of one link.
  return new CniError('attachment-differs', what, { details: [...new Set(found)].join('\n') })
}

interface Subject {
  readonly call: Invocation
  readonly conf: NetConf
  readonly files: NetworkFiles
  readonly record: AttachmentRecord
}

/** Which of a list's plugins is meant: the one made with this configuration, else the one of its role. */
function findRecord(files: NetworkFiles, call: Invocation, conf: NetConf): AttachmentRecord | undefined {
  const roles: readonly Role[] = conf.role === 'ipam' ? ['ipam'] : ['main', 'chained']
  const digest = configDigest(conf)
  const records = roles.flatMap((role) =>
    findRecords(files, { network: conf.name, containerId: call.containerId, ifName: call.ifName, role }),
  )
  const exact = records.find(({ record }) => record.configDigest === digest)
  return (exact ?? records.find(({ record }) => record.key.role === conf.role) ?? records[0])?.record
}

/**
 * Why a record lacks what was made. A chained attachment may have had nothing to make, role ipam never has; a record
 * that was found again is of no configuration (`withoutSpec`).
 */
function whyWithoutSpec({ spec, seen, otherFormat, key, configDigest: digest }: AttachmentRecord): string | undefined {
  if (otherFormat !== undefined) return `the record is of format ${otherFormat}: only reservations are compared`
  const hadNothing = key.role === 'ipam' || (key.role === 'chained' && digest !== '')
  if (spec !== undefined || hadNothing) return undefined
  const compared = seen === undefined ? 'reservations alone' : 'what trestle found of it after the loss'
  return `the record was lost: CHECK compares ${compared}`
}

async function differences(context: CallContext, subject: Subject): Promise<readonly string[]> {
  const { call, conf, files, record } = subject
  const why = whyWithoutSpec(record)
  if (why !== undefined) process.stderr.write(`trestle: CHECK: ${why}\n`)
  const pending = (record.pendingCleanup ?? []).map((each) => `a DEL of it is incomplete: ${each}`)
  const reserved = [...reservationDifference(files, record), ...portDifference(record)]
  const known = knownSpec(record)
  if (known === undefined || record.key.role === 'ipam' || conf.mode === 'ipam' || conf.prevResult === undefined)
    return [...pending, ...reserved]
  const { prevResult } = conf
  const expected = expectedBy(prevResult, known, call.netns)
  const now = readNetwork(known.chained ? chainedFiles(files) : files) ?? record.network
  const all = allNetworks()
  const addresses = expected.spec.ips.map(({ address }) => bareAddress(address))
  const { network, beside } = networkOfPod(context, { now, made: record.network, addresses, all })
  const ownMac = network?.bridge ? ownMacOps(network.bridge, machineId()) : []
  const cached = cachedAttachment(record.key)
  const spec = withLaterMtu(expected.spec, cached && mtuSetLater(cached, conf))
  const around = { beside, all: beside.length > 0 ? beside : all }
  const ops = [...expectedOps(spec, network, around), ...ownMac]
  const isAccepted = now !== undefined && acceptedOf(now).length > 0
  const besides = ({ pod }: Observed) => (pod ? absentFromPod(prevResult, spec, pod) : [])
  const [found, accepts] = await Promise.all([
    lookTwice(context, call.netns, { ops, besides }),
    acceptDifference(context, known.chained ? chainedFiles(files) : files, isAccepted ? acceptMark(all) : undefined),
  ])
  return [...pending, ...reserved, ...expected.missing, ...found, ...accepts]
}

/** `now`: the attachment's network as it is configured; `made`: as it was at its ADD. `addresses`: without prefix. */
interface NetworksAround {
  readonly now: NetworkSpec | undefined
  readonly made: NetworkSpec | undefined
  readonly addresses: readonly string[]
  readonly all: readonly NetworkSpec[]
}

/**
 * The network as the attachment needs it: of the configuration of its ADD, where that is over. `beside`: the networks
 * whose rules are in the table with those, since ranges that overlap are taken apart together.
 */
function networkOfPod(context: CallContext, { now, made, addresses, all }: NetworksAround) {
  if (now === undefined) return { network: now, beside: [] }
  const isAsMade = made === undefined || isSameNetwork(now, made)
  const part = isAsMade ? undefined : earlierNetworks(all, [made])[0]
  const network = isAsMade ? now : asEarlier(now, { made, part, addresses })
  const isAlone = network === now && !all.some((other) => other.name !== now.name && sharesSubnet(now, other))
  return { network, beside: isAlone ? [] : [...all, ...earlierInUse(context, all)] }
}

function sharesSubnet(one: NetworkSpec, other: NetworkSpec): boolean {
  const of = ({ masquerade, hairpin = [], acceptSubnets = [] }: NetworkSpec) => [
    ...(masquerade?.subnets ?? []),
    ...hairpin,
    ...acceptSubnets,
  ]
  return of(one).some((subnet) => of(other).some((each) => isOverlap(subnet, each)))
}

/**
 * What does not hold. A set that another call is filling anew is listed as empty for a moment: nf_tables_commit
 * makes the old elements inactive before the set has its new ones (net/netfilter/nft_set_pipapo.c). So what is
 * missing in a table is looked for again.
 */
async function lookTwice(
  context: CallContext,
  netns: string,
  { ops, besides }: { readonly ops: readonly Op[]; readonly besides: (seen: Observed) => readonly string[] },
): Promise<readonly string[]> {
  const seen = await observeFor(context, netns, ops)
  const found = differenceOfThisVersion(ops, seen)
  const again = found.some(({ op }) => isOfRules(op)) ? difference(ops, await observeFor(context, netns, ops)) : found
  return [...again.flatMap((each) => each.found), ...besides(seen)]
}

/**
 * Without rules that another version of trestle has made. A runtime ends every pod whose CHECK fails, as CRI-O does
 * when it starts: an upgrade of trestle breaks none.
 */
function differenceOfThisVersion(ops: readonly Op[], observed: Observed): readonly Difference[] {
  const isOther = [observed.table, observed.bridgeTable].some(
    (each) => each !== undefined && each !== 'absent' && isOfOtherVersion([...each.rules.values()].flat()),
  )
  if (!isOther) return difference(ops, observed)
  process.stderr.write(
    'trestle: CHECK: rules of another version of trestle are not compared: the next ADD renews them\n',
  )
  return difference(ops, observed).filter(({ op }) => !isOfRules(op))
}

/** A process for each zone and chain that has an accept; none where no firewall dropped when the network was set up. */
async function acceptDifference(
  { run }: CallContext,
  files: NetworkFiles,
  mark: number | undefined,
): Promise<readonly string[]> {
  const [zones, chains] = await Promise.all([
    missingAccepts(run, readZones(files)),
    missingMarkAccepts(run, 'CHECK', mark),
  ])
  return [...zones, ...chains]
}

function reservationDifference(files: NetworkFiles, record: AttachmentRecord): readonly string[] {
  const spec = knownSpec(record)
  if (!spec?.isPool) return []
  return spec.ips.flatMap(({ address }) => {
    const bare = bareAddress(address)
    const holder = holderOf(files, bare)
    if (holder !== undefined && sameKey(holder.key, record.key)) return []
    return [
      holder === undefined
        ? `the reservation of ${bare} is missing`
        : `${bare} is reserved for container ${holder.key.containerId}`,
    ]
  })
}

function portDifference(record: AttachmentRecord): readonly string[] {
  const { key } = record
  return (knownSpec(record)?.hostPorts?.ports ?? []).map(reservationName).flatMap((name) => {
    const holder = reservationHolder({ name })
    if (holder !== undefined && sameKey(holder.key, key)) return []
    return [
      holder === undefined
        ? `the reservation of host port ${name} is missing`
        : `host port ${name} is reserved for container ${holder.key.containerId}`,
    ]
  })
}
