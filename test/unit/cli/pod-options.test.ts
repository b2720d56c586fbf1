// SPDX-License-Identifier: Apache-2.0
// --port and --cap: what a runtime would send for a pod.

import { describe, expect, it } from 'vitest'
import { capabilityArgsOf, checkDeclared } from '../../../src/commands/pod-options.ts'

describe('--port and --cap', () => {
  it.each([
    [{ port: '8080:80,53:5353/udp' }, { portMappings: [mapping(8080, 80, 'tcp'), mapping(53, 5353, 'udp')] }],
    [{ port: '8080:80\n53:5353/udp' }, { portMappings: [mapping(8080, 80, 'tcp'), mapping(53, 5353, 'udp')] }],
    [{ cap: 'bandwidth={"ingressRate":1000,"egressRate":2}' }, { bandwidth: { ingressRate: 1000, egressRate: 2 } }],
    [{ cap: 'ips=["10.1.0.9"]\nmac="02:00:00:00:00:09"' }, { ips: ['10.1.0.9'], mac: '02:00:00:00:00:09' }],
    [{}, {}],
  ])('reads %j', (values, expected) => {
    expect(capabilityArgsOf(values)).toEqual(expected)
  })

  it.each([
    { port: '8080' },
    { port: '0:80' },
    { port: '80:65536' },
    { port: '80:80/icmp' },
    { port: '80:80,' },
    { cap: 'mac' },
    { cap: 'mac=02:00:00:00:00:09' },
    { cap: '={}' },
  ])('refuses %j', (values) => {
    expect(() => capabilityArgsOf(values)).toThrow(/^--(port|cap) /)
  })

  it('refuses what no runtime sends, because no plugin declares it', () => {
    const plugins = [{ type: 'trestle', capabilities: { portMappings: true, bandwidth: false } }]
    expect(() => checkDeclared(plugins, ['portMappings'])).not.toThrow()
    expect(() => checkDeclared(plugins, ['bandwidth'])).toThrow('the configuration has no "capabilities": {"bandwidth"')
  })
})

function mapping(hostPort: number, containerPort: number, protocol: string) {
  return { hostPort, containerPort, protocol }
}
