// SPDX-License-Identifier: Apache-2.0
// firewall.hostAccept in other firewalls: where the forward chain of another nftables table drops, one constant accept of
// the mark bit stands right before the drop, behind the administrator's rules. The one exception to "nobody else's table
// is changed". Only a set-up comes here.

import { CniError, Code, oneLine } from '../cni/errors.ts'
import { parseObject } from '../cni/json.ts'
import type { NetworkSpec } from '../drivers/spec.ts'
import { reasonOf } from '../kernel/messages.ts'
import { acceptMarkText, acceptPriority, tableName } from '../kernel/nft-table.ts'
import type { Machine } from '../process/machine.ts'
import { findProgram } from '../process/runner.ts'
import { removeFile, writeText } from '../state/files.ts'
import { readOwnText, stateRoot } from '../state/layout.ts'

/** A chain of somebody else. */
interface ChainPlace {
  readonly family: string
  readonly table: string
  readonly chain: string
}

interface ForeignChain {
  readonly family: string
  readonly table: string
  readonly name: string
  readonly hook?: string
  readonly prio?: number
  readonly policy?: string
}

type Verdict = 'accept' | 'drop' | 'return' | 'jump' | 'goto' | 'none'

interface ForeignRule {
  readonly handle: number
  readonly verdict: Verdict
  readonly target?: string
  readonly isUnconditional: boolean
  readonly isLog: boolean
  readonly isOurs: boolean
}

const comment = `trestle accept ${acceptMarkText}`

/** Docker calls it before everything of its own, and administrators write what is to be dropped there. */
const adminChains = ['DOCKER-USER']

function placesFile(): string {
  return `${stateRoot()}/accept.json`
}

/** Where the accept was put. */
export function readAcceptPlaces(): readonly ChainPlace[] {
  const { places } = parseObject(readOwnText(placesFile()) ?? '') ?? {}
  const isPlace = (place: unknown): place is ChainPlace => {
    const { family, table, chain } = (place ?? {}) as Record<string, unknown>
    return [family, table, chain].every((text) => typeof text === 'string' && /^[^\s"';{}#]+$/.test(text))
  }
  return Array.isArray(places) ? places.filter(isPlace) : []
}

/** One accept to put in or to take out. `finding`: what is wrong without it. */
interface Change {
  readonly place: ChainPlace
  readonly finding: string
  readonly command: { readonly file: string; readonly args: readonly string[]; readonly stdin?: string }
}

/**
 * Makes the accept stand where chains drop what networks want to pass, and nowhere else. The places are written down
 * before anything is changed. Throws CniError 100 where a chain cannot be changed.
 */
export async function settleAccepts(machine: Machine, networks: readonly NetworkSpec[]): Promise<void> {
  const { spots, former, changes } = await findChanges(machine, networks)
  if (spots.length > 0) writePlaces([...spots.map(({ place }) => place), ...former])
  for (const { place, command } of changes) {
    const { code, stderr } = await machine.ask(command)
    if (code !== 0) throw refused(`change the accept in ${chainText(place)}`, stderr)
  }
  if (spots.length > 0) writePlaces(spots.map(({ place }) => place))
  else if (former.length > 0) removeFile(placesFile())
}

/** What a set-up would change, in words. */
export async function unsettledAccepts(machine: Machine, networks: readonly NetworkSpec[]): Promise<readonly string[]> {
  return (await findChanges(machine, networks)).changes.map(({ finding }) => finding)
}

/** For CHECK: where the accept was put and is not any more. */
export async function missingAccepts(machine: Machine): Promise<readonly string[]> {
  const missing: string[] = []
  for (const place of readAcceptPlaces()) {
    const rules = await rulesOf(machine, place)
    if (!rules?.some(({ isOurs }) => isOurs)) missing.push(missingText(place))
  }
  return missing
}

function missingText(place: ChainPlace): string {
  return `the accept of mark ${acceptMarkText} is missing in ${chainText(place)}`
}

function chainText({ family, table, chain }: ChainPlace): string {
  return `nft chain ${family} ${table} ${chain}`
}

function writePlaces(places: readonly ChainPlace[]): void {
  writeText(placesFile(), JSON.stringify({ places }))
}

/** `spots`: where the accept belongs. `former`: where it was put and does not belong any more. */
async function findChanges(machine: Machine, networks: readonly NetworkSpec[]) {
  const before = readAcceptPlaces()
  const isWanted = networks.some(({ accept }) => accept !== undefined)
  const spots = isWanted ? await findSpots(machine) : []
  const isSame = (a: ChainPlace, b: ChainPlace) => a.family === b.family && a.table === b.table && a.chain === b.chain
  const former = before.filter((place) => !spots.some((spot) => isSame(spot.place, place)))
  const changes = spots.flatMap(changesAt)
  for (const place of former) {
    const rules = [...((await rulesOf(machine, place)) ?? []).entries()]
    for (const [index, rule] of rules.toReversed())
      if (rule.isOurs) changes.push(removal(place, rule.handle, index + 1))
  }
  return { spots, former, changes }
}

interface Spot {
  readonly place: ChainPlace
  /** The rule that it stands before; absent: at the end. */
  readonly before?: ForeignRule
  readonly rules: readonly ForeignRule[]
}

/** The place in each forward chain that drops. */
async function findSpots(machine: Machine): Promise<readonly Spot[]> {
  const output = await machine.ask({ file: 'nft', args: ['-j', 'list', 'chains'] })
  if (output.code !== 0) throw refused('list the chains of other firewalls', output.stderr)
  const bases = entriesOf(output.stdout).flatMap(({ chain }) => chain ?? [])
  const spots: Spot[] = []
  for (const { family, table, name, hook, prio = 0, policy } of bases) {
    const isForward = hook === 'forward' && ['ip', 'ip6', 'inet'].includes(family) && table !== tableName
    // A chain that runs before the mark is set cannot be helped, and firewalld takes foreign changes back.
    if (!isForward || prio <= acceptPriority || table === 'firewalld') continue
    const found = await searchChain(machine, { family, table, chain: name }, [])
    if (found.kind === 'drop') spots.push(found.spot)
    if (found.kind === 'through' && policy === 'drop') spots.push({ place: found.place, rules: found.rules })
  }
  return spots
}

type Search =
  | { readonly kind: 'drop'; readonly spot: Spot }
  | { readonly kind: 'decided' }
  | { readonly kind: 'through'; readonly place: ChainPlace; readonly rules: readonly ForeignRule[] }

/** The first unconditional drop, through unconditional jumps and gotos; `through`: the chain ends without a verdict. */
async function searchChain(machine: Machine, place: ChainPlace, path: readonly string[]): Promise<Search> {
  const rules = (await rulesOf(machine, place)) ?? []
  for (const [at, rule] of rules.entries()) {
    if (rule.isOurs || !rule.isUnconditional) continue
    if (rule.verdict === 'drop') return { kind: 'drop', spot: { place, rules, ...beforeLogs(rules, at) } }
    if (rule.verdict === 'accept') return { kind: 'decided' }
    if (rule.verdict === 'return') return { kind: 'through', place, rules: rules.slice(0, at) }
    const { target } = rule
    if (target === undefined || path.includes(target)) continue
    const inner = await searchChain(machine, { ...place, chain: target }, [...path, place.chain])
    if (inner.kind === 'decided') return inner
    if (inner.kind === 'through' && rule.verdict === 'jump') continue
    // An accept in the administrator's chain, or in one that others lead to as well, would open more than pods.
    if (adminChains.includes(target)) return { kind: 'decided' }
    if (!(await isShared(machine, { ...place, chain: target }))) return inner
    return inner.kind === 'drop'
      ? { kind: 'drop', spot: { place, rules, ...beforeLogs(rules, at) } }
      : { kind: 'through', place, rules: rules.slice(0, at) }
  }
  return { kind: 'through', place, rules }
}

/** Whether more than one rule of its table leads to the chain, to have packets dropped there, say. */
async function isShared(machine: Machine, { family, table, chain }: ChainPlace): Promise<boolean> {
  const output = await machine.ask({ file: 'nft', args: ['-j', '-t', 'list', 'table', family, table] })
  if (output.code !== 0) throw refused(`list nft table ${family} ${table}`, output.stderr)
  const leads = JSON.stringify({ target: chain })
  return entriesOf(output.stdout).filter(({ rule }) => JSON.stringify(rule?.expr ?? []).includes(leads)).length > 1
}

/** Before the rules that log what is dropped next. */
function beforeLogs(rules: readonly ForeignRule[], at: number): { readonly before?: ForeignRule } {
  let first = at
  while (first > 0 && (rules[first - 1]?.isLog || rules[first - 1]?.isOurs)) first -= 1
  const before = rules.slice(first, at + 1).find(({ isOurs }) => !isOurs)
  return before === undefined ? {} : { before }
}

/** The accept in its place and nowhere else in the chain. The new one comes first: there is no moment without. */
function changesAt({ place, before, rules }: Spot): Change[] {
  const at = before === undefined ? rules.length : rules.indexOf(before)
  const isThere = rules[at - 1]?.isOurs === true
  const changes = isThere ? [] : [insertion(place, before && { handle: before.handle, number: at + 1 })]
  for (const [index, rule] of [...rules.entries()].toReversed()) {
    if (!rule.isOurs || (isThere && index === at - 1)) continue
    const isMovedOn = !isThere && index >= at
    changes.push(removal(place, rule.handle, index + (isMovedOn ? 2 : 1)))
  }
  return changes
}

/** iptables-nft's own program has to change its chains: it cannot read a rule that nft wrote. */
function iptablesOf({ family, table }: ChainPlace): string | undefined {
  const program = family === 'ip' ? 'iptables-nft' : family === 'ip6' ? 'ip6tables-nft' : undefined
  return table === 'filter' && program !== undefined && findProgram(program) !== undefined ? program : undefined
}

const iptablesRule = [
  ...['-m', 'mark', '--mark', `${acceptMarkText}/${acceptMarkText}`],
  ...['-m', 'comment', '--comment', comment, '-j', 'ACCEPT'],
]

function insertion(place: ChainPlace, before: { handle: number; number: number } | undefined): Change {
  const { family, table, chain } = place
  const change = { place, finding: missingText(place) }
  const iptables = iptablesOf(place)
  if (iptables !== undefined) {
    const where = before === undefined ? ['-A', chain] : ['-I', chain, `${before.number}`]
    return { ...change, command: { file: iptables, args: ['-w', '5', ...where, ...iptablesRule] } }
  }
  const [verb, at] = before === undefined ? ['add', ''] : ['insert', ` handle ${before.handle}`]
  const rule = `meta mark & ${acceptMarkText} == ${acceptMarkText} accept comment "${comment}"`
  // Names of others come by stdin: they may look like anything.
  const stdin = `${verb} rule ${family} ${table} ${chain}${at} ${rule}\n`
  return { ...change, command: { file: 'nft', args: ['-f', '-'], stdin } }
}

/** `number`: of the rule in its chain. Iptables deletes the first of equal rules if it is not told which. */
function removal(place: ChainPlace, handle: number, number: number): Change {
  const { family, table, chain } = place
  const change = {
    place,
    finding: `an accept of mark ${acceptMarkText} does not belong where it is in ${chainText(place)}`,
  }
  const iptables = iptablesOf(place)
  const args = ['-w', '5', '-D', chain, `${number}`]
  if (iptables !== undefined) return { ...change, command: { file: iptables, args } }
  const stdin = `delete rule ${family} ${table} ${chain} handle ${handle}\n`
  return { ...change, command: { file: 'nft', args: ['-f', '-'], stdin } }
}

function refused(what: string, stderr: string): CniError {
  return new CniError(Code.commandFailed, 'firewall-accept', `could not ${what}: ${oneLine(stderr)}`, {
    details: `${stderr}\nset firewall.hostAccept to "off" to leave other firewalls alone`,
  })
}

interface Entry {
  readonly chain?: ForeignChain
  readonly rule?: {
    readonly chain: string
    readonly handle: number
    readonly comment?: string
    readonly expr?: readonly Readonly<Record<string, unknown>>[]
  }
}

function entriesOf(listing: string): readonly Entry[] {
  return (JSON.parse(listing) as { nftables?: readonly Entry[] }).nftables ?? []
}

/** The rules of a chain; undefined where it is not there. */
async function rulesOf(
  machine: Machine,
  { family, table, chain }: ChainPlace,
): Promise<readonly ForeignRule[] | undefined> {
  const output = await machine.ask({ file: 'nft', args: ['-j', '-t', 'list', 'chain', family, table, chain] })
  if (output.code === 0)
    return entriesOf(output.stdout).flatMap(({ rule }) => (rule?.chain === chain ? [readRule(rule)] : []))
  if (reasonOf(output.stderr) === 'absent') return undefined
  throw refused(`list nft chain ${family} ${table} ${chain}`, output.stderr)
}

/** Words of nft, and targets of iptables, which nft prints as `xt`. */
const verdictWords: Readonly<Record<string, Verdict>> = {
  accept: 'accept',
  drop: 'drop',
  reject: 'drop',
  return: 'return',
  jump: 'jump',
  goto: 'goto',
  REJECT: 'drop',
  DROP: 'drop',
}

/** Statements that let every packet go on. */
const passing = ['counter', 'log', 'comment', 'limit']

function readRule({ handle, comment: text = '', expr = [] }: NonNullable<Entry['rule']>): ForeignRule {
  const statements = expr.flatMap((each) => Object.entries(each))
  const xtName = (value: unknown) => String((value as { name?: unknown } | null)?.name ?? '')
  const wordOf = ([key, value]: [string, unknown]) => (key === 'xt' ? xtName(value) : key)
  const decisive = statements.find((each) => verdictWords[wordOf(each)] !== undefined)
  const verdict = decisive === undefined ? 'none' : (verdictWords[wordOf(decisive)] ?? 'none')
  const target =
    verdict === 'jump' || verdict === 'goto' ? (decisive?.[1] as { target?: string } | undefined)?.target : undefined
  const conditions = statements.filter((each) => each !== decisive && !passing.includes(wordOf(each)))
  const isLog = statements.some((each) => wordOf(each).toLowerCase() === 'log') && decisive === undefined
  const isOurs = text === comment || JSON.stringify(expr).includes(comment) || isMarkAccept(statements, verdict)
  return {
    handle,
    verdict,
    isUnconditional: conditions.length === 0,
    isLog,
    isOurs,
    ...(target === undefined ? {} : { target }),
  }
}

/** Not every nft shows iptables-nft's comment: then it is a rule with a comment, whose one condition is our mark. */
function isMarkAccept(statements: readonly (readonly [string, unknown])[], verdict: Verdict): boolean {
  const isComment = ([key, value]: readonly [string, unknown]) =>
    key === 'xt' && JSON.stringify(value).includes('"comment"')
  const conditions = statements.filter((each) => each[0] === 'match' || (each[0] === 'xt' && !isComment(each)))
  const [only, ...others] = conditions
  const isMark = only !== undefined && /"mark".*\b4096\b|\b4096\b.*"mark"/.test(JSON.stringify(only[1]))
  return verdict === 'accept' && isMark && others.length === 0 && statements.some(isComment)
}
