// SPDX-License-Identifier: Apache-2.0
// Puts the accept pair of a bridge into the chains of others that drop, and takes it out. Only while a
// network is set up or repaired, under the machine's lock: never on the way of a usual ADD.

import { rmSync } from 'node:fs'
import { CniCode, CniError, oneLine } from '../cni/error.ts'
import {
  type AcceptCommand,
  acceptComment,
  acceptHandles,
  directions,
  firewalldCommand,
  firewalldZoneCommand,
  iptablesCommand,
  iptablesListCommand,
  nftDeleteCommand,
  nftInsertCommand,
  nftListCommand,
} from '../compile/host-accept.ts'
import type { NetworkSpec } from '../plan/attachment.ts'
import { type AcceptPlace, type HostAccept, parseHostAccept, placeText, samePlace } from '../plan/host-accept.ts'
import { readText, writeText } from './files.ts'
import { lookForDrops } from './foreign-firewalls.ts'
import type { Run } from './runner.ts'
import { chainedFiles, type NetworkFiles, networkDirectories, setAside } from './state.ts'
import { isOnPath } from './tools.ts'

/**
 * Makes the places be as the network wants them, and writes down which they are before anything is put.
 * Throws CniError 100 when a chain that drops cannot be changed.
 */
export async function settleHostAccept(run: Run, files: NetworkFiles, network: NetworkSpec): Promise<void> {
  const old = readHostAccept(files)
  const bridge = network.hostAccept
  if (bridge === undefined) return await removeHostAccept(run, files)
  const places = await placesOf(run, files, network)
  if (old !== undefined) {
    const kept = old.bridge === bridge ? places : []
    await takeOut(run, files, { ...old, places: old.places.filter((place) => !kept.some((p) => samePlace(p, place))) })
  }
  if (places.length === 0) return rmSync(fileOf(files), { force: true })
  writeText(fileOf(files), JSON.stringify({ bridge, places } satisfies HostAccept))
  for (const place of places) await put(run, place, bridge)
}

/** Takes out exactly what was put for the network, and forgets it. Throws CniError 100 when a rule stays. */
export async function removeHostAccept(run: Run, files: NetworkFiles): Promise<void> {
  const old = readHostAccept(files)
  if (old === undefined) return
  await takeOut(run, files, old)
  rmSync(fileOf(files), { force: true })
}

/** What was put for the network. */
export function readHostAccept(files: NetworkFiles): HostAccept | undefined {
  const found = readText(fileOf(files))
  if (found === undefined) return undefined
  const accept = found === 'unreadable' ? undefined : parseHostAccept(found.text)
  if (accept === undefined) setAside(fileOf(files))
  return accept
}

/** The places without the whole accept pair of the bridge. A process for each. */
export async function missingAccepts(run: Run, { bridge, places }: HostAccept): Promise<readonly AcceptPlace[]> {
  const isThere = await Promise.all(places.map((place) => hasPair(run, place, bridge)))
  return places.filter((_, at) => !isThere[at])
}

/** What settleHostAccept would put for the network: where its bridge is dropped and the pair is not there. */
export async function lackedAccepts(
  run: Run,
  files: NetworkFiles,
  network: NetworkSpec,
): Promise<readonly AcceptPlace[]> {
  const bridge = network.hostAccept
  if (bridge === undefined) return []
  return await missingAccepts(run, { bridge, places: await placesOf(run, files, network) })
}

async function placesOf(run: Run, files: NetworkFiles, network: NetworkSpec): Promise<readonly AcceptPlace[]> {
  const bridge = network.hostAccept ?? ''
  const families = network.forwarding.length === 0 ? ([4, 6] as const) : network.forwarding
  return await lookForDrops(run, { bridge, families, isOurs: isOurZone(readHostAccept(files), bridge) })
}

async function hasPair(run: Run, place: AcceptPlace, bridge: string): Promise<boolean> {
  switch (place.kind) {
    case 'iptables': {
      const listed = await run(iptablesListCommand(place))
      return listed.code === 0 && directions.every((way) => listed.stdout.includes(`"${acceptComment(bridge, way)}"`))
    }
    case 'nft':
      return (await ourHandles(run, place, bridge)).length === directions.length
    case 'firewalld': {
      const zone = await run(firewalldZoneCommand(bridge))
      return zone.code === 0 && zone.stdout.trim() === place.zone
    }
    default:
      return place satisfies never
  }
}

function fileOf(files: NetworkFiles): string {
  // Chained attachments share other things than those we made (chainedFiles).
  return `${files.network.slice(0, -'.json'.length)}-accept.json`
}

function isOurZone(old: HostAccept | undefined, bridge: string): boolean {
  return old?.bridge === bridge && old.places.some((place) => place.kind === 'firewalld')
}

/** Two networks on one bridge share its rules: the last one takes them out. */
async function takeOut(run: Run, files: NetworkFiles, { bridge, places }: HostAccept): Promise<void> {
  const others = networkDirectories()
    .flatMap((other) => [other, chainedFiles(other)])
    .filter((other) => fileOf(other) !== fileOf(files))
    .map(readHostAccept)
    .filter((other) => other?.bridge === bridge)
    .flatMap((other) => other?.places ?? [])
  for (const place of places) {
    if (!others.some((other) => samePlace(other, place))) await remove(run, place, bridge)
  }
}

async function put(run: Run, place: AcceptPlace, bridge: string): Promise<void> {
  switch (place.kind) {
    case 'iptables':
      for (const direction of directions) {
        const found = await run(iptablesCommand('-C', place, { bridge, direction }))
        if (found.code !== 0) await must(run, iptablesCommand('-I', place, { bridge, direction }), { place, bridge })
      }
      return
    case 'nft': {
      const handles = await ourHandles(run, place, bridge)
      if (handles.length === directions.length) return
      if (handles.length > 0) await must(run, nftDeleteCommand(place, handles), { place, bridge })
      return await must(run, nftInsertCommand(place, bridge), { place, bridge })
    }
    case 'firewalld':
      return await must(run, firewalldCommand('add', place.zone, bridge), { place, bridge })
    default:
      return place satisfies never
  }
}

/** What is gone already, with its chain or its program, is no failure. */
async function remove(run: Run, place: AcceptPlace, bridge: string): Promise<void> {
  switch (place.kind) {
    case 'iptables':
      if (!isOnPath(place.program)) return
      for (const direction of directions) {
        const found = await run(iptablesCommand('-C', place, { bridge, direction }))
        if (found.code === 0) await must(run, iptablesCommand('-D', place, { bridge, direction }), { place, bridge })
      }
      return
    case 'nft': {
      const handles = await ourHandles(run, place, bridge)
      if (handles.length > 0) await must(run, nftDeleteCommand(place, handles), { place, bridge })
      return
    }
    case 'firewalld':
      // firewalld that has ended took its run-time zones with it.
      if (isOnPath('firewall-cmd')) await run(firewalldCommand('remove', place.zone, bridge))
      return
    default:
      return place satisfies never
  }
}

async function ourHandles(run: Run, place: Extract<AcceptPlace, { kind: 'nft' }>, bridge: string) {
  const listed = await run(nftListCommand(place))
  return listed.code === 0 ? acceptHandles(listed.stdout, bridge) : []
}

async function must(run: Run, command: AcceptCommand, of: { place: AcceptPlace; bridge: string }): Promise<void> {
  const output = await run(command)
  // firewalld: the interface is in the zone already (ALREADY_ENABLED).
  if (output.code === 0 || (of.place.kind === 'firewalld' && /ALREADY_ENABLED/.test(output.stderr))) return
  const goal = `could not change the accept of ${of.bridge} in ${placeText(of.place)}`
  throw new CniError(CniCode.commandFailed, `${goal}: ${oneLine(output.stderr)}`, {
    details: `${[command.file, ...command.args].join(' ')}\n${command.stdin ?? ''}${output.stderr}set firewall.hostAccept to "off" to leave that firewall alone`,
  })
}
