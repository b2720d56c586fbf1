// SPDX-License-Identifier: Apache-2.0
// Host ports as elements and condition chains, and the same elements found again without a record.

import { describe, expect, it } from 'vitest'
import { isPortConflict, ownPortElements, reservationName } from '../../../src-before/features/host-ports.ts'
import { conditionOps } from '../../../src-before/features/port-conditions.ts'
import type { HostPortSpec } from '../../../src-before/model/attachment.ts'
import type { ObservedTable } from '../../../src-before/model/observed.ts'
import { type Element, elementsInTheWay, indexElements } from '../../../src-before/model/op.ts'
import { orphanElements } from '../../../src-before/plan/recovery/from-kernel.ts'
import { nftText } from '../../../src-before/tools/nft.ts'

const spec: HostPortSpec = {
  link: 'cni0',
  snat: true,
  masqAll: true,
  conditionsV4: ['ip saddr 10.0.0.0/8', 'ct state new'],
  ports: [
    { family: 4, protocol: 'tcp', hostPort: 8080, podIp: '10.0.0.2', containerPort: 80 },
    { family: 6, protocol: 'tcp', hostPort: 8080, podIp: 'fd00::2', containerPort: 80 },
    { family: 4, protocol: 'udp', hostPort: 53, podIp: '10.0.0.2', containerPort: 53, hostIp: '192.0.2.1' },
    { family: 6, protocol: 'udp', hostPort: 53, podIp: 'fd00::2', containerPort: 53, hostIp: '2001:db8::1' },
  ],
}
const other: HostPortSpec = {
  link: 'cni0',
  snat: true,
  masqAll: true,
  ports: [{ family: 4, protocol: 'tcp', hostPort: 9090, podIp: '10.0.0.20', containerPort: 80 }],
}

function tableOf(...specs: readonly HostPortSpec[]): ObservedTable {
  const links = ['cni0', 'veth0'].map((link): Element => ({ set: 'loopback', key: [link] }))
  return holding([...links, ...specs.flatMap(ownPortElements)])
}

const holding = (elements: readonly Element[]) => ({ rules: new Map(), elements: indexElements(elements) })
const sorted = (elements: readonly Element[]) => elements.map((element) => JSON.stringify(element)).sort()

describe('conditions', () => {
  it('are one chain a family, by the hash of what they say', () => {
    const ops = conditionOps(spec)
    expect(ops.map((op) => op.kind)).toEqual(['nft.chain'])
    const text = ops.map((op) => (op.kind === 'nft.chain' ? nftText(op) : '')).join('\n')
    expect(text).toMatch(
      /^add chain inet trestle (cond4_[0-9a-f]{16})\nflush chain inet trestle \1\nadd rule inet trestle \1 /,
    )
    expect(text).toContain('ip saddr 10.0.0.0/8 ct state new goto translate comment "trestle ')
    expect(conditionOps({ ...spec, conditionsV4: ['ip saddr 10.0.0.0/9'] })).not.toEqual(ops)
    expect(conditionOps(other)).toEqual([])
  })
})

describe('without a record', () => {
  const remains = { portNames: spec.ports.map(reservationName), addresses: [], link: 'veth9' }
  it('the elements are found by the reserved ports', () => {
    expect(sorted(orphanElements(tableOf(spec, other), remains))).toEqual(sorted(ownPortElements(spec)))
  })
  it('or by the addresses they point to', () => {
    const byAddress = { portNames: [], addresses: ['10.0.0.2', 'fd00::2'], link: 'veth9' }
    expect(sorted(orphanElements(tableOf(spec, other), byAddress))).toEqual(sorted(ownPortElements(spec)))
  })
  it("the routed pod's link is found too, and nobody else's", () => {
    const found = orphanElements(tableOf(other), { portNames: [], addresses: [], link: 'veth0' })
    expect(found).toEqual([{ set: 'loopback', key: ['veth0'] }])
  })
  it('of a chained attachment, which has reserved no address, the ports tell it', () => {
    const self = ['10.0.0.2', '10.0.0.3'].map((address): Element => ({ set: 'self4', key: [address, address] }))
    const found = orphanElements(holding([...ownPortElements(spec), ...self]), remains)
    expect(found.filter(({ set }) => set === 'self4')).toEqual(self.slice(0, 1))
  })
  it('what masquerades its address is found, and nothing of another one', () => {
    const of = (address: string): readonly Element[] => [
      { set: 'masqhost4', key: [address] },
      { set: 'keephost4', key: [address, '10.9.0.0/16'] },
    ]
    const table = holding([...of('10.0.0.2'), ...of('10.0.0.20')])
    expect(orphanElements(table, { portNames: [], addresses: ['10.0.0.2'], link: '' })).toEqual(of('10.0.0.2'))
  })
  it('what names its own link is found', () => {
    const [own, others]: readonly (readonly Element[])[] = [
      [
        { set: 'fencedpair', key: ['veth9', 'veth9'] },
        { set: 'guardedmac', key: ['veth9', '02:00:00:00:00:01'] },
      ],
      [{ set: 'fencedpair', key: ['cni0', 'cni0'] }],
    ]
    expect(orphanElements(holding([...(own ?? []), ...(others ?? [])]), remains)).toEqual(own)
  })
  it('elements with another target are in the way, the same ones are not', () => {
    const portTo = (podIp: string) => ({ set: 'anyports4', key: ['tcp', '9090'], value: [podIp, '80'] }) as const
    const wanted = (podIp: string) => [{ in: 'host', kind: 'nft.add', ...portTo(podIp), why: '' } as const]
    expect(elementsInTheWay(tableOf(other).elements, wanted('10.0.0.20'))).toEqual([])
    expect(elementsInTheWay(tableOf(other).elements, wanted('10.0.0.21'))).toEqual([portTo('10.0.0.20')])
  })
  it('destinations of an address that are not wanted are in the way of those that are', () => {
    const keep = (address: string, cidr: string): Element => ({ set: 'keephost4', key: [address, cidr] })
    const wanted = [keep('10.0.0.2', '10.9.1.0/24'), keep('10.0.0.2', '10.8.0.0/16')].map(
      (element) => ({ in: 'host', kind: 'nft.add', ...element, why: '' }) as const,
    )
    const there = [keep('10.0.0.2', '10.8.0.0/16'), keep('10.0.0.2', '10.9.0.0/16'), keep('10.0.0.3', '10.9.0.0/16')]
    expect(elementsInTheWay(indexElements(there), wanted)).toEqual(there.slice(1, 2))
  })
})

describe('isPortConflict', () => {
  it.each([
    ['tcp:80:4:any', 'tcp:80:4:192.0.2.1', true],
    ['tcp:80:6:any', 'tcp:80:6:2001:db8::1', true],
    ['tcp:80:4:192.0.2.2', 'tcp:80:4:192.0.2.1', false],
    ['tcp:80:4:any', 'udp:80:4:any', false],
    ['tcp:80:4:any', 'tcp:80:6:any', false],
  ])('%s and %s: %s', (a, b, expected) => {
    expect([isPortConflict(a, b), isPortConflict(b, a)]).toEqual([expected, expected])
  })
})
