// SPDX-License-Identifier: Apache-2.0
// Puts the accept pairs of a bridge, or of routed pods' subnets, into the chains of others that drop, and takes them
// out. Only while a network is set up or repaired, under the machine's lock: never on the way of a usual ADD.

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
import {
  type AcceptPlace,
  acceptedOf,
  type HostAccept,
  hostAcceptsText,
  parseHostAccepts,
  placeText,
  samePlace,
} from '../plan/host-accept.ts'
import { lackNote, refusedFor } from './capabilities.ts'
import { readText, writeText } from './files.ts'
import { lookForDrops } from './foreign-firewalls.ts'
import type { Run } from './runner.ts'
import { type NetworkFiles, networkParts, setAside } from './state.ts'
import { isOnPath } from './tools.ts'

/**
 * Makes the places be as the network wants them, and writes down which they are before anything is put. `look`: for
 * what is only read, shared by several networks (lookingOnce). Throws CniError 100 when a chain that drops cannot be changed.
 */
export async function settleHostAccept(
  { run, look = run }: { readonly run: Run; readonly look?: Run },
  files: NetworkFiles,
  network: NetworkSpec,
): Promise<void> {
  const wanted = await wantedAccepts(look, files, network)
  const isKept = (of: string, place: AcceptPlace) => holds(wanted, of, place)
  await takeOut(
    run,
    files,
    readHostAccepts(files).map(({ of, places }) => ({ of, places: places.filter((place) => !isKept(of, place)) })),
  )
  if (wanted.length === 0) return rmSync(fileOf(files), { force: true })
  writeText(fileOf(files), hostAcceptsText(wanted))
  for (const { of, places } of wanted) for (const place of places) await put(run, place, of)
}

/** Takes out exactly what was put for the network, and forgets it. Throws CniError 100 when a rule stays. */
export async function removeHostAccept(run: Run, files: NetworkFiles): Promise<void> {
  await takeOut(run, files, readHostAccepts(files))
  rmSync(fileOf(files), { force: true })
}

/** What was put for the network. */
export function readHostAccepts(files: NetworkFiles): readonly HostAccept[] {
  const found = readText(fileOf(files))
  if (found === undefined) return []
  const accepts = found === 'unreadable' ? undefined : parseHostAccepts(found.text)
  if (accepts === undefined) setAside(fileOf(files))
  return accepts ?? []
}

/** The places without the whole accept pair, in words. A process for each place, and for each subnet in firewalld. */
export async function missingAccepts(run: Run, accepts: readonly HostAccept[]): Promise<readonly string[]> {
  const pairs = accepts.flatMap(({ of, places }) => places.map((place) => ({ of, place })))
  const list = lookingOnce(run)
  const isThere = await Promise.all(pairs.map(({ of, place }) => hasPair(list, place, of)))
  return pairs
    .filter((_, at) => !isThere[at])
    .map(({ of, place }) => `the accept of ${of} is missing in ${placeText(place)}`)
}

/** What settleHostAccept would put for the network: what is dropped somewhere and has no pair there. In words, as above. */
export async function lackedAccepts(run: Run, files: NetworkFiles, network: NetworkSpec): Promise<readonly string[]> {
  return await missingAccepts(run, await wantedAccepts(run, files, network))
}

async function wantedAccepts(run: Run, files: NetworkFiles, network: NetworkSpec): Promise<readonly HostAccept[]> {
  const accepted = acceptedOf(network)
  if (accepted.length === 0) return []
  const old = readHostAccepts(files)
  const families = network.forwarding.length === 0 ? ([4, 6] as const) : network.forwarding
  const isOurs = (of: string) =>
    old.some((accept) => accept.of === of && accept.places.some((place) => place.kind === 'firewalld'))
  return await lookForDrops(run, { accepted, families, isOurs })
}

/** Runs each command once: all networks, and the subnets of one, are looked for in the same listing. */
export function lookingOnce(run: Run): Run {
  const outputs = new Map<string, ReturnType<Run>>()
  return (command) => {
    const key = JSON.stringify(command)
    const output = outputs.get(key) ?? run(command)
    outputs.set(key, output)
    return output
  }
}

async function hasPair(run: Run, place: AcceptPlace, of: string): Promise<boolean> {
  switch (place.kind) {
    case 'iptables': {
      const listed = await run(iptablesListCommand(place))
      return listed.code === 0 && directions.every((way) => listed.stdout.includes(`"${acceptComment(of, way)}"`))
    }
    case 'nft':
      return (await ourHandles(run, place, of)).length === directions.length
    case 'firewalld': {
      const zone = await run(firewalldZoneCommand(of))
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

/** Two networks on one bridge, or with one range, share its rules: the last one takes them out. */
async function takeOut(run: Run, files: NetworkFiles, accepts: readonly HostAccept[]): Promise<void> {
  if (accepts.length === 0) return
  const others = networkParts()
    .filter((other) => fileOf(other) !== fileOf(files))
    .flatMap(readHostAccepts)
  for (const { of, places } of accepts) {
    for (const place of places) if (!holds(others, of, place)) await remove(run, place, of)
  }
}

function holds(accepts: readonly HostAccept[], of: string, place: AcceptPlace): boolean {
  return accepts.some((accept) => accept.of === of && accept.places.some((each) => samePlace(each, place)))
}

async function put(run: Run, place: AcceptPlace, of: string): Promise<void> {
  switch (place.kind) {
    case 'iptables':
      for (const direction of directions) {
        const found = await run(iptablesCommand('-C', place, { of, direction }))
        if (found.code !== 0) await must(run, iptablesCommand('-I', place, { of, direction }), { place, of })
      }
      return
    case 'nft': {
      const handles = await ourHandles(run, place, of)
      if (handles.length === directions.length) return
      if (handles.length > 0) await must(run, nftDeleteCommand(place, handles), { place, of })
      return await must(run, nftInsertCommand(place, of), { place, of })
    }
    case 'firewalld':
      return await must(run, firewalldCommand('add', place.zone, of), { place, of })
    default:
      return place satisfies never
  }
}

/** What is gone already, with its chain or its program, is no failure. */
async function remove(run: Run, place: AcceptPlace, of: string): Promise<void> {
  switch (place.kind) {
    case 'iptables':
      if (!isOnPath(place.program)) return
      for (const direction of directions) {
        const found = await run(iptablesCommand('-C', place, { of, direction }))
        if (found.code === 0) await must(run, iptablesCommand('-D', place, { of, direction }), { place, of })
      }
      return
    case 'nft': {
      const handles = await ourHandles(run, place, of)
      if (handles.length > 0) await must(run, nftDeleteCommand(place, handles), { place, of })
      return
    }
    case 'firewalld':
      // firewalld that has ended took its run-time zones with it.
      if (isOnPath('firewall-cmd')) await run(firewalldCommand('remove', place.zone, of))
      return
    default:
      return place satisfies never
  }
}

async function ourHandles(run: Run, place: Extract<AcceptPlace, { kind: 'nft' }>, of: string) {
  const listed = await run(nftListCommand(place))
  return listed.code === 0 ? acceptHandles(listed.stdout, of) : []
}

async function must(run: Run, command: AcceptCommand, on: { place: AcceptPlace; of: string }): Promise<void> {
  const output = await run(command)
  // firewalld: the interface is in the zone already (ALREADY_ENABLED).
  if (output.code === 0 || (on.place.kind === 'firewalld' && /ALREADY_ENABLED/.test(output.stderr))) return
  const goal = `could not change the accept of ${on.of} in ${placeText(on.place)}`
  const lack = refusedFor(output.stderr)
  const cure = lack?.hint ?? 'set firewall.hostAccept to "off" to leave that firewall alone'
  throw new CniError(CniCode.commandFailed, `${goal}: ${oneLine(output.stderr)}${lackNote(lack)}`, {
    details: `${[command.file, ...command.args].join(' ')}\n${command.stdin ?? ''}${output.stderr}${cure}`,
  })
}
