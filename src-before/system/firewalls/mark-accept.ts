// SPDX-License-Identifier: Apache-2.0
// Puts the one accept of the mark where chains of others drop, and takes it out. Only while a network is set up or
// repaired, under the machine's lock: never on the way of a usual ADD.

import { rmSync } from 'node:fs'
import { CniError, oneLine } from '../../cni/error.ts'
import {
  type AcceptSpot,
  type ChainPlace,
  decodeMarkAccept,
  type MarkAccept,
  ourRules,
  placeText,
  samePlace,
} from '../../features/accept-place.ts'
import { acceptedOf, acceptMark } from '../../features/firewall.ts'
import type { NetworkSpec } from '../../model/attachment.ts'
import { encodeFile } from '../../model/kinds.ts'
import { markText } from '../../model/tables.ts'
import { type AcceptCommand, deleteCommand, insertCommand } from '../../tools/accept-commands.ts'
import { writeText } from '../files/files.ts'
import { readState, stateRoot } from '../files/state.ts'
import { missingNote, refusedFor } from '../process/capabilities.ts'
import type { Run } from '../process/runner.ts'
import { type ForeignFirewall, lookForDrops, lookThrough, rulesOf, textsOf } from './foreign-firewalls.ts'

/** How often a place is looked at: ours may be moved by somebody beside us, once. */
const mostLooks = 5

/** How many drops of others are named: more do not help. */
const mostNamed = 10

/**
 * Makes the accept be where chains of others drop what `networks`, all of them, want to pass, and nowhere else. Where
 * it is to be is written down before anything is put. Throws CniError 100 when such a chain cannot be changed.
 */
export async function settleMarkAccept(run: Run, networks: readonly NetworkSpec[]): Promise<void> {
  const mark = acceptMark(networks)
  if (mark === undefined) return await removeMarkAccept(run, networks)
  const firewalls = await lookForDrops(run, { mark, families: familiesOf(networks) })
  const wanted = firewalls.flatMap(placeOf)
  const before = [...(readMarkAccept()?.places ?? []), ...firewalls.flatMap(({ withOurs }) => withOurs)]
  const unwanted = unique(before).filter((place) => !wanted.some((each) => samePlace(each, place)))
  if (wanted.length + unwanted.length > 0) writeMarkAccept({ mark, places: [...wanted, ...unwanted] })
  for (const firewall of firewalls) await put(run, firewall, mark)
  for (const place of unwanted) await takeOut(run, place)
  if (wanted.length > 0) writeMarkAccept({ mark, places: wanted })
  else rmSync(markFile(), { force: true })
  report(
    '',
    firewalls.flatMap(({ earlier }) => earlier),
  )
}

/** Takes the accept out wherever it was put, and forgets it. `everywhere`: also where nothing is written down of it. */
export async function removeMarkAccept(run: Run, networks: readonly NetworkSpec[], everywhere = false): Promise<void> {
  const known = readMarkAccept()
  if (known === undefined && !everywhere) return
  const mark = known?.mark ?? 0
  const firewalls = everywhere ? await lookForDrops(run, { mark, families: familiesOf(networks) }) : []
  for (const place of unique([...(known?.places ?? []), ...firewalls.flatMap(({ withOurs }) => withOurs)])) {
    await takeOut(run, place)
  }
  rmSync(markFile(), { force: true })
}

/** Where the accept was put; undefined where nothing is known of any. */
export function readMarkAccept(): MarkAccept | undefined {
  return readState(markFile(), decodeMarkAccept)
}

/**
 * The places where the accept was put and is not, in words. A process for each. Drops of others that come before it are
 * reported on stderr: they are as their owners want them.
 */
export async function missingMarkAccepts(run: Run, verb: string, mark: number | undefined): Promise<readonly string[]> {
  const known = readMarkAccept()
  if (known === undefined || mark === undefined) return []
  const lists = await Promise.all(known.places.map((place) => rulesOf(run, place)))
  const missing = known.places.filter((_, at) => !(lists[at] ?? []).some(({ ourMark }) => ourMark === mark))
  const earlier = known.places.map((place, at) => {
    const rules = lists[at] ?? []
    const ourIndex = rules.findIndex(({ ourMark }) => ourMark === mark)
    const drops = rules.slice(0, Math.max(ourIndex, 0)).filter(({ act }) => act === 'drop')
    return textsOf(
      run,
      place,
      drops.map(({ text }) => ({ chain: place.chain, text })),
    )
  })
  report(`${verb}: `, (await Promise.all(earlier)).flat())
  return missing.map((place) => missingText(mark, place))
}

export async function absentMarkAccepts(run: Run, networks: readonly NetworkSpec[]): Promise<readonly string[]> {
  const mark = acceptMark(networks)
  const known = readMarkAccept()
  if (mark === undefined)
    return (known?.places ?? []).map((place) => `${accept(known?.mark ?? 0)} is still in ${placeText(place)}`)
  const firewalls = await lookForDrops(run, { mark, families: familiesOf(networks) })
  return firewalls.flatMap((firewall) => {
    const places = placeOf(firewall)
    const isThere = (place: ChainPlace) => firewall.withOurs.some((each) => samePlace(each, place))
    return [
      ...places.filter((place) => !isThere(place)).map((place) => missingText(mark, place)),
      ...firewall.withOurs
        .filter((place) => !places.some((each) => samePlace(each, place)) || !isWhole(firewall))
        .map((place) => `${accept(mark)} is in the wrong place in ${placeText(place)}`),
    ]
  })
}

function isWhole({ spot }: ForeignFirewall): boolean {
  return spot?.isTaken === true && spot.orphans.length === 0
}

function placeOf({ base, spot }: ForeignFirewall): readonly ChainPlace[] {
  return spot === undefined ? [] : [{ ...base, chain: spot.chain }]
}

/**
 * Puts the accept into one firewall. It is listed again after every change: whoever else writes there may have moved
 * what we counted by, or taken away what we put ours before.
 */
async function put(run: Run, firewall: ForeignFirewall, mark: number): Promise<void> {
  let now = firewall
  for (let looks = 1; looks <= mostLooks; looks++) {
    const [place] = placeOf(now)
    if (place === undefined || now.spot === undefined || isWhole(now)) return
    const failed = await change(run, place, now.spot, mark)
    if (failed !== undefined && looks > 1) throw failed
    now = await lookThrough(run, firewall, mark)
  }
  process.stderr.write(
    `trestle: ${accept(mark)} is moved by somebody else; run trestle restore: ${placeText(now.base)}\n`,
  )
}

/** One change on the way to one accept in its place. Returns the error where there was one. */
async function change(run: Run, place: ChainPlace, spot: AcceptSpot, mark: number): Promise<CniError | undefined> {
  if (!spot.isTaken) return await tried(run, insertCommand(place, mark, spot.before), place)
  // iptables takes the first one of a mark out: where another is behind the one in place, all go.
  const isAll = spot.orphans.some(({ isBehind }) => isBehind)
  const rules = isAll ? ourRules((await rulesOf(run, place)) ?? []) : spot.orphans
  for (const rule of rules) {
    const failed = await tried(run, deleteCommand(place, rule), place)
    if (failed !== undefined) return failed
  }
  return undefined
}

/** What is gone already, with its chain or its program, is no failure. */
async function takeOut(run: Run, place: ChainPlace): Promise<void> {
  for (const rule of ourRules((await rulesOf(run, place)) ?? [])) {
    const failed = await tried(run, deleteCommand(place, rule), place)
    if (failed !== undefined) throw failed
  }
}

/** All of both families, unless no network that wants it forwards one. */
function familiesOf(networks: readonly NetworkSpec[]): readonly (4 | 6)[] {
  const accepting = networks.filter((network) => acceptedOf(network).length > 0)
  const isAny = accepting.length === 0 || accepting.some(({ forwarding }) => forwarding.length === 0)
  return isAny ? [4, 6] : [...new Set(accepting.flatMap(({ forwarding }) => forwarding))].sort()
}

function unique(places: readonly ChainPlace[]): readonly ChainPlace[] {
  return places.filter((place, at) => places.findIndex((each) => samePlace(each, place)) === at)
}

function report(prefix: string, drops: readonly string[]): void {
  const more = drops.length - mostNamed
  const named = [...drops.slice(0, mostNamed), ...(more > 0 ? [`and ${more} more`] : [])]
  for (const drop of named) {
    process.stderr.write(`trestle: ${prefix}comes before trestle's accept, and drops what it matches: ${drop}\n`)
  }
}

function accept(mark: number): string {
  return `the accept of mark ${markText(mark)}`
}

function missingText(mark: number, place: ChainPlace): string {
  return `${accept(mark)} is missing in ${placeText(place)}`
}

function markFile(): string {
  return `${stateRoot()}/accept.json`
}

function writeMarkAccept(content: MarkAccept): void {
  writeText(markFile(), encodeFile(content))
}

async function tried(run: Run, command: AcceptCommand, place: ChainPlace): Promise<CniError | undefined> {
  const output = await run(command)
  if (output.code === 0) return undefined
  return firewallError(`could not change the accept in ${placeText(place)}`, command, output.stderr)
}

// What another firewall refuses.

/** CniError 100 of a change to a firewall of others: `what` could not be done, and why. */
export function firewallError(what: string, command: AcceptCommand, stderr: string): CniError {
  const missing = refusedFor(stderr)
  const cure = missing?.hint ?? 'set firewall.hostAccept to "off" to leave that firewall alone'
  return new CniError('firewall-accept', `${what}: ${oneLine(stderr)}${missingNote(missing)}`, {
    details: `${[command.file, ...command.args].join(' ')}\n${command.stdin ?? ''}${stderr}${cure}`,
  })
}
