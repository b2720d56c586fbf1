// SPDX-License-Identifier: Apache-2.0
// Looks for chains of others that drop forwarded packets, and for the place of our accept in them: base chains of nft,
// and FORWARD of each iptables variant in use. Only the chains on the way are listed. No table is created by looking.

import { readFileSync } from 'node:fs'
import { CniError, oneLine, orElse } from '../../cni/error.ts'
import {
  type AcceptSpot,
  type ChainPlace,
  type ForeignRules,
  ourRules,
  placeText,
  searchSpot,
} from '../../features/accept-place.ts'
import { acceptPriority, tableName } from '../../model/tables.ts'
import { listChainCommand, listChainsCommand, listTableCommand, showChainCommand } from '../../tools/accept-commands.ts'
import {
  countForeignTargets,
  type ForeignChain,
  readForeignChains,
  readForeignRules,
  readRuleTexts,
} from '../../tools/foreign-nft.ts'
import { countIptablesTargets, dropsByPolicy, readIptablesRules } from '../../tools/iptables.ts'
import { listArguments } from '../../tools/nft.ts'
import { missingNote, refusedFor } from '../process/capabilities.ts'
import { isOnPath } from '../process/programs.ts'
import type { Run } from '../process/runner.ts'

interface ForeignBase {
  readonly base: ChainPlace
  /** Its policy is drop; iptables says so in the listing of the chain. */
  readonly drops: boolean
  readonly prio: number
}

/** A firewall of somebody else that packets pass on their way through the node. */
export interface ForeignFirewall extends ForeignBase {
  /** Where our accept belongs; absent where it drops nothing that an accept could let pass. */
  readonly spot?: AcceptSpot
  /** The same place in a chain that runs before trestle's mark, where our accept would match nothing. */
  readonly unmarkedSpot?: AcceptSpot
  /** Its drops that come before our accept, in words. */
  readonly earlier: readonly string[]
  /** Chains that were read and have an accept of ours. */
  readonly withOurs: readonly ChainPlace[]
}

/**
 * The firewalls of others, each with the place of the accept of `mark`. A process or a few for each; nothing is
 * changed. Throws CniError 100 when nft does not tell.
 */
export async function lookForDrops(
  run: Run,
  { mark, families }: { readonly mark: number; readonly families: readonly (4 | 6)[] },
): Promise<readonly ForeignFirewall[]> {
  const chains = await foreignChains(run)
  return await Promise.all(basesOf(chains, families).map((base) => lookThrough(run, base, mark)))
}

/** All chains of nft. Throws CniError 100 when nft does not tell. */
export async function foreignChains(run: Run): Promise<readonly ForeignChain[]> {
  const listed = await run(listChainsCommand)
  if (listed.code !== 0) {
    const missing = refusedFor(listed.stderr)
    const reason = `${oneLine(listed.stderr)}${missingNote(missing)}`
    throw new CniError('network-not-seen', `cannot look for chains that drop: ${reason}`, {
      details:
        `nft ${listArguments.ofChains.join(' ')}; ` +
        `${missing?.hint ?? 'set firewall.hostAccept to "off" to go without'}`,
    })
  }
  return readForeignChains(listed.stdout)
}

function basesOf(chains: readonly ForeignChain[], families: readonly (4 | 6)[]): readonly ForeignBase[] {
  const programs = families.flatMap((family) => programsInUse(family, chains))
  const iptables = programs.map((program): ForeignBase => {
    return { base: { kind: 'iptables', program, chain: 'FORWARD' }, drops: false, prio: 0 }
  })
  const covered = programs
    .filter((program) => program.endsWith('-nft'))
    .map((program) => program.replace(/tables-nft$/, ''))
  const isMeant = ({ family }: ForeignChain) =>
    family === 'inet' || families.some((each) => family === (each === 4 ? 'ip' : 'ip6'))
  // firewalld's are changed by its own command only (host-accept.ts).
  const isOthers = ({ family, table, name }: ForeignChain) =>
    table !== 'firewalld' &&
    !(family === 'inet' && table === tableName) &&
    !(name === 'FORWARD' && table === 'filter' && covered.includes(family))
  const nft = chains
    .filter((chain) => chain.hook === 'forward' && isMeant(chain) && isOthers(chain))
    .map(({ family, table, name, policy, prio = 0 }): ForeignBase => {
      return { base: { kind: 'nft', family, table, chain: name }, drops: policy === 'drop', prio }
    })
  return [...iptables, ...nft]
}

export async function lookThrough(run: Run, from: ForeignBase, mark: number): Promise<ForeignFirewall> {
  const { base, prio } = from
  const chains = new Map<string, ForeignRules | undefined>()
  const first = await run(listChainCommand(base))
  chains.set(base.chain, rulesIn(base, first))
  if (base.kind === 'iptables' && isOfFirewalld(chains.get(base.chain))) return { ...from, earlier: [], withOurs: [] }
  const drops = from.drops || (base.kind === 'iptables' && dropsByPolicy(first.stdout, base.chain))
  const found = await search(run, { base, drops, chains }, mark)
  const names = [...chains].filter(([, rules]) => ourRules(rules ?? []).length > 0).map(([chain]) => chain)
  const withOurs = names.map((chain) => ({ ...base, chain }))
  if (found.spot !== undefined && prio <= acceptPriority) {
    const earlier = [`${placeText(base)}: its priority ${prio} is before trestle's`]
    return { ...from, earlier, withOurs, unmarkedSpot: found.spot }
  }
  const earlier = await textsOf(run, base, found.earlier)
  return { ...from, earlier, withOurs, ...(found.spot && { spot: found.spot }) }
}

/** Lists what the search asks for, until it has found the place. `chains`: filled on the way. */
async function search(
  run: Run,
  { base, drops, chains }: { base: ChainPlace; drops: boolean; chains: Map<string, ForeignRules | undefined> },
  mark: number,
) {
  let references: ReadonlyMap<string, number> | undefined
  for (;;) {
    const found = searchSpot({ chains, ...(references && { references }) }, { chain: base.chain, drops }, mark)
    if (found.unread === undefined) return found
    if (found.unread === 'references') references = await countReferences(run, base)
    else chains.set(found.unread.chain, await rulesOf(run, { ...base, chain: found.unread.chain }))
  }
}

/** The rules of a chain of somebody else; undefined where there is no such chain. */
export async function rulesOf(run: Run, place: ChainPlace): Promise<ForeignRules | undefined> {
  if (place.kind === 'iptables' && !isOnPath(place.program)) return undefined
  return rulesIn(place, await run(listChainCommand(place)))
}

function rulesIn(place: ChainPlace, listed: { code: number | undefined; stdout: string }): ForeignRules | undefined {
  if (listed.code !== 0) return undefined
  return place.kind === 'iptables'
    ? readIptablesRules(listed.stdout, place.chain)
    : readForeignRules(listed.stdout, place.chain)
}

async function countReferences(run: Run, base: ChainPlace): Promise<ReadonlyMap<string, number>> {
  const { code, stdout } = await run(listTableCommand(base))
  if (code !== 0) return new Map()
  return base.kind === 'iptables' ? countIptablesTargets(stdout) : countForeignTargets(stdout)
}

/** Drops in words: iptables shows its rules as they are written, nft in a listing of their own. */
export async function textsOf(
  run: Run,
  base: ChainPlace,
  drops: readonly { readonly chain: string; readonly text: string }[],
): Promise<readonly string[]> {
  if (base.kind === 'iptables') return drops.map(({ text }) => `${base.program}: ${oneLine(text)}`)
  const names = [...new Set(drops.map(({ chain }) => chain))]
  const shown = await Promise.all(names.map((chain) => run(showChainCommand({ ...base, chain }))))
  const texts = new Map(names.map((chain, at) => [chain, readRuleTexts(shown[at]?.stdout ?? '')]))
  return drops.map(({ chain, text }) => {
    const rule = texts.get(chain)?.get(text.replace('handle ', '')) ?? text
    return `${placeText({ ...base, chain })}: ${oneLine(rule)}`
  })
}

/** With the iptables backend FORWARD is firewalld's: its own command opens it. */
function isOfFirewalld(rules: ForeignRules | undefined): boolean {
  return (rules ?? []).some(({ target }) => target === 'FORWARD_direct')
}

/** The iptables variants whose filter table has a FORWARD chain: asking one that has none would make it. */
function programsInUse(family: 4 | 6, chains: readonly ForeignChain[]): readonly string[] {
  const prefix = family === 4 ? 'ip' : 'ip6'
  const hasNft = chains.some((each) => each.family === prefix && each.table === 'filter' && each.name === 'FORWARD')
  const nft = hasNft && isOnPath(`${prefix}tables-nft`) ? [`${prefix}tables-nft`] : []
  const legacy = [`${prefix}tables-legacy`, `${prefix}tables`].find(isOnPath)
  return hasLegacyTable(prefix, 'filter') && legacy !== undefined ? [...nft, legacy] : nft
}

/** net/netfilter/x_tables.c: the legacy tables that are loaded in our network namespace. */
export function hasLegacyTable(prefix: string, table: string): boolean {
  return orElse(() => readFileSync(`/proc/net/${prefix}_tables_names`, 'latin1').split('\n').includes(table), false)
}
