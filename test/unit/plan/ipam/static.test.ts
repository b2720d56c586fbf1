// SPDX-License-Identifier: Apache-2.0
// The static lease: the configuration's addresses, nothing added.

import { expect, it } from 'vitest'
import { staticLease } from '../../../../src-before/plan/ipam/allocate.ts'

it('keeps addresses in order, each with its own gateway, and routes', () => {
  const addresses = [{ address: '10.1.2.3/24', gateway: '10.1.2.1' }, { address: 'fd00::3/64' }]
  const routes = [{ dst: '0.0.0.0/0', gw: '10.1.2.1' }]
  expect(staticLease({ kind: 'static', addresses, routes })).toEqual({ ips: addresses, routes })
})

it('passes DNS on when there is some', () => {
  const dns = { nameservers: ['192.0.2.53'] }
  expect(staticLease({ kind: 'static', addresses: [], routes: [], dns })).toEqual({ ips: [], routes: [], dns })
})
