// SPDX-License-Identifier: Apache-2.0
// `plan` with what a runtime would send for a pod.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { capabilityArgsOf } from '../../../src/commands/pod-options.ts'
import { runCli } from '../../support/collect.ts'

describe('plan --port and --bandwidth', () => {
  let directory: string
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'trestle-plan-'))
    const plugin = { type: 'trestle', podcidr: '10.9.0.0/24', capabilities: { portMappings: true, bandwidth: true } }
    for (const [name, capabilities] of Object.entries({ with: plugin.capabilities, without: {} })) {
      const list = { cniVersion: '1.1.0', name: 'n', plugins: [{ ...plugin, capabilities }] }
      writeFileSync(join(directory, `${name}.conflist`), JSON.stringify(list))
    }
  })
  afterAll(() => rmSync(directory, { recursive: true }))

  it('plans the host ports and the limits, and without them none', async () => {
    const file = join(directory, 'with.conflist')
    const { code, stdout } = await runCli(['plan', '--port', '8080:80,53:5353/udp', '--bandwidth', '10M/500k', file])
    expect(code, stdout).toBe(0)
    expect(stdout).toMatch(/8080[^\n]*10\.9\.0\.2/)
    expect(stdout).toMatch(/udp \. 53\b/)
    expect(stdout).toContain('rate 10000000bit')
    expect(stdout).toContain('rate 500000bit')
    expect((await runCli(['plan', file])).stdout).not.toMatch(/8080|bit/)
  })

  it.each([
    [['--port', '8080:80'], 'portMappings'],
    [['--bandwidth', '10M'], 'bandwidth'],
  ])('refuses %j where no runtime sends it', async (words, capability) => {
    const { code, stderr } = await runCli(['plan', ...words, join(directory, 'without.conflist')])
    expect([code, stderr]).toEqual([2, expect.stringContaining(`"capabilities": {"${capability}": true}`)])
  })

  it.each([
    ['1M', { ingressRate: 1e6 }],
    ['1.5k/2Gi', { ingressRate: 1500, egressRate: 2 ** 31 }],
    ['/800', { egressRate: 800 }],
  ])('reads --bandwidth %s', (bandwidth, expected) => {
    expect(capabilityArgsOf({ bandwidth })).toEqual({ bandwidth: expected })
  })

  it.each([
    { port: '8080' },
    { port: '0:80' },
    { port: '80:65536' },
    { port: '80:80/icmp' },
    { port: '80:80,' },
    { bandwidth: '10MB' },
    { bandwidth: '0' },
    { bandwidth: '' },
    { bandwidth: '1/2/3' },
  ])('refuses %j', (values) => {
    expect(() => capabilityArgsOf(values)).toThrow(/^--(port|bandwidth) /)
  })
})
