// SPDX-License-Identifier: Apache-2.0
// The contract's first row: the configuration of "Writing a CNI plugin from scratch", verbatim.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'

const demo = '{"cniVersion":"0.3.1","name":"my-cni-demo","type":"trestle","podcidr":"10.240.0.0/24"}'

describe('the demo configuration', () => {
  let host: Host
  beforeEach(() => {
    host = openHost()
  })
  afterEach(() => host.close())

  it('gives a pod an address, a default route and a result of version 0.3.1', () => {
    const netns = host.pod('a')
    const added = host.cni('ADD', demo, { netns })
    expect(added.code, added.stdout).toBe(0)
    expect(added.json).toMatchObject({
      cniVersion: '0.3.1',
      interfaces: [{ name: 'cni0' }, { name: expect.stringMatching(/^veth/) }, { name: 'eth0', sandbox: netns }],
      ips: [{ version: '4', address: '10.240.0.2/24', gateway: '10.240.0.1', interface: 2 }],
      routes: [{ dst: '0.0.0.0/0', gw: '10.240.0.1' }],
      dns: {},
    })
    expect(host.inPod(netns, 'ip', ['route', 'show', 'default']).stdout).toContain('via 10.240.0.1 dev eth0')
    expect(host.run('ip', ['-4', '-o', 'addr', 'show', 'cni0']).stdout).toContain('10.240.0.1/24')
  })

  it('lets pods reach the gateway and each other', () => {
    const pods = ['a', 'b'].map((label) => host.pod(label))
    for (const [at, netns] of pods.entries()) expect(host.cni('ADD', demo, { id: `c${at}`, netns }).code).toBe(0)
    for (const address of ['10.240.0.1', '10.240.0.3']) {
      expect(host.inPod(pods[0] ?? '', 'ping', ['-c1', '-w10', address]).code, `ping ${address}`).toBe(0)
    }
  })
})
