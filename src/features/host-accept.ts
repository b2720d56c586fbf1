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
import { readableText, removeFile, writeText } from '../state/files.ts'
import { stateRoot } from '../state/layout.ts'

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
  const { places } = parseObject(readableText(placesFile()) ?? '') ?? {}
  const isPlace = (place: unknown): place is ChainPlace => {
    const { family, table, chain } = (place ?? {}) as Record<string, unknown>
    return [family, table, chain].every((text) => typeof text === 'string' && /^[^\s"';{}#]+$/.test(text))
  }
  return Array.isArray(places) ? places.filter(isPlace) : []
}

/**
 * Makes the accept stand where chains drop what networks want to pass, and nowhere else. The places are written down
 * before anything is changed. Throws CniError 100 where a chain cannot be changed.
 */
export async function settleAccepts(machine: Machine, networks: readonly NetworkSpec[]): Promise<void> {
  const isWanted = networks.some(({ accept }) => accept !== undefined)
  const before = readAcceptPlaces()
  if (!isWanted && before.length === 0) return
  const spots = isWanted ? await findSpots(machine) : []
  const isSame = (a: ChainPlace, b: ChainPlace) => a.family === b.family && a.table === b.table && a.chain === b.chain
  const gone = before.filter((place) => !spots.some((spot) => isSame(spot.place, place)))
  if (spots.length > 0)
    writeText(placesFile(), JSON.stringify({ places: [...spots.map(({ place }) => place), ...gone] }))
  for (const spot of spots) await putAccept(machine, spot)
  for (const place of gone) await takeOutAccepts(machine, place)
  if (spots.length > 0) writeText(placesFile(), JSON.stringify({ places: spots.map(({ place }) => place) }))
  else removeFile(placesFile())
}

/** What a set-up would change: accepts that are missing, in the wrong place, or nobody's. */
export async function unsettledAccepts(machine: Machine, networks: readonly NetworkSpec[]): Promise<readonly string[]> {
  const before = readAcceptPlaces()
  const isWanted = networks.some(({ accept }) => accept !== undefined)
  if (!isWanted && before.length === 0) return []
  const spots = isWanted ? await findSpots(machine) : []
  const textOf = ({ family, table, chain }: ChainPlace) => `nft chain ${family} ${table} ${chain}`
  const wanted = new Set(spots.map(({ place }) => textOf(place)))
  return [
    ...spots.flatMap(({ place, before: next, rules }) => {
      const at = next === undefined ? rules.length : rules.indexOf(next)
      if (rules[at - 1]?.isOurs) return []
      const what = rules.some(({ isOurs }) => isOurs) ? 'in the wrong place' : 'missing'
      return `the accept of mark ${acceptMarkText} is ${what} in ${textOf(place)}`
    }),
    ...before.flatMap((place) =>
      wanted.has(textOf(place)) ? [] : `the accept of mark ${acceptMarkText} is to go from ${textOf(place)}`,
    ),
  ]
}

/** Where the accept was put and is not any more. */
export async function missingAccepts(machine: Machine): Promise<readonly string[]> {
  const missing: string[] = []
  for (const place of readAcceptPlaces()) {
    const rules = await rulesOf(machine, place)
    if (rules?.some(({ isOurs }) => isOurs)) continue
    missing.push(
      `the accept of mark ${acceptMarkText} is missing in nft chain ${place.family} ${place.table} ${place.chain}`,
    )
  }
  return missing
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
  if (output.code !== 0) throw unreadable('list the chains of other firewalls', output.stderr)
  const bases = entriesOf(output.stdout).flatMap(({ chain }) => chain ?? [])
  const spots: Spot[] = []
  for (const { family, table, name, hook, prio = 0, policy } of bases) {
    const isForward = hook === 'forward' && ['ip', 'ip6', 'inet'].includes(family) && table !== tableName
    // A chain that runs before the mark is set cannot be helped, and firewalld takes foreign changes back.
    if (!isForward || prio <= acceptPriority || table === 'firewalld') continue
    const found = await searchChain(machine, { family, table, chain: name }, [])
    const spot =
      found.kind === 'through' && policy === 'drop'
        ? { place: found.place, rules: found.rules }
        : found.kind === 'drop'
          ? found.spot
          : undefined
    if (spot !== undefined) spots.push(spot)
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
    if (inner.kind === 'decided' || (inner.kind === 'through' && rule.verdict === 'jump')) {
      if (inner.kind === 'decided') return inner
      continue
    }
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
  if (output.code !== 0) throw unreadable(`list nft table ${family} ${table}`, output.stderr)
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

/** Puts the accept into its place and takes others of ours out; looks again, since others write there, too. */
async function putAccept(machine: Machine, spot: Spot): Promise<void> {
  const { place, before, rules } = spot
  const at = before === undefined ? rules.length : rules.indexOf(before)
  const isThere = rules[at - 1]?.isOurs === true
  const orphans = rules.filter((rule, index) => rule.isOurs && !(isThere && index === at - 1))
  // First the new one: there is no moment without.
  if (!isThere)
    await insertAccept(machine, place, before === undefined ? undefined : { handle: before.handle, number: at + 1 })
  for (const rule of orphans.toReversed()) {
    const index = rules.indexOf(rule)
    const number = index + 1 + (!isThere && index >= at ? 1 : 0)
    await removeRule(machine, place, { ...rule, number })
  }
}

async function takeOutAccepts(machine: Machine, place: ChainPlace): Promise<void> {
  const rules = (await rulesOf(machine, place)) ?? []
  for (const [at, rule] of [...rules.entries()].toReversed())
    if (rule.isOurs) await removeRule(machine, place, { ...rule, number: at + 1 })
}

/** iptables-nft's own program has to change its chains: it cannot read a rule that nft wrote. */
function iptablesOf({ family, table }: ChainPlace): string | undefined {
  const program = family === 'ip' ? 'iptables-nft' : family === 'ip6' ? 'ip6tables-nft' : undefined
  return table === 'filter' && program !== undefined && findProgram(program) !== undefined ? program : undefined
}

const iptablesRule = [
  '-m',
  'mark',
  '--mark',
  `${acceptMarkText}/${acceptMarkText}`,
  '-m',
  'comment',
  '--comment',
  comment,
  '-j',
  'ACCEPT',
]

async function insertAccept(
  machine: Machine,
  place: ChainPlace,
  before: { handle: number; number: number } | undefined,
): Promise<void> {
  const { family, table, chain } = place
  const iptables = iptablesOf(place)
  if (iptables !== undefined) {
    const where = before === undefined ? ['-A', chain] : ['-I', chain, `${before.number}`]
    return await change(machine, place, { file: iptables, args: ['-w', '5', ...where, ...iptablesRule] })
  }
  const where =
    before === undefined
      ? `add rule ${family} ${table} ${chain}`
      : `insert rule ${family} ${table} ${chain} handle ${before.handle}`
  const rule = `meta mark & ${acceptMarkText} == ${acceptMarkText} accept comment "${comment}"`
  // Names of others come by stdin: they may look like anything.
  await change(machine, place, { file: 'nft', args: ['-f', '-'], stdin: `${where} ${rule}\n` })
}

/** `number`: of the rule in its chain. Iptables deletes the first of equal rules if it is not told which. */
async function removeRule(
  machine: Machine,
  place: ChainPlace,
  rule: { readonly handle: number; readonly number: number },
): Promise<void> {
  const iptables = iptablesOf(place)
  if (iptables !== undefined)
    return await change(machine, place, { file: iptables, args: ['-w', '5', '-D', place.chain, `${rule.number}`] })
  const stdin = `delete rule ${place.family} ${place.table} ${place.chain} handle ${rule.handle}\n`
  await change(machine, place, { file: 'nft', args: ['-f', '-'], stdin })
}

async function change(
  machine: Machine,
  { family, table, chain }: ChainPlace,
  command: { file: string; args: readonly string[]; stdin?: string },
): Promise<void> {
  const { code, stderr } = await machine.ask(command)
  if (code !== 0) throw unreadable(`change the accept in nft chain ${family} ${table} ${chain}`, stderr)
}

function unreadable(what: string, stderr: string): CniError {
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
  throw unreadable(`list nft chain ${family} ${table} ${chain}`, output.stderr)
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
