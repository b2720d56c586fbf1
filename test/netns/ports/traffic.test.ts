// SPDX-License-Identifier: Apache-2.0
// What a pod can reach, and as whom: gateway, other pods, itself through the bridge, the outside.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'
import { attach, inPodJson, netConf, onHostJson, type Pod } from '../../support/traffic/pods.ts'
import { addUplink, outside, pings, seenBy, serve } from '../../support/traffic/traffic.ts'

const dual = netConf({ podcidr: ['10.240.0.0/24', 'fd00:240::/64'] })
const six = (pod: Pod) => pod.result.ips[1]?.address.replace(/\/.*/, '') ?? ''

let host: Host
let servers: (() => void)[]
beforeEach(() => {
  host = openHost()
  servers = []
})
afterEach(() => {
  for (const stop of servers) stop()
  host.close()
})

async function server(netns: string): Promise<void> {
  servers.push(await serve(netns))
}

describe('a pod', () => {
  it('reaches gateway and other pods, by ping and TCP, in both families, under its own address', async () => {
    const [a, b] = [attach(host, dual, { id: 'a' }), attach(host, dual, { id: 'b' })]
    await server(b.netns)
    for (const address of ['10.240.0.1', 'fd00:240::1', b.address, six(b)]) {
      expect(pings(host, a.netns, address), `ping ${address}`).toBe(true)
    }
    expect(seenBy(host, a.netns, b.address)).toBe(a.address)
    expect(seenBy(host, a.netns, six(b))).toBe(six(a))
  })

  it('is reached from the host', async () => {
    const pod = attach(host, dual)
    await server(pod.netns)
    expect(seenBy(host, host.path, pod.address)).toBe('10.240.0.1')
    expect(seenBy(host, host.path, six(pod))).toBe('fd00:240::1')
  })

  it('reaches the outside under the address of the node, in both families', async () => {
    const internet = addUplink(host)
    const pod = attach(host, dual)
    await server(internet)
    expect(pings(host, pod.netns, outside.far4)).toBe(true)
    expect(seenBy(host, pod.netns, outside.far4)).toBe(outside.node4)
    expect(seenBy(host, pod.netns, outside.far6)).toBe(outside.node6)
  })

  it('without masquerade does not get an answer from there', () => {
    addUplink(host)
    const pod = attach(host, { ...dual, ipMasq: false })
    expect(host.inPod(pod.netns, 'ping', ['-c1', '-W1', outside.far4]).code).not.toBe(0)
    expect(host.run('nft', ['list', 'tables']).stdout).toBe('')
  })

  it('keeps its address towards nonMasqueradeCIDRs, and only there', async () => {
    const internet = addUplink(host)
    const pod = attach(host, { ...dual, nonMasqueradeCIDRs: [`${outside.far4}/32`, '2001:db8:2::/64'] })
    host.inPod(internet, 'ip', ['route', 'add', '10.240.0.0/24', 'via', '192.0.2.1'])
    host.inPod(internet, 'ip', ['-6', 'route', 'add', 'fd00:240::/64', 'via', outside.node6])
    await server(internet)
    expect(seenBy(host, pod.netns, outside.far4)).toBe(pod.address)
    expect(seenBy(host, pod.netns, outside.far6)).toBe(six(pod))
    expect(seenBy(host, pod.netns, '192.0.2.2')).toBe(outside.node4)
  })

  it('keeps its address towards another range of its own network', async () => {
    const ranges = [[{ subnet: '10.240.0.0/24', rangeEnd: '10.240.0.2' }, { subnet: '10.241.0.0/24' }]]
    const conf = netConf({
      podcidr: undefined,
      ipam: { type: 'trestle', ranges },
      isDefaultGateway: true,
      ipMasq: true,
    })
    const [a, b] = [attach(host, conf, { id: 'a' }), attach(host, conf, { id: 'b' })]
    expect([a.address, b.address]).toEqual(['10.240.0.2', '10.241.0.2'])
    await server(b.netns)
    expect(seenBy(host, a.netns, b.address)).toBe(a.address)
  })

  it('on another network is reached through the gateway', async () => {
    const other = netConf({ name: 'other', bridge: 'br-other', podcidr: '10.250.0.0/24' })
    const [a, b] = [attach(host, netConf(), { id: 'a' }), attach(host, other, { id: 'b' })]
    await server(b.netns)
    expect(seenBy(host, a.netns, b.address)).not.toBe('')
  })

  it.each([
    [true, 'on'],
    [false, 'off'],
  ])('has hairpinMode %s on its bridge port', (hairpinMode) => {
    const pod = attach(host, netConf({ hairpinMode }))
    const port = onHostJson(host, ['-d', 'link', 'show', pod.hostLink])[0]?.linkinfo.info_slave_data
    expect(port).toMatchObject({ hairpin: hairpinMode, isolated: false })
  })

  it.each([true, false])('with hairpinMode %s gets its own frames back, or not', (hairpinMode) => {
    const pod = attach(host, netConf({ hairpinMode }))
    const count = `add table netdev t
add chain netdev t c { type filter hook ingress device "eth0" priority 0; }
add rule netdev t c ether saddr ${pod.result.interfaces[2]?.mac} counter\n`
    expect(host.inPod(pod.netns, 'sh', ['-c', `echo '${count}' | nft -f -`]).stderr).toBe('')
    host.inPod(pod.netns, 'ping', ['-c1', '-W1', '10.240.0.200'])
    const packets = /counter packets (\d+)/.exec(
      host.inPod(pod.netns, 'nft', ['list', 'table', 'netdev', 't']).stdout,
    )?.[1]
    expect(Number(packets) > 0).toBe(hairpinMode)
  })

  it('with portIsolation reaches the gateway and no other pod', () => {
    const conf = netConf({ portIsolation: true })
    const [a, b] = [attach(host, conf, { id: 'a' }), attach(host, conf, { id: 'b' })]
    expect(pings(host, a.netns, '10.240.0.1')).toBe(true)
    expect(host.inPod(a.netns, 'ping', ['-c1', '-W1', b.address]).code).not.toBe(0)
  })
})

describe('the MTU', () => {
  const mtus = (pod: { netns: string; hostLink: string }) => [
    onHostJson(host, ['link', 'show', 'cni0'])[0]?.mtu,
    onHostJson(host, ['link', 'show', pod.hostLink])[0]?.mtu,
    inPodJson(host, pod.netns, ['link', 'show', 'eth0'])[0]?.mtu,
  ]

  it('is that of the uplink, on the bridge and both ends, and in the result', () => {
    addUplink(host, 1400)
    const pod = attach(host, netConf())
    expect(mtus(pod)).toEqual([1400, 1400, 1400])
    expect(pod.result.interfaces.map((each: { mtu: number }) => each.mtu)).toEqual([1400, 1400, 1400])
  })

  it('is 1500 without an uplink, and what the configuration says', () => {
    expect(mtus(attach(host, netConf()))).toEqual([1500, 1500, 1500])
    const pod = attach(host, netConf({ name: 'n2', bridge: 'br-n2', podcidr: '10.9.0.0/24', mtu: 1280 }), { id: 'c2' })
    expect([onHostJson(host, ['link', 'show', 'br-n2'])[0]?.mtu, ...mtus(pod).slice(1)]).toEqual([1280, 1280, 1280])
  })
})
