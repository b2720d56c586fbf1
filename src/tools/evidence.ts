// SPDX-License-Identifier: Apache-2.0
// What shows that a batch of removals has done its work, before its process ends. `ip` stays in RTM_DELLINK for the
// kernel's grace periods when the links are gone (net/core/dev.c, netdev_run_todo), and `nft` for one when it closes
// its socket (net/netfilter/nf_tables_api.c, nft_rcv_nl_event): two thirds of a DEL.

import { tableName } from '../model/tables.ts'
import type { Proof } from '../plan/order/stage.ts'
import type { Batch } from './batches.ts'
import { showChainInput } from './nft.ts'

/**
 * `gone`: the kernel has none of these links any more. `generation`: nft has told the generation that it has committed.
 */
export type Evidence = { readonly kind: 'gone'; readonly links: readonly string[] } | { readonly kind: 'generation' }

/**
 * With `--echo` nft tells what it has committed; of deletions alone nft 1.0.6 tells nothing, but every deletion of ours
 * adds first (nft.ts). By itself that option makes it read the sets and rules of all tables beforehand (9 ms became 440
 * with 10,000 rules of others). A listing as the last line is what narrows that to one table (src/cache.c, the filter);
 * one of a chain shows no elements.
 */
const generation = {
  option: '-e',
  line: showChainInput({ family: 'inet', table: tableName, chain: 'forward' }).stdin,
} as const

/** The batch, and how it shows that it is done; as it is where only its exit tells. */
export function withEvidence(batch: Batch, proof: Proof | undefined): Batch {
  if (proof?.kind === 'generation' && batch.tool === 'nft')
    return { ...batch, stdin: `${batch.stdin}${generation.line}`, evidence: { kind: 'generation' } }
  if (proof?.kind !== 'gone' || batch.tool !== 'ip' || batch.in !== 'host') return batch
  // The last line is the removal; what comes before is about the same links.
  const isRemoval = batch.ops.every(({ kind }) => kind === 'link.del' || kind === 'link.group' || kind === 'group.del')
  const links = [...new Set(batch.ops.flatMap((op) => ('dev' in op ? [op.dev] : [])))]
  return isRemoval && links.length > 0 ? { ...batch, evidence: { kind: 'gone', links } } : batch
}

/** The options that nft takes a batch with. */
export function nftOptions({ evidence }: Extract<Batch, { tool: 'nft' }>): readonly string[] {
  return [...(evidence === undefined ? [] : [generation.option]), '-t', '-f', '-']
}
