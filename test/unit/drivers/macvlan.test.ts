// SPDX-License-Identifier: Apache-2.0
// mode macvlan: what depends on its master, which a test machine need not have.

import { describe, expect, it } from 'vitest'
import type { Device } from '../../../src/drivers/driver.ts'
import { type Json, linkOf, specOf } from '../call.ts'

const master: Device = { name: 'up0', link: linkOf('up0', { mac: '02:00:00:00:00:09' }) }
const made = (more: Json = {}, device = master) =>
  specOf(
    { mode: 'macvlan', ipam: { type: 'dhcp' }, ...more },
    { device, lease: { addresses: [{ address: '10.1.0.2/24' }], routes: [] } },
  )

describe('a macvlan', () => {
  it('has the MTU of its master, or less', () => {
    const small = { ...master, link: linkOf('up0', { mtu: 1400 }) }
    expect([made({}, small).pod?.mtu, made({ mtu: 1300 }, small).pod?.mtu]).toEqual([1400, 1300])
    expect(() => made({ mtu: 1500 }, small)).toThrow('1500 is more than the 1400 of master up0')
    expect(() => made({ tuning: { mtu: 1500 } }, small)).toThrow('tuning.mtu: 1500 is more than the 1400')
  })

  it.each<[string, Device, string]>([
    ['loopback', { name: 'lo', link: linkOf('lo') }, 'lo can have no macvlan: it is the loopback interface'],
    ['a link that is not there', { name: 'up9' }, 'master: the node has no interface up9'],
    ['nothing, where there is no default route', { name: '' }, 'none is given, and no interface has a default route'],
  ])('is not put on %s', (_, device, message) => {
    expect(() => made({}, device)).toThrow(message)
  })

  it('with passthru has the MAC of the card', () => {
    expect(made({ macvlanMode: 'passthru' }, master).pod?.mac).toBe('02:00:00:00:00:09')
  })

  it('has no gateway but that of IPAM, and shares nothing with others of its network', () => {
    const keys = {
      isGateway: false,
      isDefaultGateway: false,
      ipMasq: true,
      bridge: 'br7',
      firewall: { hostAccept: 'auto' },
    }
    const spec = made(keys)
    expect([spec.addresses, spec.defaultRoutes, spec.host, spec.port]).toEqual([
      [{ address: '10.1.0.2/24' }],
      [],
      undefined,
      undefined,
    ])
    expect(spec.network).toMatchObject({ ranges: [], gateways: [], forwarding: [], hairpin: [] })
    for (const key of ['bridge', 'masquerade', 'accept']) expect(spec.network).not.toHaveProperty(key)
  })
})
