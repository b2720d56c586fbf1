// SPDX-License-Identifier: Apache-2.0
// Which addresses a pod has whose link shows none: of several sources the surest one of each family.

import { describe, expect, it } from 'vitest'
import { podLinkMac } from '../../../../src-before/model/names.ts'
import type { ObservedLink } from '../../../../src-before/model/observed.ts'
import { type Element, indexElements } from '../../../../src-before/model/op.ts'
import { withTold } from '../../../../src-before/plan/recovery/pod-addresses.ts'
import { goldenKey as key } from '../../../support/golden.ts'

const link = (name: string, mac: string): ObservedLink => ({
  ...{ name, index: 1, mac, mtu: 1500, up: true, promisc: false, allmulti: false, addresses: [] },
})
const own = '02:00:00:00:00:01'
const gateways = ['10.1.0.1/24', 'fd00:1::1/120']
const port = (family: 4 | 6, hostPort: string, podIp: string): Element => ({
  ...{ set: `anyports${family}`, key: ['tcp', hostPort], value: [podIp, '80'] },
})

interface Case {
  readonly mac?: string | undefined
  readonly known?: readonly string[]
  readonly prefixes?: readonly string[]
  readonly beside?: readonly string[]
  readonly neighbours?: Readonly<Record<string, readonly string[]>>
  readonly learned?: readonly string[]
  readonly ports?: readonly Element[]
}

function told({ mac = own, known = [], prefixes = gateways, beside = [], ...more }: Case) {
  const { neighbours = {}, learned = [], ports = [] } = more
  const pod = { key, link: link('veth0', ''), end: link('eth0', mac), known, prefixes, beside }
  const table = { rules: new Map(), elements: indexElements(ports) }
  const tellers = { table, neighbours: new Map(Object.entries(neighbours)), learned: new Map([['veth0', learned]]) }
  return withTold([pod], tellers)[0]?.known
}

describe('the addresses of a pod whose link shows none', () => {
  it.each<[string, Case, readonly string[]]>([
    ['nothing', {}, []],
    ['its MAC, of IPv4', { mac: podLinkMac(key, '10.1.0.2/24') }, ['10.1.0.2/24']],
    ['its MAC, of IPv6', { mac: podLinkMac(key, 'fd00:1::9/64') }, ['fd00:1::9/120']],
    ['not its MAC, of another prefix', { mac: podLinkMac(key, '10.2.0.2/24') }, []],
    ['not its MAC, of its ids', { mac: podLinkMac(key, undefined) }, []],
    ['the MAC of a guest', { learned: [podLinkMac(key, '10.1.0.2/24')] }, ['10.1.0.2/24']],
    [
      'another link of its namespace before its MAC',
      { mac: podLinkMac(key, '10.1.0.2/24'), beside: ['10.1.0.3', '169.254.75.10', 'fd00:1::3'] },
      ['10.1.0.3/24', 'fd00:1::3/120'],
    ],
    ['neighbours', { neighbours: { [own]: ['10.1.0.2', 'fe80::1', 'fd00:1::2'] } }, ['10.1.0.2/24', 'fd00:1::2/120']],
    ['not other MACs', { neighbours: { '02:00:00:00:00:02': ['10.1.0.2'] } }, []],
    [
      'neighbours of a missing family alone',
      { known: ['10.1.0.5/24'], neighbours: { [own]: ['10.1.0.2', 'fd00:1::2'] } },
      ['10.1.0.5/24', 'fd00:1::2/120'],
    ],
    [
      'nothing but its own where none is missing',
      { known: ['10.1.0.5/24'], prefixes: ['10.1.0.1/24'], beside: ['10.1.0.2'] },
      ['10.1.0.5/24'],
    ],
    [
      'a host port that leads to it in both families, before neighbours',
      {
        mac: podLinkMac(key, 'fd00:1::2/64'),
        neighbours: { [podLinkMac(key, 'fd00:1::2/64')]: ['10.1.0.9'] },
        ports: [port(4, '80', '10.1.0.2'), port(6, '80', 'fd00:1::2'), port(4, '81', '10.1.0.3')],
      },
      ['fd00:1::2/120', '10.1.0.2/24'],
    ],
  ])('are told by: %s', (_, given, addresses) => {
    expect(told(given)).toEqual(addresses)
  })
})
