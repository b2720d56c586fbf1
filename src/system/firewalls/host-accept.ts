// SPDX-License-Identifier: Apache-2.0
// What stands in other firewalls for one network: its bridge, or the subnets of its routed pods, in a zone of
// firewalld, and the accept pairs that release 0.1 put into chains, which are taken out. Under the machine's lock only.

import { rmSync } from 'node:fs'
import { deletePairCommand, isChainPlace, pairCommands, pairHandles } from '../../compile/accept-pairs.ts'
import {
  type AcceptCommand,
  firewalldCommand,
  firewalldZoneCommand,
  showChainCommand,
} from '../../compile/host-accept.ts'
import type { NetworkSpec } from '../../plan/model/attachment.ts'
import {
  type AcceptPlace,
  acceptedOf,
  type HostAccept,
  placeText,
  samePlace,
  trustedZone,
} from '../../plan/rules/host-accept.ts'
import { decodeHostAccepts, encodeHostAccepts } from '../../plan/state/stored-accepts.ts'
import { readText, writeText } from '../files/files.ts'
import { type NetworkFiles, networkParts, setAside } from '../files/state.ts'
import type { Run } from '../process/runner.ts'
import { isOnPath } from '../process/tools.ts'
import { firewallError } from './refused.ts'

/**
 * Makes the zones be as the network wants them, and writes down which they are before anything is put. `look`: for what
 * is only read, shared by several networks (lookingOnce). Throws CniError 100 when firewalld or a chain cannot be
 * changed.
 */
export async function settleHostAccept(
  { run, look = run }: { readonly run: Run; readonly look?: Run },
  files: NetworkFiles,
  network: NetworkSpec,
): Promise<void> {
  const wanted = await wantedZones(look, files, network)
  const isKept = (subject: string, place: AcceptPlace) => holds(wanted, subject, place)
  await takeOut(
    run,
    files,
    readHostAccepts(files).map(({ subject, places }) => ({
      subject,
      places: places.filter((place) => !isKept(subject, place)),
    })),
  )
  if (wanted.length === 0) return rmSync(fileOf(files), { force: true })
  writeText(fileOf(files), encodeHostAccepts(wanted))
  for (const { subject, places } of wanted) for (const place of places) await put(run, place, subject)
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
  const accepts = found === 'unreadable' ? undefined : decodeHostAccepts(found.text)
  if (accepts === undefined) setAside(fileOf(files))
  return accepts ?? []
}

/** What was put into a zone and is not there, in words. A process for each bridge and subnet. */
export async function missingAccepts(run: Run, accepts: readonly HostAccept[]): Promise<readonly string[]> {
  const zones = accepts.flatMap(({ subject, places }) =>
    places.flatMap((place) => (place.kind === 'firewalld' ? [{ subject, place }] : [])),
  )
  const isThere = await Promise.all(zones.map(({ subject, place }) => isInZone(run, place.zone, subject)))
  return zones
    .filter((_, at) => !isThere[at])
    .map(({ subject, place }) => `the accept of ${subject} is missing in ${placeText(place)}`)
}

/** What settleHostAccept would change for the network, in words. */
export async function absentAccepts(run: Run, files: NetworkFiles, network: NetworkSpec): Promise<readonly string[]> {
  const pairs = readHostAccepts(files).flatMap(({ subject, places }) =>
    places.filter(isChainPlace).map((place) => ({ subject, place })),
  )
  return [
    ...pairs.map(
      ({ subject, place }) => `the accept of ${subject} in ${placeText(place)} is of release 0.1, at its head`,
    ),
    ...(await missingAccepts(run, await wantedZones(run, files, network))),
  ]
}

async function wantedZones(run: Run, files: NetworkFiles, network: NetworkSpec): Promise<readonly HostAccept[]> {
  const accepted = acceptedOf(network)
  if (accepted.length === 0 || !(await isFirewalldRunning(run))) return []
  const old = readHostAccepts(files)
  const isOurs = (subject: string) =>
    old.some((accept) => accept.subject === subject && accept.places.some((place) => place.kind === 'firewalld'))
  const isFree = await Promise.all(
    accepted.map(async (subject) => isOurs(subject) || (await run(firewalldZoneCommand(subject))).code !== 0),
  )
  const zone = network.firewalldZone ?? trustedZone
  return accepted.filter((_, at) => isFree[at]).map((subject) => ({ subject, places: [{ kind: 'firewalld', zone }] }))
}

/** Whether firewalld is there and runs: at most one process. */
export async function isFirewalldRunning(run: Run): Promise<boolean> {
  return isOnPath('firewall-cmd') && (await run({ file: 'firewall-cmd', args: ['--state'] })).code === 0
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

async function isInZone(run: Run, zone: string, subject: string): Promise<boolean> {
  const found = await run(firewalldZoneCommand(subject))
  return found.code === 0 && found.stdout.trim() === zone
}

function fileOf(files: NetworkFiles): string {
  // Chained attachments share other things than those we made (chainedFiles).
  return `${files.network.slice(0, -'.json'.length)}-accept.json`
}

/** Two networks on one bridge, or with one range, share its zone: the last one takes it out. */
async function takeOut(run: Run, files: NetworkFiles, accepts: readonly HostAccept[]): Promise<void> {
  if (accepts.length === 0) return
  const others = networkParts()
    .filter((other) => fileOf(other) !== fileOf(files))
    .flatMap(readHostAccepts)
  for (const { subject, places } of accepts) {
    // No network wants the pairs of release 0.1 any more.
    for (const place of places)
      if (isChainPlace(place) || !holds(others, subject, place)) await remove(run, place, subject)
  }
}

function holds(accepts: readonly HostAccept[], subject: string, place: AcceptPlace): boolean {
  return accepts.some((accept) => accept.subject === subject && accept.places.some((each) => samePlace(each, place)))
}

async function put(run: Run, place: AcceptPlace, subject: string): Promise<void> {
  if (place.kind === 'firewalld') await must(run, firewalldCommand('add', place.zone, subject), { place, subject })
}

/** What is gone already, with its chain or its program, is no failure. */
async function remove(run: Run, place: AcceptPlace, subject: string): Promise<void> {
  switch (place.kind) {
    case 'iptables':
      if (!isOnPath(place.program)) return
      for (const pair of pairCommands(place, subject)) {
        if ((await run(pair.check)).code === 0) await must(run, pair.remove, { place, subject })
      }
      return
    case 'nft': {
      const listed = await run(showChainCommand(place))
      const handles = listed.code === 0 ? pairHandles(listed.stdout, subject) : []
      if (handles.length > 0) await must(run, deletePairCommand(place, handles), { place, subject })
      return
    }
    case 'firewalld':
      // firewalld that has ended took its run-time zones with it.
      if (isOnPath('firewall-cmd')) await run(firewalldCommand('remove', place.zone, subject))
      return
    default:
      return place satisfies never
  }
}

async function must(run: Run, command: AcceptCommand, on: { place: AcceptPlace; subject: string }): Promise<void> {
  const output = await run(command)
  // firewalld: the interface is in the zone already (ALREADY_ENABLED).
  if (output.code === 0 || (on.place.kind === 'firewalld' && /ALREADY_ENABLED/.test(output.stderr))) return
  throw firewallError(`could not change the accept of ${on.subject} in ${placeText(on.place)}`, command, output.stderr)
}
