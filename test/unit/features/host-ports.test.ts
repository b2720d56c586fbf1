// SPDX-License-Identifier: Apache-2.0
// Host ports: which family serves which address, the elements they are, what the link shares.

import { describe, expect, it } from 'vitest'
import {
  commonPortElements,
  hostPortSpec,
  localnetOps,
  ownPortElements,
  reservationName,
} from '../../../src-before/features/host-ports.ts'
import { describeElement, elementOps } from '../../../src-before/model/op.ts'
import { type Json, read } from '../cni/call.ts'

const both = [{ address: '10.0.0.2/24' }, { address: 'fd00::2/64' }]
const v6Only = both.slice(1)
const specFor = (portMappings: readonly Json[], ips = both, portmap: Json | undefined = undefined) =>
  hostPortSpec(read({ portmap, runtimeConfig: { portMappings } }), ips, 'cni0')
const namesOf = (portMappings: readonly Json[], ips = both) =>
  (specFor(portMappings, ips)?.ports ?? []).map((port) => `${reservationName(port)} -> ${port.podIp}`)
const port = { hostPort: 8080, containerPort: 80 }

describe('hostPortSpec', () => {
  it('is nothing without ports', () => expect(specFor([])).toBeUndefined())

  it.each<[string, Json, typeof both, readonly string[]]>([
    ['every family of the pod', port, both, ['tcp:8080:4:any -> 10.0.0.2', 'tcp:8080:6:any -> fd00::2']],
    ['IPv6 alone where the pod has no other', port, v6Only, ['tcp:8080:6:any -> fd00::2']],
    ['the family of hostIP', { ...port, hostIP: '192.0.2.1' }, both, ['tcp:8080:4:192.0.2.1 -> 10.0.0.2']],
    ['none where the pod lacks it', { ...port, hostIP: '192.0.2.1' }, v6Only, []],
    ['IPv4 everywhere for 0.0.0.0', { ...port, hostIP: '0.0.0.0' }, both, ['tcp:8080:4:any -> 10.0.0.2']],
    ['IPv6 everywhere for ::', { ...port, hostIP: '::' }, both, ['tcp:8080:6:any -> fd00::2']],
  ])('serves %s', (_, mapping, ips, names) => expect(namesOf([mapping], ips)).toEqual(names))

  it('takes snat and masqAll from portmap, snat on by default', () => {
    expect(specFor([port])).toMatchObject({ snat: true, masqAll: false })
    expect(specFor([port], both, { snat: false, masqAll: true })).toMatchObject({ snat: false, masqAll: true })
  })
})

describe('elements', () => {
  const mappings = [port, { hostPort: 53, containerPort: 5353, protocol: 'udp', hostIP: '192.0.2.1' }]
  const textOf = (spec = specFor(mappings)) =>
    spec === undefined ? [] : ownPortElements(spec).map((element) => `${element.set} ${describeElement(element)}`)

  it('are one a port, by address where there is one', () => {
    expect(textOf()).toEqual([
      'anyports4 tcp 8080 -> 10.0.0.2 80',
      'anyports6 tcp 8080 -> fd00::2 80',
      'ports4 192.0.2.1 udp 53 -> 10.0.0.2 5353',
    ])
  })
  it('have one more for masqAll, by where the packet goes', () => {
    const all = textOf(specFor(mappings, both, { masqAll: true }))
    expect(all.filter((text) => text.startsWith('masqall'))).toEqual([
      'masqall4 10.0.0.2 tcp 80',
      'masqall6 fd00::2 tcp 80',
      'masqall4 10.0.0.2 udp 5353',
    ])
  })
  it('of the link and route_localnet are for snat, the latter for IPv4', () => {
    const [plain, without, v6] = [specFor([port]), specFor([port], both, { snat: false }), specFor([port], v6Only)]
    if (plain === undefined || without === undefined || v6 === undefined) throw new Error('no spec')
    expect(commonPortElements(plain)).toEqual([{ set: 'loopback', key: ['cni0'] }])
    expect(localnetOps(plain)).toMatchObject([{ key: 'net/ipv4/conf/cni0/route_localnet', value: '1' }])
    expect([...commonPortElements(without), ...localnetOps(without), ...localnetOps(v6)]).toEqual([])
  })
  it('are said with what they are for', () => {
    const [op] = elementOps([{ set: 'self4', key: ['10.0.0.2', '10.0.0.2'] }], 'nft.del')
    expect(op).toMatchObject({ kind: 'nft.del', in: 'host', why: 'remove 10.0.0.2 10.0.0.2 from nft set self4' })
  })
})
