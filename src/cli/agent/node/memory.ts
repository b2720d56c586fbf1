// SPDX-License-Identifier: Apache-2.0
// The agent's memory on disk: for the next agent on this node, until the node boots.

import { emptyMemory, type Memory } from '../../../plan/agent/memory.ts'
import { decodeMemory, encodeMemory } from '../../../plan/state/stored-cluster.ts'
import { readText, replaceText } from '../../../system/files/files.ts'
import { stateRoot } from '../../../system/files/state.ts'

const file = () => `${stateRoot()}/agent.json`

/** The memory and its text: what was written last. */
export interface KeptMemory {
  readonly memory: Memory
  readonly text: string
}

/**
 * What the last agent remembered; nothing where there is none, or it cannot be read. `before`: is given back where the
 * file says the same.
 */
export function readMemory(before?: KeptMemory): KeptMemory {
  const found = readText(file())
  if (found === undefined || found === 'unreadable') return { memory: emptyMemory, text: '' }
  return found.text === before?.text ? before : { memory: decodeMemory(found.text), text: found.text }
}

/** Writes it, and returns it, where its text differs from the one before; else that one. */
export function writeMemory(memory: Memory, before: KeptMemory): KeptMemory {
  const text = encodeMemory(memory)
  if (text === before.text) return before
  replaceText(file(), text)
  return { memory, text }
}
