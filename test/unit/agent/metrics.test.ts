// SPDX-License-Identifier: Apache-2.0
// Metrics as Prometheus reads them, and health over HTTP.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, vi } from 'vitest'
import { openMetrics, serveHealth } from '../../../src/agent/metrics.ts'
import { poolUse } from '../../../src/commands/pools.ts'
import { here, useServers } from './api-server.ts'

useServers()

const fine = { isStuck: () => undefined, isUnready: () => undefined, problems: () => [], metrics: openMetrics('0') }

/** A port that nothing listens on. */
async function freePort(): Promise<number> {
  const held = createServer()
  await new Promise<void>((resolve) => held.listen(0, '127.0.0.1', resolve))
  const { port } = held.address() as AddressInfo
  await new Promise<unknown>((resolve) => held.close(resolve))
  return port
}

async function served(health: Partial<Parameters<typeof serveHealth>[1]>) {
  const port = await freePort()
  serveHealth({ host: '127.0.0.1', port }, { ...fine, ...health }, here.end.signal)
  return async (path: string, method = 'GET') => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method })
    return [answer.status, await answer.text()]
  }
}

describe('metrics', () => {
  it('count problems by their ids, also where there are none', async () => {
    const metrics = openMetrics('1.2.3')
    metrics.setProblems([
      { id: 'NoPodCIDR', node: 'a', text: 'x' },
      { id: 'NoPodCIDR', node: 'b', text: 'x' },
    ])
    const text = await metrics.text()
    expect(text).toContain('trestle_agent_build_info{version="1.2.3"} 1\n')
    expect(text).toContain('trestle_agent_problems{id="NoPodCIDR"} 2\n')
    expect(text).toContain('trestle_agent_problems{id="OverlayFails"} 0\n')
    expect(text).toMatch(/^trestle_agent_resident_memory_bytes [1-9]/m)
    metrics.setProblems([])
    expect(await metrics.text()).toContain('trestle_agent_problems{id="NoPodCIDR"} 0\n')
  })

  it('count the addresses that pods can have', () => {
    vi.stubEnv('TRESTLE_STATE_DIR', here.scratch)
    try {
      expect(poolUse('pods', [])).toEqual([])
      expect(poolUse('pods', ['10.0.1.0/24', 'fd00:1::/120'])).toEqual([
        { range: '10.0.1.0/24', taken: 0, total: 253 },
        { range: 'fd00:1::/120', taken: 0, total: 254 },
      ])
    } finally {
      vi.unstubAllEnvs()
    }
  })
})

describe('health', () => {
  it('says what is wrong, and lists problems while the agent is ready', async () => {
    const ready = await served({ problems: () => ['a', 'b'] })
    expect(await ready('/healthz')).toEqual([200, 'ok\n'])
    expect(await ready('/readyz?verbose')).toEqual([200, 'ok\na\nb\n'])
    expect(await ready('/metrics')).toEqual([200, expect.stringContaining('# HELP trestle_agent_nodes ')])
    expect(await ready('/')).toEqual([404, expect.stringContaining('/readyz')])
    expect(await ready('/healthz', 'POST')).toEqual([405, ''])
    const unready = await served({ isUnready: () => 'waiting', isStuck: () => 'stuck', problems: () => ['a'] })
    expect(await unready('/healthz')).toEqual([503, 'stuck\n'])
    expect(await unready('/readyz')).toEqual([503, 'waiting\na\n'])
  })

  it('answers 500 for metrics that cannot be read, and lives', async () => {
    const metrics = openMetrics('0', () => {
      throw new Error('EIO: the state cannot be read')
    })
    const ask = await served({ metrics })
    expect(await ask('/metrics')).toEqual([500, 'EIO: the state cannot be read\n'])
    expect(await ask('/healthz')).toEqual([200, 'ok\n'])
  })
})
