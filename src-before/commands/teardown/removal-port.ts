// SPDX-License-Identifier: Apache-2.0
// The effects of a teardown on this machine, and the removal of attachments with them.

import { setTimeout as sleep } from 'node:timers/promises'
import { bareAddress } from '../../cni/address.ts'
import { attachmentRuleOps, homecomingOf } from '../../drivers/attach.ts'
import { conditionChains } from '../../features/port-conditions.ts'
import type { AttachmentKey, AttachmentSpec } from '../../model/attachment.ts'
import { hostLinkName } from '../../model/names.ts'
import { type Element, type Elements, hasElement, indexElements, type Op } from '../../model/op.ts'
import { type AttachmentRecord, intentOf, knownSpec, sameKey } from '../../model/record.ts'
import { notHome, removalFromIds, removalOf } from '../../plan/order/teardown.ts'
import { orphanElements } from '../../plan/recovery/from-kernel.ts'
import { isDiskRefusal } from '../../system/files/files.ts'
import { directoryNameOf, type NetworkFiles, networkDirectories } from '../../system/files/state.ts'
import { linkExists, linkIndex } from '../../system/kernel/kernel-files.ts'
import { closeNetns, netnsState } from '../../system/kernel/netns.ts'
import { observeHost, observePod, observeTable, observeTables } from '../../system/kernel/observe.ts'
import type { PlanPlace } from '../../system/kernel/run-plan.ts'
import { nowMs } from '../../system/process/clock.ts'
import { releaseAddresses } from '../../system/store/addresses.ts'
import { waitForHolder } from '../../system/store/lock.ts'
import { releasePorts } from '../../system/store/ports.ts'
import { allRecords, forget, forgetFinished, someRecord, writePending } from '../../system/store/records.ts'
import { isReserved, reservedBy } from '../../system/store/reservations.ts'
import { removeUpstream } from '../../system/upstream/upstream-attachment.ts'
import { runnerIn } from '../call/beside.ts'
import { type CallContext, openIfThere } from '../call/context.ts'
import { liveSpecs } from '../call/in-use.ts'
import { machineLock } from '../call/locks.ts'
import { removeAttachment, type TeardownPort } from './remove-attachment.ts'

/** An attachment that goes. `record`: as it is by now; its lock is held. */
interface Leaving {
  readonly files: NetworkFiles
  readonly record: AttachmentRecord
}

/**
 * Removes and forgets the attachment, or writes down what is pending and returns the failures; what is gone is none.
 * What a sandbox keeps is reported on stderr. `hasRecord`: else it has reservations alone.
 */
export async function remove(context: CallContext, leaving: Leaving, hasRecord = true): Promise<readonly Error[]> {
  const { netns, key } = leaving.record
  const group = ownGroup(context)
  const removal = hasRecord ? removalOf(leaving.record, group) : removalFromIds(key, group)
  // Where the namespace is gone, so is what it had.
  const isLive = (removal.pod.length > 0 || removal.moved !== undefined) && netnsState(netns) === 'live'
  const pod = isLive ? openIfThere(context, netns.path) : undefined
  try {
    const place = { run: context.cleanup, ...(pod && { netnsFd: pod.fd }) }
    const port = teardownPort(context, place, leaving)
    const { failures, refused } = await removeAttachment(port, removal, pod !== undefined)
    for (const each of refused) process.stderr.write(`trestle: left in the sandbox: ${each.message}\n`)
    return failures
  } finally {
    if (pod !== undefined) closeNetns(pod)
  }
}

function teardownPort(context: CallContext, place: PlanPlace, { files, record }: Leaving): TeardownPort {
  const { identity, whole } = context
  const { key } = record
  const of = { key, owner: identity, deadline: whole }
  const own = { ...record, writer: identity }
  const write = (now: AttachmentRecord) => {
    writePending(files, now)
    forgetFinished(files, key)
  }
  return {
    run: runnerIn(context, place),
    markLeaving: () => {
      // A full disk must not keep links and rules: they go, and the record stays (del.ts, orPending).
      try {
        write({ ...own, pendingCleanup: ['its removal has not ended'] })
      } catch {}
    },
    waitForRebuilds: async () => await waitForRebuilds(context, key),
    lookAtPresent: (links, chains) => {
      const lost = lostLink(record.spec)
      const isReused = lost !== undefined || hasAddressElsewhere(files, record.spec) || isAddressLoose(record)
      return {
        links: new Set(links.filter((link) => link !== lost && linkExists(link))),
        unused: unusedChains(key, chains),
        theirs: isReused ? elementsOfOthers(context, key) : new Map(),
      }
    },
    lookForDevice: async (moved) =>
      await lookForDevice(context, place, { moved, isLast: record.pendingCleanup !== undefined }),
    lookAtElements: async () => await elementsWithoutRecord(context, files, record),
    removeUpstream: async (upstream) => await removeUpstream(context.cleanup, { ...upstream, key }),
    withdraw: () => {
      try {
        write(intentOf(own))
      } catch (error) {
        // On a full disk there is no record from here on: a killed DEL is sent again, and finds the reservations by the
        // attachment that they name.
        if (!isDiskRefusal(error)) throw error
        forget(files, key)
      }
    },
    freePorts: async (ports) => await releasePorts(of, ports),
    freeAddresses: async (addresses, cooldownS) =>
      await releaseAddresses(files, of, { ...(addresses && { addresses }), cooldownS }),
    forget: () => forget(files, key),
    writePending: (texts) => write({ ...own, pendingCleanup: texts }),
  }
}

/**
 * Calls that rebuild the rules of all pods read the records under the machine's lock. Throws CniError 11 when it takes
 * too long, 106 when a signal ends the wait: the mark stays, and a later call takes the rest away.
 */
async function waitForRebuilds(context: CallContext, { ifName, containerId }: AttachmentKey): Promise<void> {
  const purpose = `remove the rules of ${ifName} of container ${containerId}`
  await waitForHolder(machineLock(context, purpose, context.waits))
}

/** How long a device is waited for that the kernel brings home from a namespace that is gone, and how often looked at. */
const homecomingMs = 2000
const homecomingPauseMs = 50

/**
 * How the device gets home. `isLast`: an earlier call has waited in vain: what is missing is reported on stderr. Throws
 * CniError 109 where it is to come still, or cannot.
 */
async function lookForDevice(
  { cleanup }: CallContext,
  { netnsFd }: PlanPlace,
  { moved, isLast }: { readonly moved: AttachmentSpec; readonly isLast: boolean },
): Promise<readonly Op[]> {
  const endsAtMs = nowMs() + homecomingMs
  for (;;) {
    const [host, pod] = await Promise.all([
      observeHost(cleanup),
      netnsFd === undefined ? undefined : observePod(cleanup, netnsFd),
    ])
    const { ops, missing, isAwaited, isHeld } = homecomingOf(moved, { host: host.links, pod: pod?.links })
    if (missing === undefined) return ops
    if (isHeld) throw notHome(moved.key, missing)
    if (!isAwaited || nowMs() > endsAtMs) {
      if (isAwaited && !isLast) throw notHome(moved.key, missing)
      process.stderr.write(`trestle: ${missing}\n`)
      return ops
    }
    await sleep(homecomingPauseMs)
  }
}

/** A link group that is this process's alone while it lives: pids are below 2^22 (PID_MAX_LIMIT). */
function ownGroup({ identity }: CallContext): number {
  return 0x40000000 + identity.pid
}

// A DEL may come late: another network's pod has the address by then, another pod a chained one's link, or its name.

/** The link of another plugin that the attachment had, and has no more. */
function lostLink(spec: AttachmentSpec | undefined): string | undefined {
  const { hostLink, hostIndex } = spec?.chained ?? {}
  if (hostLink === undefined) return undefined
  const index = hostIndex === undefined ? undefined : linkIndex(hostLink)
  const isSame = index === undefined || index === hostIndex
  return isSame && linkExists(hostLink) ? undefined : hostLink
}

/** Whether a network besides the attachment's has given one of its addresses to a pod. */
function hasAddressElsewhere(files: NetworkFiles, spec: AttachmentSpec | undefined): boolean {
  const names = (spec?.ips ?? []).map(({ address }) => bareAddress(address))
  const networks = networkDirectories().map(directoryNameOf)
  const others = networks.filter((network) => network !== directoryNameOf(files))
  return others.some((network) => names.some((name) => isReserved({ network, name })))
}

/** Whether no link tells that a masqueraded address is the attachment's still: it has none on the host (netkit). */
function isAddressLoose({ spec, netns }: AttachmentRecord): boolean {
  return spec?.masquerade !== undefined && spec.chained?.hostLink === undefined && netnsState(netns) !== 'live'
}

/** Reads every record, so only where the link is lost or the address is reused. */
function elementsOfOthers(context: CallContext, key: AttachmentKey): Elements {
  return elementsOf(liveSpecs(context).filter((other) => !sameKey(other.key, key)))
}

function elementsOf(specs: readonly AttachmentSpec[]): Elements {
  return indexElements(specs.flatMap(attachmentRuleOps).flatMap((op) => (op.kind === 'nft.add' ? op : [])))
}

// Chains of port conditions go with the last pod whose ports go through them.

/**
 * Those of an attachment's chains that no other one has, but such as are being removed. The kernel has the last word: a
 * chain that somebody uses cannot be deleted. Reads nothing where the ports have no conditions.
 */
function unusedChains(key: AttachmentKey, chains: readonly string[]): readonly string[] {
  const isUsed = (chain: string) =>
    someRecord(
      ({ record }) =>
        record.pendingCleanup === undefined &&
        !sameKey(record.key, key) &&
        conditionChains(record.spec?.hostPorts).includes(chain),
    )
  return chains.filter((chain) => !isUsed(chain))
}

// Elements of our table that no record speaks of any more: of an attachment whose record was lost, and
// those that stand in the way of a pod that has the port now. Rare, so the table is looked at.

/**
 * Elements of an attachment without a record, by its reservations, the addresses that were seen of it and the name of
 * its link. Two processes. What another role has stays: a chained attachment has the ids of the main one, whose link
 * this is.
 */
async function elementsWithoutRecord(
  context: CallContext,
  files: NetworkFiles,
  { key, seen }: AttachmentRecord,
): Promise<readonly Element[]> {
  const addresses = [
    ...reservedBy(key, directoryNameOf(files)),
    ...(seen?.ips.map(({ address }) => bareAddress(address)) ?? []),
  ]
  const found = orphanElements(await observeTables(context.cleanup), {
    portNames: reservedBy(key),
    addresses: addresses.filter((address) => !isRecorded(key, address)),
    link: hostLinkName(key),
  })
  const isOther = (other: AttachmentKey) => other.role !== key.role && sameKey({ ...other, role: key.role }, key)
  const others = allRecords().flatMap(({ record }) => (isOther(record.key) ? (knownSpec(record) ?? []) : []))
  const theirs = elementsOf(others)
  return found.filter((element) => !hasElement(theirs, element))
}

/** Whether a record of another attachment, or network, has the address: what leads to it is in use. */
export function isRecorded(key: AttachmentKey, address: string): boolean {
  return allRecords().some(
    ({ record }) =>
      !sameKey(record.key, key) && knownSpec(record)?.ips.some((ip) => bareAddress(ip.address) === address) === true,
  )
}

/** Whether `macspoofchk` still has the link of a gone attachment. One process; doubts are told on stderr. */
export async function hasMacCheck({ cleanup }: CallContext, key: AttachmentKey): Promise<boolean> {
  try {
    const table = await observeTable(cleanup, 'bridge')
    const owner = { portNames: [], addresses: [], link: hostLinkName(key) }
    return table !== 'absent' && orphanElements(table, owner).length > 0
  } catch (error) {
    process.stderr.write(
      `trestle: DEL: cannot tell whether the MAC of ${key.ifName} is checked: ${(error as Error).message}\n`,
    )
    return false
  }
}
