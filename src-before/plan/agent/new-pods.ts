// SPDX-License-Identifier: Apache-2.0
// The mode and the MTU of new pods.

import type { Mode } from '../../model/attachment.ts'
import type { Problem } from './problem.ts'

/** The bridge that the plugin takes by itself. */
const first = 'cni0'

/** The name as the configuration says it: nothing for the one that the plugin takes by itself. */
export function bridgeKey(name: string): string | undefined {
  return name === first ? undefined : name
}

// Which mode new pods get. Bridged and routed pods of one range do not reach each other: the ones ask by ARP on a
// bridge where the others are not. So a node keeps the mode of its pods until none of them is left.

/** The mode of new pods, and what is to be done where it is not the one that is asked for. */
export interface ModeChoice {
  readonly mode: Mode
  readonly problems: readonly Problem[]
}

/** `live`: the modes of the pods that are there, the newest pod's first. */
export function chooseMode(node: string, asked: Mode, live: readonly Mode[]): ModeChoice {
  const [mode = asked] = live
  const all = [...new Set(live)].sort()
  const problem = (text: string): readonly Problem[] => [{ id: 'ModeChanged', node, text }]
  if (all.length > 1)
    return { mode, problems: problem(`pods of modes ${all.join(' and ')} do not reach each other: drain the node`) }
  if (mode === asked) return { mode, problems: [] }
  return { mode, problems: problem(`pods here are of mode ${mode}, and so are new ones: drain the node for ${asked}`) }
}

// A pod keeps the MTU that it was attached with: the uplink's, or the template's.

/** The MTU of new pods and who says so; `bytes` is undefined where nobody knows. */
export interface MtuWanted {
  readonly bytes: number | undefined
  readonly by: 'uplink' | 'template'
}

/** What is wrong where new pods get another MTU by now. `pods`: the MTU of each pod of the node; bytes. */
export function mtuProblems(node: string, { bytes, by }: MtuWanted, pods: readonly number[]): readonly Problem[] {
  if (bytes === undefined) return []
  const others = pods.filter((mtu) => mtu !== bytes)
  if (others.length === 0) return []
  const theirs = [...new Set(others)].sort((a, b) => a - b).join(', ')
  // Their number would make a new problem of it with each pod that goes.
  return [
    {
      id: 'MtuChanged',
      node,
      text: `the ${by} has MTU ${bytes}, pods here have ${theirs}: new ones get ${bytes}, start the others again`,
    },
  ]
}
