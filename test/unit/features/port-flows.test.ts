// SPDX-License-Identifier: Apache-2.0
// The conntrack entries that must go with host ports, and those that must not.

import { describe, expect, it } from 'vitest'
import { parseCidr } from '../../../src-before/cni/address.ts'
import { hostPortSpec } from '../../../src-before/features/host-ports.ts'
import {
  type FlowSelections,
  flowsAfterDel,
  flowsBeforeAdd,
  flowsToList,
  withoutConnections,
} from '../../../src-before/features/port-flows.ts'
import { readFlows } from '../../../src-before/system/kernel/conntrack.ts'
import { type Json, read } from '../cni/call.ts'

const ips = [{ address: '10.0.0.2/24' }, { address: 'fd00::2/64' }]
const portsOf = (portMappings: readonly Json[]) =>
  hostPortSpec(read({ runtimeConfig: { portMappings } }), ips, 'cni0')?.ports ?? []
const words = (flows: readonly FlowSelections[]) =>
  flows.flatMap(({ family, selections }) => selections.map((each) => `${family}: ${each.join(' ')}`))

const mapping = { hostPort: 8080, containerPort: 80 }
const udp = { ...mapping, protocol: 'udp' }
const ports = portsOf([mapping, udp, { ...udp, hostPort: 9, hostIP: '192.0.2.9' }])
const cidrs = (texts: readonly string[]) => texts.flatMap((text) => parseCidr(text) ?? [])
const node = cidrs(['127.0.0.0/8', '192.0.2.1/32', '2001:db8::1/128'])

/** As conntrack 1.4.7 prints them. */
const listed = readFlows(
  [
    'udp      17 29 src=192.0.2.7 dst=192.0.2.1 sport=5555 dport=8080 [UNREPLIED] src=192.0.2.1 dst=192.0.2.7 sport=8080 dport=5555 mark=0 use=1',
    'udp      17 119 src=10.0.0.3 dst=198.51.100.1 sport=4444 dport=8080 src=198.51.100.1 dst=192.0.2.1 sport=8080 dport=4444 [ASSURED] mark=0 use=1',
    'udp      17 3 src=192.0.2.7 dst=192.0.2.1 sport=5555 dport=9 [UNREPLIED] src=192.0.2.1 dst=192.0.2.7 sport=9 dport=5555 mark=0 use=1',
    'udp      17 3 src=192.0.2.7 dst=192.0.2.9 sport=5555 dport=9 [UNREPLIED] src=192.0.2.9 dst=192.0.2.7 sport=9 dport=5555 mark=0 use=1',
    'udp      17 3 src=2001:db8::7 dst=2001:db8::1 sport=5555 dport=8080 [UNREPLIED] src=2001:db8::1 dst=2001:db8::7 sport=8080 dport=5555 mark=0 use=1',
    'icmp     1 29 src=192.0.2.7 dst=192.0.2.1 type=8 code=0 id=1 src=192.0.2.1 dst=192.0.2.7 type=0 code=0 id=1 mark=0 use=1',
    '',
  ].join('\n'),
)

describe('stale flows', () => {
  it('are listed once a family and protocol, by port where there is one', () => {
    expect(words(flowsToList(ports))).toEqual(['4: -p udp', '6: -p udp --orig-port-dst 8080'])
    const sctp = portsOf([udp, { ...udp, protocol: 'sctp' }])
    expect(words(flowsToList(sctp)).slice(0, 2)).toEqual([
      '4: -p udp --orig-port-dst 8080',
      '4: -p sctp --orig-port-dst 8080',
    ])
  })

  it('before an ADD go to the port on an address of the node, or on its own', () => {
    expect(words(flowsBeforeAdd(ports, node, listed))).toEqual([
      '4: -p udp --orig-port-dst 8080 --orig-dst 192.0.2.1',
      '4: -p udp --orig-port-dst 9 --orig-dst 192.0.2.9',
      '6: -p udp --orig-port-dst 8080 --orig-dst 2001:db8::1',
    ])
    expect(flowsBeforeAdd(ports, node, [])).toEqual([])
    expect(flowsBeforeAdd(ports, cidrs(['192.0.2.2/32']), listed.slice(0, 3))).toEqual([])
  })

  it('after a DEL went into the pod, however many ports it had', () => {
    expect(words(flowsAfterDel(ports))).toEqual(['4: -p udp --reply-src 10.0.0.2', '6: -p udp --reply-src fd00::2'])
  })

  it('are never of TCP', () => {
    const tcp = portsOf([mapping])
    expect(tcp).toHaveLength(2)
    const flows = [...flowsToList(tcp), ...flowsBeforeAdd(tcp, node, listed), ...flowsAfterDel(tcp)]
    expect([...withoutConnections(tcp), ...flows]).toEqual([])
  })
})
