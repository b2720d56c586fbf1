// SPDX-License-Identifier: Apache-2.0
// Which mode new pods get. Bridged and routed pods of one range do not reach each other: the ones ask by ARP on a
// bridge where the others are not. So a node keeps the mode of its pods until none of them is left.

import type { Mode } from '../../cni/model/net-conf.ts'
import type { Problem } from './problem.ts'

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
