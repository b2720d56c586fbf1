// SPDX-License-Identifier: Apache-2.0
// The agent's memory of a large cluster is read again by the next agent.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { readMemory } from '../../../../src-before/cli/agent/memory.ts'
import { encodeFile } from '../../../../src-before/model/kinds.ts'
import { writeText } from '../../../../src-before/system/files/files.ts'

let state: string

beforeEach(() => {
  state = mkdtempSync(`${tmpdir()}/trestle-memory-`)
  vi.stubEnv('TRESTLE_STATE_DIR', state)
})

afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(state, { recursive: true })
})

it('has 5000 nodes of both families, and as many that have gone', () => {
  const peers = Array.from({ length: 10_000 }, (_, at) => ({
    name: `ip-10-123-${at}.eu-central-1.compute.internal`,
    ranges: [`10.${at >> 8}.${at & 255}.0/24`, `2600:1f14:1234:5600:abcd:${at.toString(16)}::/96`],
    addresses: [`172.16.${at >> 8}.${at & 255}`, `2600:1f14:1234:5600:abcd:1234:5678:${at.toString(16)}`],
    ...(at < 5000 ? {} : { goneSinceMs: 1 }),
  }))
  writeText(`${state}/agent.json`, encodeFile({ peers, own: ['10.244.1.0/24'] }))
  expect(readMemory('pods').memory.peers).toEqual(peers)
})
