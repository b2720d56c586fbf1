// SPDX-License-Identifier: Apache-2.0
// The orders in which goes what attachments shared, as tables: what is known, and what comes next.

import { describe, expect, it } from 'vitest'
import { nextOfEmptyNetwork, nextOfOrphans, nextOfUninstall } from '../../../../src/plan/order/remove-shared.ts'
import { factsAfter, failing, type Happens, stepText } from '../../../support/steps.ts'

const begun = { learnt: {}, runs: [] }
const rule = { in: 'host', kind: 'nft.flush', set: 'masq4', why: 'refill' } as const
const network = { ...begun, links: ['cni0'], rules: [rule] }
const installed = { ...begun, links: ['cni0'], tables: ['inet', 'bridge'] as const }
const broken = failing('broken')

describe('an empty network', () => {
  const nextAfter = (...happens: readonly Happens[]) =>
    nextOfEmptyNetwork(factsAfter(nextOfEmptyNetwork, network, happens))

  it('goes from the kernel first, then its accepts', () => {
    expect(stepText(nextAfter())).toEqual([
      'remove the network',
      '  kernel: batch: link.del nft.flush nft.del nft.del',
      '  accepts after kernel, anyway: state accepts taken out',
      '  mark after accepts: state mark settled',
    ])
  })
  it('is gone also where the kernel keeps something, which is reported', () => {
    expect(nextAfter({})).toEqual({ result: [] })
    expect(nextAfter({ kernel: broken })).toEqual({ result: [broken.failed.error] })
  })
  it.each(['accepts', 'mark'])('stays where %s cannot be taken out of the chains of others', (id) => {
    expect(stepText(nextAfter({ kernel: failing('no link'), [id]: broken }))).toEqual(['error: broken; no link'])
  })
})

describe('uninstall', () => {
  const nextAfter = (...happens: readonly Happens[]) => nextOfUninstall(factsAfter(nextOfUninstall, installed, happens))

  it('goes on whatever fails, and takes state away last, when nothing did', () => {
    expect(stepText(nextAfter())).toEqual([
      'uninstall',
      '  accepts: state accepts taken out',
      '  mark after accepts, anyway: state mark settled',
      '  links after mark, anyway: batch: link.del',
      '  table inet after links, anyway: batch: nft.table.del',
      '  table bridge after table inet, anyway: batch: nft.table.del',
      '  state after accepts, mark, links, table inet, table bridge: state state removed',
    ])
  })
  it('of a node without links and tables waits for the accepts alone', () => {
    const bare = { ...begun, links: [], tables: [] }
    expect(stepText(nextOfUninstall(bare)).at(-1)).toBe('  state after accepts, mark: state state removed')
  })
  it('reports each failure, and state that stays because of one is none', () => {
    const [first, second] = [new Error('first'), new Error('second')]
    const failed = { error: new AggregateError([first, second]) }
    expect(nextAfter({})).toEqual({ result: [] })
    expect(nextAfter({ accepts: { failed }, links: broken })).toEqual({ result: [first, second, broken.failed.error] })
    expect(stepText(nextAfter({ state: broken }))).toEqual(['error: broken'])
  })
})

it('orphans go in one plan, and what fails is the result', () => {
  const facts = { ...begun, ops: [rule] }
  expect(stepText(nextOfOrphans(facts))).toEqual(['remove orphans', '  orphans: batch: nft.flush'])
  expect(nextOfOrphans(factsAfter(nextOfOrphans, facts, [{ orphans: broken }]))).toEqual({
    result: [broken.failed.error],
  })
})
