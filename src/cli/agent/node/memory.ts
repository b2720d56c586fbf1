// SPDX-License-Identifier: Apache-2.0
// The agent's memory on disk, for the next agent on this node, until the next boot.

import { emptyMemory, type Memory } from '../../../plan/agent/memory.ts'
import { decodeMemory, encodeMemory } from '../../../plan/state/stored-cluster.ts'
import { readText, replaceText } from '../../../system/files/files.ts'
import { stateRoot } from '../../../system/files/state.ts'

const file = () => `${stateRoot()}/agent.json`

/** The memory, and the text of its last write. */
export interface KeptMemory {
  readonly memory: Memory
  readonly text: string
}

/** The last agent's memory, empty if the file is missing or unreadable. Returns `before` if the text is equal. */
export function readMemory(before?: KeptMemory): KeptMemory {
  const found = readText(file())
  if (found === undefined || found === 'unreadable') return { memory: emptyMemory, text: '' }
  return found.text === before?.text ? before : { memory: decodeMemory(found.text), text: found.text }
}

/** Writes and returns the memory if its text differs from `before`; else returns `before`. */
export function writeMemory(memory: Memory, before: KeptMemory): KeptMemory {
  const text = encodeMemory(memory)
  if (text === before.text) return before
  replaceText(file(), text)
  return { memory, text }
}
