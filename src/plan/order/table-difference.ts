// SPDX-License-Identifier: Apache-2.0
// In which ways our nft tables lack rules or elements that were put there.

import { describeElement, type Element, hasElement } from '../../model/elements.ts'
import type { Observed } from '../../model/observed.ts'
import type { Op } from '../../model/op.ts'
import { setSpec, type TableFamily } from '../../model/sets.ts'
import { declarationsOf } from '../../model/tables.ts'

type TableOp = Extract<Op, { kind: 'nft.base' | 'nft.chain' | 'nft.chain.del' | 'nft.add' | 'nft.del' }>

/** What differs, for people; empty when all holds or the table was not looked at. */
export function tableDifference(op: TableOp, observed: Observed): readonly string[] {
  switch (op.kind) {
    case 'nft.base':
      return baseDifference(op, observed)
    case 'nft.chain':
      return chainDifference(op, observed)
    case 'nft.chain.del':
      return isChainThere(op.chain, observed) ? [`nft chain ${op.chain} is still there`] : []
    case 'nft.add':
      return elementDifference(op, observed)
    case 'nft.del':
      return elementDifference(op, observed).length === 0
        ? [`${describeElement(op)} is still in nft set ${op.set}`]
        : []
    default:
      return op satisfies never
  }
}

function baseDifference(op: Extract<TableOp, { kind: 'nft.base' }>, observed: Observed): readonly string[] {
  const { table: family, acceptMark } = op
  const table = tableIn(observed, family)
  if (table === undefined) return []
  if (table === 'absent') return [`nft table ${family} trestle is missing`]
  const flags = table.hasFlags ? [`nft table ${family} trestle has a flag that is not ours: it may be dormant`] : []
  const chains = declarationsOf(family, acceptMark).chains.flatMap((chain) => {
    const there = table.rules.get(chain.name)
    if (there === undefined) return [`nft chain ${chain.name} is missing`]
    const missing = chain.rules.filter((rule) => !there.includes(rule.comment))
    const comments = chain.rules.map((rule) => rule.comment)
    return [
      ...missing.map((rule) => `nft rule "${rule.comment}" is missing from ${chain.name}`),
      // A rule of somebody else may decide before ours do.
      ...(there.every((comment) => comments.includes(comment))
        ? []
        : [`a rule that is not ours is in nft chain ${chain.name}`]),
      ...(table.dropping?.includes(chain.name) ? [`policy of nft chain ${chain.name} is drop, not accept`] : []),
    ]
  })
  return [...flags, ...chains]
}

function chainDifference(op: Extract<TableOp, { kind: 'nft.chain' }>, { table }: Observed): readonly string[] {
  if (table === undefined) return []
  const isThere = table !== 'absent' && table.rules.get(op.chain)?.includes(op.comment)
  return isThere ? [] : [`nft rule "${op.comment}" is missing from ${op.chain}`]
}

function isChainThere(chain: string, { table }: Observed): boolean {
  return table !== undefined && table !== 'absent' && table.rules.has(chain)
}

function elementDifference(element: Element, observed: Observed): readonly string[] {
  const table = tableIn(observed, setSpec(element.set).table)
  if (table === undefined) return []
  if (table !== 'absent' && hasElement(table.elements, element)) return []
  return [`element ${describeElement(element)} is missing from nft set ${element.set}`]
}

function tableIn(observed: Observed, family: TableFamily): Observed['table'] {
  return family === 'inet' ? observed.table : observed.bridgeTable
}
