// SPDX-License-Identifier: Apache-2.0
// `args.cni` comes from a pod's author where Multus passes it on: it changes sysctls and the link only where the
// configuration has a `tuning` key.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Host, openHost } from '../../support/host.ts'
import { addressesOf, attach, inPodJson, later, netConf } from '../../support/traffic/pods.ts'
import { routedPod } from '../../support/traffic/routed-pods.ts'

const key = 'net/ipv4/conf/eth0/arp_filter'
const mac = '02:00:00:00:09:09'
const cni = {
  sysctl: { 'net.ipv4.conf.IFNAME.arp_filter': '1' },
  promisc: true,
  allmulti: true,
  mtu: 1333,
  txQLen: 77,
  mac,
  ips: ['10.240.0.99'],
}

let host: Host
beforeEach(() => {
  host = openHost()
})
afterEach(() => host.close())

/** What a pod with `args.cni` has, made with the configuration that `more` adds to. */
function attached(more: object) {
  const conf = netConf({ mtu: 1500, args: { cni }, ...more })
  const netns = host.pod('a')
  host.inPod(netns, 'sysctl', ['-qw', 'net.ipv4.conf.default.arp_filter=0'])
  const pod = attach(host, conf, { netns })
  const [link] = inPodJson(host, netns, ['-d', 'link', 'show', 'eth0']) as unknown as readonly {
    readonly flags: readonly string[]
    readonly mtu: number
    readonly txqlen: number
    readonly address: string
  }[]
  const sysctl = host.inPod(netns, 'cat', [`/proc/sys/${key}`]).stdout.trim()
  const flags = ['PROMISC', 'ALLMULTI'].filter((flag) => link?.flags.includes(flag))
  expect(later(host, 'CHECK', { conf, pod }).stdout).toBe('')
  return { sysctl, flags, mtu: link?.mtu, txqlen: link?.txqlen, mac: link?.address, ips: addressesOf(host, netns) }
}

const untuned = { sysctl: '0', flags: [], mtu: 1500, txqlen: 1000 }
const tuned = { sysctl: '1', flags: ['PROMISC', 'ALLMULTI'], mtu: 1333, txqlen: 77 }
const always = { mac, ips: ['10.240.0.99/24'] }

describe('args.cni', () => {
  it('changes no sysctl and no link setting without a tuning key; mac and ips apply', () => {
    expect(attached({})).toEqual({ ...untuned, ...always })
  })

  it('applies with tuning: {}', () => {
    expect(attached({ tuning: {} })).toEqual({ ...tuned, ...always })
  })

  it('changes nothing of an interface of another plugin without a tuning key', () => {
    const { call, prevResult } = routedPod(host, 'c1', 'calic1', '10.1.2.3')
    const shown = () => [
      inPodJson(host, call.netns, ['-d', 'link', 'show', 'eth0']),
      host.inPod(call.netns, 'cat', [`/proc/sys/${key}`]).stdout,
    ]
    const before = shown()
    const conf = netConf({ podcidr: undefined, args: { cni }, prevResult })
    const added = host.cni('ADD', conf, { ...call, args: `MAC=${mac}` })
    expect(added.json, added.stdout).toEqual({ ...prevResult, cniVersion: '1.1.0' })
    expect(shown()).toEqual(before)
  })
})
