// SPDX-License-Identifier: Apache-2.0
// Services of IPVS, as the kernel prints them, and the host ports that take their traffic.

import { expect, it } from 'vitest'
import { catches, readIpvsServices } from '../../../../src/cli/doctor/ipvs.ts'

const printed = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr 
  -> C000020B:192B      Masq    1      0          0         
UDP  0A60000A:0035 rr persistent 10800 FFFFFFFF
TCP  [fd00:0096:0000:0000:0000:0000:0000:0001]:01BB rr
FWM  00000001 rr
`

it('reads services, and nothing else', () => {
  expect(readIpvsServices(printed)).toEqual([
    { protocol: 'tcp', family: 4, address: '10.96.0.1', port: 443 },
    { protocol: 'udp', family: 4, address: '10.96.0.10', port: 53 },
    { protocol: 'tcp', family: 6, address: 'fd00:96::1', port: 443 },
  ])
})

it.each([
  ['every address', {}, true],
  ["the service's address", { hostIp: '10.96.0.1' }, true],
  ['an address of the node', { hostIp: '192.0.2.1' }, false],
  ['another protocol', { protocol: 'udp' }, false],
  ['another port', { hostPort: 80 }, false],
  ['the other family', { family: 6 }, false],
] as const)('a host port of %s takes it: %j %s', (_, parts, isCaught) => {
  const port = {
    protocol: 'tcp',
    family: 4,
    hostPort: 443,
    containerPort: 8443,
    podIp: '10.240.0.2',
    ...parts,
  } as const
  expect(catches(port as never, { protocol: 'tcp', family: 4, address: '10.96.0.1', port: 443 })).toBe(isCaught)
})
