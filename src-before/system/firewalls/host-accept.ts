// SPDX-License-Identifier: Apache-2.0
// The zone of firewalld that a network's bridge, or the subnets of its routed pods, are in. Only a holder of the
// machine's lock calls these functions.

import { rmSync } from 'node:fs'
import { decodeZones, type ZoneMember } from '../../features/accept-place.ts'
import { acceptedOf, trustedZone } from '../../features/firewall.ts'
import type { NetworkSpec } from '../../model/attachment.ts'
import { encodeFile } from '../../model/kinds.ts'
import { firewalldCommand, firewalldZoneCommand } from '../../tools/accept-commands.ts'
import { writeText } from '../files/files.ts'
import { type NetworkFiles, networkParts, readState } from '../files/state.ts'
import { isOnPath } from '../process/programs.ts'
import type { Run } from '../process/runner.ts'
import { firewallError } from './mark-accept.ts'

/**
 * Makes the zones be as the network wants them, and writes down which they are before anything is put. `look`: for what
 * is only read, shared by several networks (lookingOnce). Throws CniError 100 when firewalld refuses.
 */
export async function settleHostAccept(
  { run, look = run }: { readonly run: Run; readonly look?: Run },
  files: NetworkFiles,
  network: NetworkSpec,
): Promise<void> {
  const wanted = await wantedZones(look, files, network)
  const unwanted = readZones(files).filter((old) => !holds(wanted, old))
  await takeOut(run, files, unwanted)
  if (wanted.length === 0) return rmSync(fileOf(files), { force: true })
  writeText(fileOf(files), encodeFile({ zones: wanted }))
  for (const member of wanted) await put(run, member)
}

/** Takes out exactly what was put for the network, and forgets it. */
export async function removeHostAccept(run: Run, files: NetworkFiles): Promise<void> {
  await takeOut(run, files, readZones(files))
  rmSync(fileOf(files), { force: true })
}

export function readZones(files: NetworkFiles): readonly ZoneMember[] {
  return readState(fileOf(files), decodeZones) ?? []
}

/**
 * The members that are not in their zone, in words. A firewalld that ended or left the node drops nothing, and needs no
 * member. A process for each bridge and subnet.
 */
export async function missingAccepts(run: Run, members: readonly ZoneMember[]): Promise<readonly string[]> {
  if (!isOnPath('firewall-cmd')) return []
  const isThere = await Promise.all(members.map((member) => isInZone(run, member)))
  return members
    .filter((_, at) => !isThere[at])
    .map(({ subject, zone }) => `the accept of ${subject} is missing in ${zoneText(zone)}`)
}

export async function absentAccepts(run: Run, files: NetworkFiles, network: NetworkSpec): Promise<readonly string[]> {
  return missingAccepts(run, await wantedZones(run, files, network))
}

export function zoneText(zone: string): string {
  return `firewalld zone ${zone}`
}

async function wantedZones(run: Run, files: NetworkFiles, network: NetworkSpec): Promise<readonly ZoneMember[]> {
  const accepted = acceptedOf(network)
  if (accepted.length === 0 || !(await isFirewalldRunning(run))) return []
  const old = readZones(files)
  const isOurs = (subject: string) => old.some((member) => member.subject === subject)
  const isFree = await Promise.all(
    accepted.map(async (subject) => isOurs(subject) || (await run(firewalldZoneCommand(subject))).code !== 0),
  )
  const zone = network.firewalldZone ?? trustedZone
  return accepted.filter((_, at) => isFree[at]).map((subject) => ({ subject, zone }))
}

/** Whether firewalld is there and runs: at most one process. */
async function isFirewalldRunning(run: Run): Promise<boolean> {
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

/** firewall-cmd's exit code where firewalld does not run (firewall-cmd(1), "Exit codes"). */
const notRunning = 252

async function isInZone(run: Run, { subject, zone }: ZoneMember): Promise<boolean> {
  const found = await run(firewalldZoneCommand(subject))
  return found.code === notRunning || (found.code === 0 && found.stdout.trim() === zone)
}

function fileOf(files: NetworkFiles): string {
  // Chained attachments share other things than those we made (chainedFiles).
  return `${files.network.slice(0, -'.json'.length)}-accept.json`
}

/** Two networks on one bridge, or with one range, share its zone: the last one takes it out. */
async function takeOut(run: Run, files: NetworkFiles, members: readonly ZoneMember[]): Promise<void> {
  // firewalld that has ended took its run-time zones with it.
  if (members.length === 0 || !isOnPath('firewall-cmd')) return
  const others = networkParts()
    .filter((other) => fileOf(other) !== fileOf(files))
    .flatMap(readZones)
  for (const member of members)
    if (!holds(others, member)) await run(firewalldCommand('remove', member.zone, member.subject))
}

function holds(members: readonly ZoneMember[], { subject, zone }: ZoneMember): boolean {
  return members.some((member) => member.subject === subject && member.zone === zone)
}

async function put(run: Run, { subject, zone }: ZoneMember): Promise<void> {
  const command = firewalldCommand('add', zone, subject)
  const { code, stderr } = await run(command)
  // The interface is in the zone already (ALREADY_ENABLED).
  if (code === 0 || /ALREADY_ENABLED/.test(stderr)) return
  throw firewallError(`could not change the accept of ${subject} in ${zoneText(zone)}`, command, stderr)
}
