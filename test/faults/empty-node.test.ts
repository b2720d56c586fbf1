// SPDX-License-Identifier: Apache-2.0
// Faults on the first ADD of a node: no bridge, no table, no state. Each fault has a node of its own, which takes long:
// TRESTLE_TEST_PART=1/3 plays a third of the kinds of networks.

import { expect, it } from 'vitest'
import { openFaultNode } from '../support/faults/fault-node.ts'
import { featureSets } from '../support/faults/fault-sets.ts'
import { listingTools, toolStrikes } from '../support/faults/fault-strikes.ts'
import { undisturbed, wrongOf } from '../support/faults/fault-suite.ts'
import type { ToolCall } from '../support/faults/faults.ts'
import { ofThisPart } from '../support/part.ts'

const minutes = 60_000
const sets = Object.values(featureSets)

it.each(ofThisPart(sets))(
  '$title: the first ADD of a node, at a process that it starts',
  async (set) => {
    const onNode = async (play: (node: Awaited<ReturnType<typeof openFaultNode>>) => Promise<readonly string[]>) => {
      const node = await openFaultNode(set, 'none')
      try {
        return await play(node)
      } finally {
        node.close()
      }
    }
    const seen: ToolCall[] = []
    const wrong = [...(await onNode((node) => undisturbed(node, 'first ADD', listingTools(seen))))]
    expect(seen.length).toBeGreaterThan(0)
    for (const strike of toolStrikes(seen, 'all')) {
      wrong.push(
        ...(await onNode((node) =>
          wrongOf(node, { verb: 'first ADD', strikes: [strike], name: 'first ADD of the node' }),
        )),
      )
    }
    expect(wrong).toEqual([])
  },
  30 * minutes,
)
