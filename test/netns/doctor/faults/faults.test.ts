// SPDX-License-Identifier: Apache-2.0
// Faults that users met, each made by a script: doctor, lint and explain call it by its id, and by no other; the cure that
// is printed is run as it stands, and pods have traffic. A fifth of them, by seed; all with TRESTLE_TEST_FULL=1.

import { execaSync } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { shuffled } from '../../../support/seeded.ts'
import { allFaults } from './all.ts'
import { type Bench, examine, isAsBefore, openBench } from './examine.ts'
import { type Fault, type NodeKind, nodeKinds } from './fault.ts'

const seed = Number(process.env['TRESTLE_TEST_SEED'] ?? Date.now() % 1_000_000)
const isFull = process.env['TRESTLE_TEST_FULL'] === '1'
const some = isFull ? allFaults : shuffled(allFaults, seed).slice(0, Math.ceil(allFaults.length / 5))
// One node after the other.
const order = Object.keys(nodeKinds)
const kindOf = ({ on = 'bridge' }: Fault): NodeKind => on
const faults = some.toSorted((a, b) => order.indexOf(kindOf(a)) - order.indexOf(kindOf(b)))
console.log(`faults: TRESTLE_TEST_SEED=${seed}, ${faults.length} of ${allFaults.length}`)

let current: { readonly kind: NodeKind; readonly bench: Bench } | undefined

/** The node of the fault before, or a new one. */
function benchFor(kind: NodeKind): Bench {
  if (current?.kind === kind) return current.bench
  close()
  current = { kind, bench: openBench(kind) }
  return current.bench
}

function close(): void {
  current?.bench.node.close()
  current = undefined
}

// What cures write there is not for the machine: the mount namespace is the test's.
beforeAll(() => void execaSync('mount', ['-t', 'tmpfs', 'tmpfs', '/etc/sysctl.d']))
afterAll(() => {
  close()
  execaSync('umount', ['/etc/sysctl.d'])
})

describe('faults', () => {
  it('there are at least sixty, each with a source', () => {
    expect(allFaults.length).toBeGreaterThanOrEqual(60)
    const sources = allFaults.filter(({ source }) => /^(?:[\w.-]+\/[\w.-]+#\d+|https:\/\/\S+)$/.test(source))
    expect(sources).toHaveLength(allFaults.length)
    expect(new Set(allFaults.map(({ what }) => what)).size).toBe(allFaults.length)
  })

  it.each(faults)('$what', (fault: Fault) => {
    const bench = benchFor(kindOf(fault))
    let isGood = false
    try {
      examine(bench, fault)
      isGood = isAsBefore(bench, fault)
    } finally {
      if (!isGood) close()
    }
  })
})
