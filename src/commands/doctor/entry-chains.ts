// SPDX-License-Identifier: Apache-2.0
// Chains of others that packets meet before they are routed (the prerouting hook), on their way to the node itself
// (input), and behind the forward hook (postrouting). Chains that translate addresses drop nothing: their type is nat.

import type { ChainPlace } from '../../../src-before/features/accept-place.ts'
import { tableName } from '../../../src-before/model/tables.ts'
import { foreignChains, hasLegacyTable } from '../../../src-before/system/firewalls/foreign-firewalls.ts'
import { isOnPath } from '../../../src-before/system/process/programs.ts'
import { listChainCommand } from '../../../src-before/tools/accept-commands.ts'
import type { ForeignChain } from '../../../src-before/tools/foreign-nft.ts'
import { dropsByPolicy, readIptablesRules } from '../../../src-before/tools/iptables.ts'
import type { Run } from '../../process/runner.ts'

const hooks = ['prerouting', 'input', 'postrouting'] as const
type EntryHook = (typeof hooks)[number]

/** A base chain. `drops`: its policy is drop. */
interface EntryChain {
  readonly hook: EntryHook
  readonly base: ChainPlace
  readonly drops: boolean
}

/** Where the tables of iptables have their chains. */
const ofIptables = [
  { table: 'raw', chain: 'PREROUTING', hook: 'prerouting' },
  { table: 'mangle', chain: 'PREROUTING', hook: 'prerouting' },
  { table: 'mangle', chain: 'INPUT', hook: 'input' },
  { table: 'filter', chain: 'INPUT', hook: 'input' },
  { table: 'mangle', chain: 'POSTROUTING', hook: 'postrouting' },
] as const

/** Looks: a process, one more for each chain of iptables. Throws CniError 100 when nft does not tell. */
export async function entryChains(run: Run): Promise<readonly EntryChain[]> {
  const chains = await foreignChains(run)
  const iptables = (['ip', 'ip6'] as const).flatMap((prefix) => iptablesChains(prefix, chains))
  const read = iptables.map(async ({ base, hook }): Promise<readonly EntryChain[]> => {
    const { code, stdout } = await run(listChainCommand(base))
    const isRead = code === 0 && !isOfFirewalld(stdout, base.chain)
    return isRead ? [{ hook, base, drops: dropsByPolicy(stdout, base.chain) }] : []
  })
  return [...(await Promise.all(read)).flat(), ...nftChains(chains)]
}

function iptablesChains(prefix: 'ip' | 'ip6', chains: readonly ForeignChain[]) {
  const nft = isOnPath(`${prefix}tables-nft`) ? `${prefix}tables-nft` : undefined
  const legacy = [`${prefix}tables-legacy`, `${prefix}tables`].find(isOnPath)
  return ofIptables.flatMap(({ table, chain, hook }) => {
    const isThere = chains.some((each) => each.family === prefix && each.table === table && each.name === chain)
    const programs = [...(isThere ? [nft] : []), ...(hasLegacyTable(prefix, table) ? [legacy] : [])]
    return programs.flatMap((program) => {
      if (program === undefined) return []
      const base = { kind: 'iptables', program, chain, ...(table === 'filter' ? {} : { table }) } as const
      return [{ base, hook }]
    })
  })
}

/** Those that no program of iptables shows; firewalld's are changed by its own command only. */
function nftChains(chains: readonly ForeignChain[]): readonly EntryChain[] {
  const isShown = ({ family, table, name }: ForeignChain) =>
    isOnPath(`${family}tables-nft`) && ofIptables.some((each) => each.table === table && each.chain === name)
  const isOthers = ({ family, table }: ForeignChain) =>
    table !== 'firewalld' && !(family === 'inet' && table === tableName)
  return chains.flatMap((each) => {
    const { family, table, name, type, policy } = each
    const hook = hooks.find((meant) => meant === each.hook)
    if (type !== 'filter' || hook === undefined) return []
    if (!['inet', 'ip', 'ip6'].includes(family) || !isOthers(each) || isShown(each)) return []
    return [
      {
        hook,
        base: { kind: 'nft', family, table, chain: name },
        drops: policy === 'drop',
      } as const,
    ]
  })
}

/** With the iptables backend its chains are led to from the built-in ones. */
function isOfFirewalld(listing: string, chain: string): boolean {
  return readIptablesRules(listing, chain).some(({ target }) => target === `${chain}_direct`)
}
