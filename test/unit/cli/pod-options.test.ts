// SPDX-License-Identifier: Apache-2.0
// --port and --bandwidth: what a runtime would send for a pod.

import { describe, expect, it } from 'vitest'
import { capabilityArgsOf, checkDeclared } from '../../../src/commands/pod-options.ts'

describe('--port and --bandwidth', () => {
  it.each([
    [{ port: '8080:80,53:5353/udp' }, { portMappings: [mapping(8080, 80, 'tcp'), mapping(53, 5353, 'udp')] }],
    [{ bandwidth: '1M' }, { bandwidth: { ingressRate: 1e6 } }],
    [{ bandwidth: '1.5k/2Gi' }, { bandwidth: { ingressRate: 1500, egressRate: 2 ** 31 } }],
    [{ bandwidth: '/800' }, { bandwidth: { egressRate: 800 } }],
    [{}, {}],
  ])('reads %j', (values, expected) => {
    expect(capabilityArgsOf(values)).toMatchObject(expected)
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

  it('refuses what no runtime sends, because no plugin declares it', () => {
    const plugins = [{ type: 'trestle', capabilities: { portMappings: true, bandwidth: false } }]
    expect(() => checkDeclared(plugins, ['portMappings'])).not.toThrow()
    expect(() => checkDeclared(plugins, ['bandwidth'])).toThrow(
      '--bandwidth: the configuration has no "capabilities": {',
    )
  })
})

function mapping(hostPort: number, containerPort: number, protocol: string) {
  return { hostPort, containerPort, protocol }
}
