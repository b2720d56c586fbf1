// SPDX-License-Identifier: Apache-2.0
// The agent's memory on disk: for the next agent on this node, until the node boots.

import { emptyMemory, type Memory } from '../../../plan/agent/memory.ts'
import { decodeMemory, encodeMemory } from '../../../plan/state/stored-cluster.ts'
import { readText, replaceText } from '../../../system/files/files.ts'
import { stateRoot } from '../../../system/files/state.ts'

const file = () => `${stateRoot()}/agent.json`

/** What the last agent remembered; nothing where there is none, or it cannot be read. */
export function readMemory(): Memory {
  const found = readText(file())
  return found === undefined || found === 'unreadable' ? emptyMemory : decodeMemory(found.text)
}

/** Writes it, where it differs from `before`. */
export function writeMemory(memory: Memory, before: Memory): void {
  const text = encodeMemory(memory)
  if (text !== encodeMemory(before)) replaceText(file(), text)
}
