// SPDX-License-Identifier: Apache-2.0
// VLANs of ports as `bridge` commands, and read back from `bridge -j vlan show` (iproute2 6.1).

import { describe, expect, it } from 'vitest'
import { bridgeWords, readVlans } from '../../../src-before/tools/tc.ts'

const op = { in: 'host', why: 'w', dev: 'v', vid: 100 } as const

describe('bridgeWords', () => {
  it('an untagged VLAN is where untagged frames go', () => {
    const words = bridgeWords({ ...op, kind: 'vlan.add', tagged: false })
    expect(words.join(' ')).toBe('vlan add dev v vid 100 pvid untagged')
  })
  it('a tagged one is not', () => {
    expect(bridgeWords({ ...op, kind: 'vlan.add', tagged: true }).join(' ')).toBe('vlan add dev v vid 100')
  })
  it('is taken off by its id', () => {
    expect(bridgeWords({ ...op, kind: 'vlan.del' }).join(' ')).toBe('vlan del dev v vid 100')
  })
})

describe('readVlans', () => {
  it('reads ids and ranges by port', () => {
    const listing =
      '[{"ifname":"v1","vlans":[{"vlan":1,"flags":["PVID","Egress Untagged"]},{"vlan":200,"vlanEnd":202}]},{"ifname":"cni0","vlans":[{"vlan":1}]}]'
    expect([...readVlans(listing)]).toEqual([
      ['v1', [1, 200, 201, 202]],
      ['cni0', [1]],
    ])
  })
  it.each(['', '[]', '[]\n'])('reads no ports from %j', (stdout) => expect(readVlans(stdout).size).toBe(0))
})
