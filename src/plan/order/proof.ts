// SPDX-License-Identifier: Apache-2.0
// What shows that a stage is done, besides that its tools ended well, or before they end.

import type { Op } from '../../model/op.ts'
import { setSpec } from '../../model/sets.ts'
import { isBaseComplete } from '../../model/tables.ts'
import type { EarlyProof, Proof, Shown, ShownProof } from './stage.ts'

/**
 * Whether what was shown is what it has to be. A bridge that somebody made anew has another MAC, and none of the ports;
 * where nothing of it was shown, nothing tells against it.
 */
export function isProven(proof: ShownProof, shown: Shown): boolean {
  if (proof.kind === 'rules') {
    return shown.rules !== undefined && isBaseComplete(shown.rules, [proof.table], proof.mark)
  }
  const link = shown.links.get(proof.bridge)
  return link === undefined || link.mac === proof.mac
}

/** Whether it shows before a tool's exit. */
export function isEarly(proof: Proof): proof is EarlyProof {
  return proof.kind === 'gone' || proof.kind === 'generation'
}

/**
 * What shows that the removals among these operations are done; undefined where there are none, and only exits tell.
 */
export function proofOfLinks(ops: readonly Op[]): EarlyProof | undefined {
  return ops.some(({ kind }) => kind === 'link.del' || kind === 'group.del') ? { kind: 'gone' } : undefined
}

/**
 * The same of rules. Of two tables, or of chains beside elements, nft tells it at a price (tools/evidence.ts): the
 * exit will do.
 */
export function proofOfRules(ops: readonly Op[]): EarlyProof | undefined {
  const isOfElements = ops.every((op) => op.kind === 'nft.del' && setSpec(op.set).table === 'inet')
  return isOfElements && ops.length > 0 ? { kind: 'generation' } : undefined
}
