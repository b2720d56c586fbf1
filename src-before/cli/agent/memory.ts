// SPDX-License-Identifier: Apache-2.0
// The agent's memory on disk, for the next agent on this node, until the next boot.

import { uptime } from 'node:os'
import { encodeFile } from '../../model/kinds.ts'
import type { ClusterView } from '../../plan/agent/cluster-view.ts'
import { decodeMemory, emptyMemory, type Memory, remember, withRangesOf } from '../../plan/agent/memory.ts'
import type { Problem } from '../../plan/agent/problem.ts'
import { readText, replaceText } from '../../system/files/files.ts'
import { stateRoot } from '../../system/files/state.ts'
import { livePods } from './new-pods.ts'
import type { RoundInput } from './round.ts'
import { madeFrom } from './routes.ts'

const file = () => `${stateRoot()}/agent.json`

/** 5000 nodes of both families take 1 MB, and as many may have gone within the last hour. */
const mostBytes = 16 * 1024 * 1024

/** The memory, and the text of its last write. */
export interface KeptMemory {
  readonly memory: Memory
  readonly text: string
}

/**
 * The last agent's memory, with the ranges of live pods of the network. Returns `before` if neither the file nor these
 * have anything else.
 */
export function readMemory(network: string, before?: KeptMemory): KeptMemory {
  const found = readText(file(), mostBytes)
  const { text } = typeof found === 'object' ? found : { text: '' }
  const known = text === before?.text ? before.memory : text === '' ? emptyMemory : decodeMemory(text)
  const memory = withRangesOf(known, liveGateways(network))
  return before?.memory === memory ? before : { memory, text }
}

function liveGateways(network: string): readonly string[] {
  return livePods(network).flatMap(({ network: made }) => [...(made?.bridge?.addresses ?? []), ...(made?.ranges ?? [])])
}

/** Writes and returns the memory if its text differs from `before`; else returns `before`. */
function writeMemory(memory: Memory, before: KeptMemory): KeptMemory {
  const text = encodeFile(memory)
  if (text === before.text) return before
  replaceText(file(), text)
  return { memory, text }
}

/** Adapts the memory to the view, and writes it. */
export function keepMemory({ known }: RoundInput, view: ClusterView, before: KeptMemory): readonly Problem[] {
  const nowMs = Math.round(uptime() * 1000)
  // The memory forgets missing nodes after a time.
  const isWaiting = before.memory.peers.some(({ goneSinceMs }) => goneSinceMs !== undefined)
  const { peers, own } = view
  known.remembered = madeFrom(known.remembered, [view, before.memory, isWaiting && nowMs], () =>
    remember(before.memory, { peers, own, nowMs }),
  )
  known.memory = undefined
  known.memory = writeMemory(known.remembered.value, before)
  return []
}
