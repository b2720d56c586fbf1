// SPDX-License-Identifier: Apache-2.0
// Nodes whose uplink is an ipvlan or a dummy link, and pods that are routed on a VLAN.

import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Host } from '../support/host.ts'
import { expectError } from '../support/outcome.ts'
import { attach, ipamConf, netConf } from '../support/traffic/pods.ts'
import { outside, pings, seenBy, serve } from '../support/traffic/traffic.ts'
import { openUplinkedHost, type UplinkedHost } from '../support/traffic/uplinked-host.ts'

let host: UplinkedHost
beforeEach(() => {
  host = openUplinkedHost()
})
afterEach(() => host.close())

function run(on: Host, words: string): void {
  expect(on.run('ip', words.split(' ')), words).toMatchObject({ code: 0 })
}

it.each(['bridge', 'ptp'])(
  'pods of mode %s reach the outside by an ipvlan uplink, as the node and with its MTU',
  async (mode) => {
    run(host, 'addr flush dev up0')
    run(host, 'link add link up0 name ipv0 mtu 1450 type ipvlan mode l2')
    run(host, `addr add ${outside.node4}/30 dev ipv0`)
    run(host, 'link set ipv0 up')
    run(host, 'route replace default via 192.0.2.2 dev ipv0')
    const pod = attach(host, netConf({ mode }))
    expect(pod.result.interfaces.at(-1)?.mtu).toBe(1450)
    const stop = await serve(host.internet)
    host.atClose(stop)
    expect(seenBy(host, pod.netns, outside.far4, 60_000)).toBe(outside.node4)
  },
)

it('the subnet and the MTU of a dummy uplink are those of the node', () => {
  run(host, 'route del default')
  run(host, 'link add dum0 mtu 1400 type dummy')
  run(host, 'addr add 10.240.0.10/24 dev dum0')
  run(host, 'link set dum0 up')
  run(host, 'route replace default dev dum0')
  for (const mode of ['bridge', 'ptp'])
    expectError(host.cni('ADD', netConf({ mode }), { netns: host.pod(mode) }), 110, 'dum0')
  const pod = attach(host, netConf({ podcidr: '10.241.0.0/24' }))
  expect(pod.result.interfaces.at(-1)?.mtu).toBe(1400)
})

it('pods on a VLAN reach the outside by its gateway, and no pod of another VLAN on layer 2', async () => {
  const onVlan = (vlan: number) =>
    ipamConf(
      { type: 'host-local', ranges: [[{ subnet: `10.${vlan}.0.0/16`, gateway: `10.${vlan}.0.1` }]] },
      { name: `vlan${vlan}`, vlan, ipMasq: true },
    )
  const [a, b] = [attach(host, onVlan(10), { id: 'a' }), attach(host, onVlan(20), { id: 'b' })]
  host.atClose(await serve(host.internet))
  for (const pod of [a, b]) expect(seenBy(host, pod.netns, outside.far4, 60_000)).toBe(outside.node4)
  // The node forwards between its VLANs; the neighbour tables show that the pods do not ask each other.
  expect(pings(host, a.netns, b.address)).toBe(true)
  expect(host.inPod(a.netns, 'ip', ['neigh', 'show', b.address]).stdout).toBe('')
})
