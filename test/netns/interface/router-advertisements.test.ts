// SPDX-License-Identifier: Apache-2.0
// A pod that advertises itself as a router must not become the node's default route (CVE-2020-10749): the
// host takes no advertisement from a link of ours. Links without IPv6 have no such setting.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'
import { expectSilent } from '../../support/outcome.ts'
import { attach, ipamConf, later, netConf } from '../../support/traffic/pods.ts'

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

const routed = ipamConf({ type: 'trestle', subnet: '10.240.0.0/24' }, { mode: 'ptp' })
const bridged = netConf({ name: 'bridged', podcidr: ['10.250.0.0/24', 'fd00:250::/64'] })
const acceptRa = (dev: string) => host.run('sysctl', ['-n', `net.ipv6.conf.${dev}.accept_ra`]).stdout.trim()

describe('router advertisements of a pod', () => {
  it('are not taken from a routed pod, also when IPv6 forwarding is switched on later', () => {
    host.run('sysctl', ['-qw', 'net.ipv6.conf.default.accept_ra=1'])
    const pod = attach(host, routed)
    expect(acceptRa(pod.hostLink)).toBe('0')
    const second = attach(host, bridged, { id: 'c2' })
    expect([pod.hostLink, second.hostLink, 'cni0'].map(acceptRa)).toEqual(['0', '0', '0'])
  })

  it.each([
    ['routed', routed],
    ['bridged', netConf()],
  ])('need no setting where the MTU of a %s pod is too small for IPv6', (_, conf) => {
    const small = { ...conf, mtu: 1200 }
    const pod = attach(host, small)
    expect(acceptRa(pod.hostLink)).toBe('')
    expectSilent(later(host, 'CHECK', { conf: small, pod }))
  })
})
