// SPDX-License-Identifier: Apache-2.0
// mode macvlan: what depends on its master, which a test machine need not have, and what the keys of a bridge do to it.

import { describe, expect, it } from 'vitest'
import { driverOf, interfaceConf } from '../../../src-before/drivers/drivers.ts'
import { buildNetworkSpec, buildSpec } from '../../../src-before/drivers/specs.ts'
import { goldenKey, madeUpDevice } from '../../support/golden.ts'
import { type Json, read } from '../cni/call.ts'

const v4 = { address: '10.1.0.2/24' }
const made = (more: Json = {}, master: typeof madeUpDevice | undefined = madeUpDevice) =>
  buildSpec({
    key: goldenKey,
    conf: interfaceConf(read({ mode: 'macvlan', ipam: { type: 'dhcp' }, ...more })),
    lease: { ips: [v4], routes: [] },
    mtu: 1500,
    device: master,
  })

describe('a macvlan', () => {
  it('has the MTU of its master, or less', () => {
    const small = { ...madeUpDevice, link: { ...madeUpDevice.link, mtu: 1400 } }
    expect([made({}, small).mtu, made({ mtu: 1300 }, small).mtu]).toEqual([1400, 1300])
    expect(() => made({ mtu: 1500 }, small)).toThrow('1500 is more than the 1400 of master up0')
  })

  it('is not put on Wi-Fi, but for passthru, which has the MAC of the card', () => {
    const wireless = { ...madeUpDevice, isWireless: true }
    expect(() => made({}, wireless)).toThrow('up0 can have no macvlan: an access point')
    expect(made({ macvlanMode: 'passthru' }, wireless).pod?.mac).toBe(madeUpDevice.link.mac)
  })

  it('has no gateway but that of IPAM, and shares nothing with others of its network', () => {
    const keys = {
      isGateway: true,
      isDefaultGateway: true,
      ipMasq: true,
      bridge: 'br7',
      firewall: { hostAccept: 'auto' },
    }
    const spec = made(keys)
    expect([spec.ips, spec.defaultRoutes, spec.host, spec.port]).toEqual([[v4], [], undefined, undefined])
    const around = { mtu: 1500, machineId: 'machine' }
    expect(
      buildNetworkSpec(interfaceConf(read({ mode: 'macvlan', podcidr: '10.1.0.0/24', ...keys })), [v4], around),
    ).toEqual({
      name: 'net',
      forwarding: [],
      removeWhenEmpty: false,
    })
  })
})

it('a record of a mode that this release does not know is torn down by what its spec has', () => {
  const { pod: _, macvlan: __, ...spec } = made()
  const later = { ...spec, mode: 'later' as 'bridge' }
  const { hostOps, podOps, podTeardownOps } = driverOf(later)
  expect([hostOps?.(later), podOps(later), podTeardownOps?.(later)]).toEqual([[], [], undefined])
})
