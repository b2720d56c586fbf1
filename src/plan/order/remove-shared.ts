// SPDX-License-Identifier: Apache-2.0
// The orders in which goes what attachments shared: that of a network that has none left, everything by `trestle
// uninstall`, and what nobody has any more. Whatever fails, the rest goes.

import { elementOps } from '../model/elements.ts'
import type { Op } from '../model/op.ts'
import type { TableFamily } from '../model/sets.ts'
import { hairpinLink } from '../rules/hairpin.ts'
import { loopbackGuard } from '../rules/host-ports.ts'
import { tableRemoval } from '../rules/ruleset.ts'
import type { AddFacts } from './facts.ts'
import { inTurn } from './reserve.ts'
import { errorsIn, outcomeOf, planOf, type Step } from './stage.ts'

type Runs = Pick<AddFacts, 'runs'>

/** What goes with an empty network. `rules`: those that stay, filled anew. */
export interface EmptyNetwork {
  readonly links: readonly string[]
  readonly rules: readonly Op[]
}

/** The result: what failed in the kernel. Ends with an error where an accept in the chains of others stays. */
export function nextOfEmptyNetwork({ links, rules, runs }: EmptyNetwork & Runs): Step<readonly Error[]> {
  const [run] = runs
  if (run !== undefined) {
    const [left, failed] = [errorsIn(run, 'accepts', 'mark'), errorsIn(run, 'kernel')]
    const all = [...left, ...failed]
    return left.length === 0
      ? { result: failed }
      : new AggregateError(all, all.map(({ message }) => message).join('; '))
  }
  const guards = elementOps([...links.map(loopbackGuard), ...links.map(hairpinLink)], 'nft.del')
  const ops = [...linkRemovals(links), ...rules, ...guards]
  return planOf({
    id: 'remove the network',
    because: 'no attachment of it is left',
    stages: [
      { id: 'kernel', run: { kind: 'batch', ops, tolerates: 'absent' }, after: [] },
      { id: 'accepts', run: { kind: 'state', what: 'accepts taken out' }, after: ['kernel'], anyway: true },
      { id: 'mark', run: { kind: 'state', what: 'mark settled' }, after: ['accepts'] },
    ],
  })
}

/** What trestle made of the machine, as `trestle uninstall` found it. */
export interface Installed {
  readonly links: readonly string[]
  readonly tables: readonly TableFamily[]
}

/** The result: what failed. State stays when something did: it says what is left. */
export function nextOfUninstall({ links, tables, runs }: Installed & Runs): Step<readonly Error[]> {
  const [run] = runs
  if (run !== undefined) return outcomeOf(run, 'state')?.failed?.error ?? { result: errorsIn(run) }
  const removals = inTurn([
    { id: 'accepts', run: { kind: 'state', what: 'accepts taken out' }, after: [], anyway: true },
    // Also where state was lost: nothing of ours stays in the chains of others.
    { id: 'mark', run: { kind: 'state', what: 'mark settled' }, after: [], anyway: true },
    { id: 'links', run: { kind: 'batch', ops: linkRemovals(links), tolerates: 'absent' }, after: [], anyway: true },
    ...tables.map((table) => {
      const run = { kind: 'batch', ops: [tableRemoval(table)], tolerates: 'absent' } as const
      return { id: `table ${table}`, run, after: [], anyway: true } as const
    }),
  ])
  return planOf({
    id: 'uninstall',
    because: 'no attachment is left',
    stages: [
      ...removals,
      { id: 'state', run: { kind: 'state', what: 'state removed' }, after: removals.map(({ id }) => id) },
    ],
  })
}

/** Takes away what is nobody's; the result: what failed. */
export function nextOfOrphans({ ops, runs: [run] }: Runs & { readonly ops: readonly Op[] }): Step<readonly Error[]> {
  if (run !== undefined) return { result: errorsIn(run) }
  return {
    id: 'remove orphans',
    because: 'no attachment has them',
    stages: [{ id: 'orphans', run: { kind: 'batch', ops, tolerates: 'absent' }, after: [] }],
  }
}

function linkRemovals(links: readonly string[]): readonly Op[] {
  return links.map((dev): Op => ({ in: 'host', kind: 'link.del', dev, why: `remove ${dev}` }))
}
