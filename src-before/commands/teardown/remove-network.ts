// SPDX-License-Identifier: Apache-2.0
// removeWhenEmpty: with its last attachment a network's shared parts go too: bridge, rules, state.

import { existsSync, renameSync, rmSync } from 'node:fs'
import { refilledRuleOps } from '../../drivers/network.ts'
import { acceptMark } from '../../features/firewall.ts'
import type { NetworkSpec } from '../../model/attachment.ts'
import { bridgeMac } from '../../model/names.ts'
import type { ObservedLink } from '../../model/observed.ts'
import type { AttachmentRecord } from '../../model/record.ts'
import { formerBridges, isOfRanges } from '../../plan/order/earlier-networks.ts'
import { emptyNetworkOps } from '../../plan/order/teardown.ts'
import { isDiskRefusal, namesIn } from '../../system/files/files.ts'
import { chainedFiles, type NetworkFiles, networkFiles } from '../../system/files/state.ts'
import { removeHostAccept } from '../../system/firewalls/host-accept.ts'
import { readMarkAccept, settleMarkAccept } from '../../system/firewalls/mark-accept.ts'
import { executeAll } from '../../system/kernel/execute.ts'
import { linkExists } from '../../system/kernel/kernel-files.ts'
import { observeHost } from '../../system/kernel/observe.ts'
import { machineId } from '../../system/process/process-identity.ts'
import { readCluster } from '../../system/store/cluster.ts'
import { forgetOpened, openedLinks } from '../../system/store/localnet.ts'
import { withLock } from '../../system/store/lock.ts'
import { allNetworks, allRecords, readNetwork, writeNetwork } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { earlierInUse, liveSpecs } from '../call/in-use.ts'
import { machineLock } from '../call/locks.ts'

/** Shorter than others wait: a network that stays is removed by a later call. */
const lockWaitMs = 5000

/**
 * Removes what the network's attachments shared, when it wants that and has none left. Never fails the call.
 * What is being removed stays written down until it is gone: a later call finishes what a killed one began.
 */
export async function removeWhenEmpty(context: CallContext, files: NetworkFiles): Promise<void> {
  const parts = [files, chainedFiles(files)]
  const isWanted = parts.some((part) => readNetwork(part)?.removeWhenEmpty ?? existsSync(goingFiles(part).network))
  if (isWanted) await removeEmpty(context, files)
}

/** Writes down what a set-up that was cut short may have made; it goes with that ADD. On a full disk it stays. */
export function rememberSetUp(files: NetworkFiles, { key, network }: AttachmentRecord): void {
  const part = key.role === 'chained' ? chainedFiles(files) : files
  const going = goingFiles(part)
  if (network?.removeWhenEmpty !== true || existsSync(part.network) || existsSync(going.network)) return
  try {
    writeNetwork(going, network)
  } catch (error) {
    if (!isDiskRefusal(error)) throw error
  }
}

/** The same of a network that does not want it by itself. */
export async function removeEmpty(context: CallContext, files: NetworkFiles): Promise<void> {
  const parts = [files, chainedFiles(files)]
  const sides = parts.map((part) => ({ part, going: goingFiles(part) }))
  if (!isEmpty(files)) return
  const lock = { ...machineLock(context, 'remove an empty network', context.whole), waitMs: lockWaitMs }
  try {
    await withLock(lock, async () => {
      // An ADD writes its intent record first and reads the network then: either the record is seen here, or it finds
      // no network and waits for this lock.
      for (const { part, going } of sides) move(part.network, going.network)
      if (isEmpty(files)) {
        const [network] = sides.map(({ going }) => readNetwork(going))
        await removeNetworkState(context, network, parts)
        for (const { going } of sides) rmSync(going.network, { force: true })
      } else for (const { part, going } of sides) if (!existsSync(part.network)) move(going.network, part.network)
    })
  } catch (error) {
    process.stderr.write(`trestle: the empty network stays: ${(error as Error).message}\n`)
  }
}

/** `network`: what main attachments shared; `parts`: where theirs and the chained ones' state was. */
async function removeNetworkState(
  context: CallContext,
  network: NetworkSpec | undefined,
  parts: readonly NetworkFiles[],
): Promise<void> {
  const others = allNetworks()
  const links = network === undefined ? [] : await unusedLinks(context, network, others)
  await removeLinks(context, links, parts)
}

/**
 * Removes links, and the accepts in chains of others that are written down in `parts`. What fails is reported on
 * standard error. To be called under the machine's lock.
 */
async function removeLinks(
  context: CallContext,
  links: readonly string[],
  parts: readonly NetworkFiles[],
): Promise<void> {
  const others = allNetworks()
  // Emptied sets are filled with the others' elements, so that nothing of what goes is left in them.
  const networks = [...others, ...earlierInUse(context, others)]
  const opened = openedLinks().filter((link) => !links.includes(link))
  const source = { networks, attachments: liveSpecs(context), cluster: readCluster(), opened }
  const rules = refilledRuleOps(source, true)
  const failures = await executeAll({ run: context.cleanup }, emptyNetworkOps(links, rules))
  if (failures.length === 0) forgetOpened(links)
  try {
    for (const part of parts) await removeHostAccept(context.cleanup, part)
    // As long as another network wants it the accept is where it was.
    if (readMarkAccept()?.mark !== acceptMark(networks)) await settleMarkAccept(context.cleanup, networks)
  } catch (error) {
    // The network stays, so that a later call takes the accept out.
    const all = [error as Error, ...failures]
    throw new AggregateError(all, all.map(({ message }) => message).join('; '))
  }
  for (const failure of failures) process.stderr.write(`trestle: removing an empty network: ${failure.message}\n`)
}

/**
 * The bridge, if trestle made it, unless another network uses it or something is still plugged in; and its link in a
 * VLAN, unless pods of another network have their gateway there.
 */
async function unusedLinks(
  context: CallContext,
  { bridge }: NetworkSpec,
  others: readonly NetworkSpec[],
): Promise<readonly string[]> {
  if (bridge === undefined || !linkExists(bridge.name)) return []
  const { name, gateway } = bridge
  const isShared = others.some((other) => other.bridge?.name === name)
  if (isShared && gateway === undefined) return []
  const links = [...(await observeHost(context.cleanup)).links.values()]
  const made = [...others, ...allRecords().flatMap(({ record }) => record.network ?? [])]
  const isInUse = made.some((other) => other.bridge?.gateway?.name === gateway?.name)
  const isOwn = (link: ObservedLink) => link.name === gateway?.name && link.mac === gateway.mac && !isInUse
  const own = links.filter(isOwn).map((link) => link.name)
  if (isShared) return own
  const ports = links.filter((link) => link.master === name && link.name !== gateway?.peer)
  if (ports.length > 0) return []
  const isOurs = links.some((link) => link.name === name && link.mac === bridgeMac(name, machineId()))
  return [...own, ...(isOurs ? [name] : [])]
}

/** Where a part's network is written down while it is removed. */
function goingFiles(part: NetworkFiles): NetworkFiles {
  return { ...part, network: part.network.replace(/\.json$/, '.going.json') }
}

function move(from: string, to: string): void {
  if (existsSync(from)) renameSync(from, to)
}

function isEmpty(files: NetworkFiles): boolean {
  return namesIn(files.attachments).length === 0 && namesIn(files.pending).length === 0
}

// What a network has of ranges that are over goes, once no attachment has an address of them.

/** `over`: ranges that are over; `today`: those that are not. `hasBridge`: whether the network is to have one. */
interface Former {
  readonly network: string
  readonly over: readonly string[]
  readonly today: readonly string[]
  readonly hasBridge: boolean
}

/**
 * Removes our bridges with these ranges alone that nothing is plugged into, but the network's own: of a range that is
 * not over, two bridges would be the way to it. With its own one goes the network, where nothing is attached to it and
 * its ranges are over, or it is to have none: its next ADD sets it up as it is today. Returns what was removed. Throws
 * CniError when it cannot look, or is refused the lock.
 */
export async function removeFormer(context: CallContext, former: Former): Promise<readonly string[]> {
  const { network, over, today, hasBridge } = former
  const files = networkFiles(network)
  const now = readNetwork(files)
  const bridge = now?.bridge?.name
  const isOver = now !== undefined && (isOfRanges(now, over) || (bridge !== undefined) !== hasBridge)
  if (isOver) await removeEmpty(context, files)
  const lock = machineLock(context, 'remove bridges of earlier ranges')
  const removed = await withLock(lock, async () => {
    const found = formerBridges({
      host: await observeHost(context.run),
      ranges: [...over, ...today],
      inUse: bridgesInUse(),
      ownMac: (name) => bridgeMac(name, machineId()),
    })
    if (found.length > 0) await removeLinks(context, found, [])
    return found
  })
  const own = isOver && bridge !== undefined && !linkExists(bridge) ? [bridge] : []
  return [...new Set([...own, ...removed])]
}

function bridgesInUse(): ReadonlySet<string> {
  const ofRecords = allRecords().flatMap(({ record }) => record.network?.bridge?.name ?? [])
  return new Set([...allNetworks().flatMap(({ bridge }) => bridge?.name ?? []), ...ofRecords])
}
