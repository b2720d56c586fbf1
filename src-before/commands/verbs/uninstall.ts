// SPDX-License-Identifier: Apache-2.0
// uninstall: takes what trestle made of the machine away, to the last rule: bridges, tables, accepts in
// chains of others, state. Only when no attachment is left: a live pod keeps its network, with a record or without.

import { existsSync, rmdirSync, rmSync } from 'node:fs'
import { placeText } from '../../features/accept-place.ts'
import { withoutLocalnet } from '../../features/host-ports.ts'
import type { NetworkSpec, VlanGateway } from '../../model/attachment.ts'
import { bridgeMac } from '../../model/names.ts'
import type { ObservedNamespace } from '../../model/observed.ts'
import { type AttachmentRecord, describeHolder } from '../../model/record.ts'
import { markText, type TableFamily, tableName, tableRemoval } from '../../model/tables.ts'
import { removeLinks } from '../../plan/order/teardown.ts'
import { orphanText } from '../../plan/recovery/verdicts.ts'
import {
  directoryNameOf,
  networkDirectories,
  networkParts,
  requireState,
  requireStateIfThere,
  stateRoot,
} from '../../system/files/state.ts'
import { readZones, removeHostAccept, zoneText } from '../../system/firewalls/host-accept.ts'
import { readMarkAccept, removeMarkAccept } from '../../system/firewalls/mark-accept.ts'
import { executeAll } from '../../system/kernel/execute.ts'
import { observeHost, observeTable } from '../../system/kernel/observe.ts'
import { removeCallFiles } from '../../system/process/call-file.ts'
import { endKilledCalls } from '../../system/process/call-processes.ts'
import { machineId, ofHost } from '../../system/process/process-identity.ts'
import { openedLinks } from '../../system/store/localnet.ts'
import { withLock } from '../../system/store/lock.ts'
import { allNetworks, allRecords } from '../../system/store/records.ts'
import type { CallContext } from '../call/context.ts'
import { machineLock } from '../call/locks.ts'
import { partsOfUnrecorded, reclaimOrphans } from '../recover/collect.ts'
import { isDead, reclaimDead, settleKilledCalls } from '../teardown/attachments.ts'
import { removeWhenEmpty } from '../teardown/remove-network.ts'

const tableFamilies = ['inet', 'bridge'] as const

/** Where an operator puts what `trestle restore --systemd-unit` printed (systemd.unit(5), "Unit File Load Path"). */
const restoreUnits = ['/etc', '/run', '/usr/local/lib', '/usr/lib'].map(
  (directory) => `${directory}/systemd/system/trestle-restore.service`,
)

/** What an uninstall found: `removes` is gone after it was applied, `stays` is not trestle's alone. */
export interface Uninstalled {
  /** Attachments of live pods: nothing is removed while there is one. */
  readonly live: readonly string[]
  readonly removes: readonly string[]
  readonly stays: readonly string[]
  readonly failures: readonly string[]
}

interface Parts {
  readonly links: readonly string[]
  readonly tables: readonly TableFamily[]
  readonly stays: readonly string[]
  readonly accepts: readonly string[]
  /** Links that stay, and let 127.0.0.1 through. */
  readonly opened: readonly string[]
}

/** Looks at what trestle made; with `apply`, removes it. Throws CniError when it cannot look or get the lock. */
export async function uninstall(context: CallContext, apply: boolean): Promise<Uninstalled> {
  const hasState = stateParts().some((path) => existsSync(path))
  if (apply) requireState()
  else requireStateIfThere()
  if (apply) await teardownDead(context)
  const { live, dead } = await attachments(context)
  const parts = await look(context)
  const removes = [
    ...dead.map((record) => `what is left of ${describe(record)}`),
    ...parts.accepts,
    ...parts.tables.map((family) => `nft table ${family} ${tableName}`),
    ...parts.opened.map((link) => `route_localnet of ${link}`),
    ...parts.links.map((name) => `link ${name}`),
    ...(hasState ? [`state in ${stateRoot()}`] : []),
  ]
  const found = { live, removes, stays: parts.stays }
  if (!apply || live.length > 0) return { ...found, failures: [] }
  const lock = machineLock(context, 'uninstall', context.whole)
  const failures = await withLock(lock, async () => await remove(context, parts))
  if (failures.length === 0) removeEmptyRoot()
  return { ...found, failures }
}

async function teardownDead(context: CallContext): Promise<void> {
  for (const files of networkDirectories()) {
    await settleKilledCalls(context, files)
    await reclaimDead(context, files)
    await reclaimOrphans(context, { network: directoryNameOf(files) })
    await removeWhenEmpty(context, files)
  }
}

/** `live` in words. A pending cleanup counts as live: its record says what is still there. */
async function attachments(context: CallContext) {
  const stored = allRecords()
  const dead = new Set(stored.filter((each) => each.record.pendingCleanup === undefined && isDead(each, context)))
  const records = (which: boolean) => stored.filter((each) => dead.has(each) === which).map(({ record }) => record)
  const unrecorded = (await partsOfUnrecorded(context)).map((part) => `${orphanText(part)}, without a record`)
  return { live: [...records(false).map(describe), ...unrecorded], dead: records(true) }
}

async function look(context: CallContext): Promise<Parts> {
  const networks = allNetworks()
  const host = await observeHost(context.run)
  const judged = bridgesOf(networks, host).map((bridge) => judgeBridge(bridge, host))
  const forwarding = [...new Set(networks.flatMap((network) => network.forwarding))]
  const tables: (typeof tableFamilies)[number][] = []
  for (const family of tableFamilies) {
    if ((await observeTable(context.run, family)) !== 'absent') tables.push(family)
  }
  const links = judged.flatMap((bridge) => bridge.links)
  return {
    links,
    opened: openedLinks().filter((link) => !links.includes(link)),
    tables,
    stays: [
      ...judged.flatMap(({ stays }) => stays),
      ...forwarding.map((family) => `IPv${family} forwarding is on: others may need it`),
      ...restoreUnits.filter((path) => existsSync(ofHost(path))).map(unitText),
    ],
    accepts: acceptTexts(),
  }
}

/** The networks' bridges, and those with a MAC of ours from an earlier configuration. */
function bridgesOf(networks: readonly NetworkSpec[], host: ObservedNamespace): readonly Bridge[] {
  const known = Map.groupBy(
    networks.flatMap(({ bridge }) => bridge ?? []),
    ({ name }) => name,
  )
  const former = [...host.links.values()].filter(
    ({ name, kind, mac }) => kind === 'bridge' && !known.has(name) && mac === bridgeMac(name, machineId()),
  )
  return [
    ...[...known].map(([name, each]) => ({ name, gateways: each.flatMap(({ gateway }) => gateway ?? []) })),
    ...former.map(({ name }) => ({ name, gateways: [] })),
  ]
}

/** `gateways`: its links in VLANs, of all networks. */
interface Bridge {
  readonly name: string
  readonly gateways: readonly VlanGateway[]
}

/** A bridge goes when it has the MAC that trestle gives to its own, and no port but its gateway's. */
function judgeBridge(bridge: Bridge, host: ObservedNamespace): { links: readonly string[]; stays: readonly string[] } {
  const link = host.links.get(bridge.name)
  if (link === undefined) return { links: [], stays: [] }
  const peers = bridge.gateways.map(({ peer }) => peer)
  const ports = [...host.links.values()].filter(({ master, name }) => master === bridge.name && !peers.includes(name))
  const names = ports.map(({ name }) => name).join(', ')
  if (ports.length > 0) return { links: [], stays: [`bridge ${bridge.name}: it has the ports ${names}`] }
  if (link.mac !== bridgeMac(bridge.name, machineId()))
    return { links: [], stays: [`bridge ${bridge.name} and its addresses: trestle did not make it`] }
  return { links: [...new Set(bridge.gateways.map(({ name }) => name)), bridge.name], stays: [] }
}

/** Not written by trestle, so not removed by it. */
function unitText(path: string): string {
  return `${path}: remove it with: systemctl disable --now trestle-restore.service; rm ${path}; systemctl daemon-reload`
}

function acceptTexts(): readonly string[] {
  const zones = networkParts().flatMap(readZones)
  const ofMark = readMarkAccept()
  return [
    ...zones.map(({ subject, zone }) => `accept of ${subject} in ${zoneText(zone)}`),
    ...(ofMark?.places ?? []).map((place) => `accept of mark ${markText(ofMark?.mark ?? 0)} in ${placeText(place)}`),
  ]
}

/** Everything, whatever fails. State stays when something did: it says what is left. */
async function remove(context: CallContext, parts: Parts): Promise<readonly string[]> {
  // An ADD may have come since the look.
  const { live } = await attachments(context)
  if (live.length > 0) return live.map((text) => `${text} was added meanwhile`)
  const place = { run: context.cleanup }
  const failures: Error[] = []
  const keep = (error: Error) => void failures.push(error)
  for (const part of networkParts()) await removeHostAccept(place.run, part).catch(keep)
  // Also where state was lost: nothing of ours stays in the chains of other firewalls.
  await removeMarkAccept(place.run, [], true).catch(keep)
  failures.push(...(await executeAll(place, removeLinks(parts.links))))
  // Before what guards it.
  failures.push(...(await executeAll(place, parts.opened.map(withoutLocalnet))))
  for (const table of parts.tables) failures.push(...(await executeAll(place, [tableRemoval(table)])))
  if (failures.length === 0) await removeState()
  return failures.map(({ message }) => message)
}

async function removeState(): Promise<void> {
  // An agent that was ended in the middle of a round leaves the file of its last tool.
  await endKilledCalls(true)
  for (const path of stateParts()) rmSync(path, { recursive: true, force: true })
}

function stateParts(): readonly string[] {
  const names = [
    ...['networks', 'ports', 'localnet', 'damaged', 'nft.json', 'accept.json'],
    ...['cluster.json', 'agent.json', 'agent-problems.json', 'calls'],
    ...['recording.json', 'failures.off', 'failures', 'records', 'log'],
  ]
  return names.map((name) => `${stateRoot()}/${name}`)
}

/** Something else in it is not ours to remove; the lock of another call is gone with that call. */
function removeEmptyRoot(): void {
  removeCallFiles()
  try {
    rmdirSync(stateRoot())
  } catch (error) {
    // In a container it is mounted there, and what is above it may be read-only.
    if (!['ENOTEMPTY', 'EBUSY', 'EROFS'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

function describe(record: AttachmentRecord): string {
  return `${describeHolder(record)} (network ${record.key.network})`
}
