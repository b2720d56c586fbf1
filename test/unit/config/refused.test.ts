// SPDX-License-Identifier: Apache-2.0
// What each wrong value is answered with, and which keys of iptables are accepted.

import { describe, expect, it } from 'vitest'
import { type KeyPath, keyPathText } from '../../../src/cni/errors.ts'
import { errorOf, type Json, lineOf, read } from '../call.ts'

describe('refused values', () => {
  const long = 'x'.repeat(5000)
  it.each<[Json, string]>([
    [{ isGateway: 'yes' }, 'isGateway: "yes" is not true or false'],
    [
      { mode: 'Bridge' },
      'mode: "Bridge" is not one of "bridge", "ptp", "macvlan", "host-device", "loopback", "chained"',
    ],
    [
      { mode: 'macvlan', master: 'a/b' },
      'master: "a/b" is not an interface: interface name contains / or : or whitespace characters',
    ],
    [
      { mode: 'macvlan', bandwidth: { ingressRate: 8000 } },
      'bandwidth: mode macvlan has no end on the host, which this needs',
    ],
    [
      { mode: 'host-device', device: 'eth1', bandwidth: { ingressRate: 8000 } },
      'bandwidth: mode host-device has no end on the host, which this needs',
    ],
    [{ mode: 'host-device' }, 'device: no device is named'],
    [
      { mode: 'host-device', device: 'eth1', hwaddr: '0a:00:00:00:00:01' },
      'device: names a device, and so does hwaddr',
    ],
    [
      { mode: 'host-device', device: 'eth1', runtimeConfig: { deviceID: '0000:00:03.0' } },
      'device: names a device, and so does deviceID',
    ],
    [{ mode: 'host-device', device: 'a/b' }, 'device: "a/b" is not an interface'],
    [{ mode: 'host-device', hwaddr: '0a:00:00:00:00' }, 'hwaddr: "0a:00:00:00:00" is not a MAC address'],
    ...[
      ...['/sys/class/net/eth1', 'devices/x', '/sys/devices', '/sys/devices/', '/sys/devices/a/../../class'],
      ...['/sys/devices/./a', '/sys/devices//a', '/sys/devices/a b'],
    ].map((kernelpath): [Json, string] => [
      { mode: 'host-device', kernelpath },
      `kernelpath: "${kernelpath}" is not a path below /sys/devices`,
    ]),
    ...['0000:00:03', '00:03.0', '0000:00:03.8', '../0000:00:03.0', '0000:00:03.0/..', 'mlx5_core.sf.4'].map(
      (pciBusID): [Json, string] => [{ mode: 'host-device', pciBusID }, `pciBusID: "${pciBusID}" is not a PCI address`],
    ),
    ...['..', '.', 'a/b', '0000:00:03.0/../x'].map((deviceID): [Json, string] => [
      { mode: 'host-device', runtimeConfig: { deviceID } },
      `runtimeConfig.deviceID: "${deviceID}" is not a PCI address, or a name on the auxiliary bus`,
    ]),
    [{ mode: 'chained' }, 'prevResult: This plugin must be called as chained plugin'],
    [{ mode: 'ptp' }, 'ipam: missing: mode ptp routes by address'],
    [{ mtu: 67 }, 'mtu: 67 is not "auto" or an MTU'],
    [{ mtu: '1500' }, 'mtu: "1500" is not "auto" or an MTU'],
    [{ mtu: 1279, podcidr: 'fd00::/64' }, 'mtu: 1279 is too small for IPv6'],
    [{ tuning: { mtu: 576 }, podcidr: ['10.1.0.0/24', 'fd00::/64'] }, 'tuning.mtu: 576 is too small for IPv6'],
    [{ vlan: 4095 }, 'vlan: 4095 is not a VLAN ID'],
    [
      { hairpinMode: true, promiscMode: true },
      'hairpinMode: cannot set hairpin mode and promiscuous mode at the same time',
    ],
    [
      { disableContainerInterface: true, podcidr: '10.1.0.0/24' },
      'disableContainerInterface: cannot use IPAM when DisableContainerInterface flag is set',
    ],
    [{ nonMasqueradeCIDRs: ['10.0.0.0'] }, 'nonMasqueradeCIDRs[0]: "10.0.0.0" is not a prefix in CIDR notation'],
    [{ dns: { search: ['a\nb'] } }, 'dns.search[0]: "a\\nb" is not a string without control characters'],
    [{ dns: [] }, 'dns: [] is not an object'],
    [{ bridge: long }, `bridge: "${'x'.repeat(63)}... is not a bridge name: interface name is too long`],
    [{ type: 'macvlan' }, 'ipam: missing: macvlan delegates to us'],
    [{ type: 'macvlan', ipam: { type: 'dhcp' } }, 'ipam.type: "dhcp" is not ours'],
    [{ isGateway: true }, 'isGateway: needs addresses, and there is no ipam'],
    [{ ipMasq: true, ipam: {} }, 'ipMasq: needs addresses, and there is no ipam'],
    [{ nonMasqueradeCIDRs: ['10.0.0.0/8'] }, 'nonMasqueradeCIDRs: needs addresses, and there is no ipam'],
    [
      {
        podcidr: '10.1.0.0/30',
        ipam: undefined,
        runtimeConfig: { ipRanges: [[{ subnet: '10.2.0.0/30', rangeStart: '10.2.0.1', rangeEnd: '10.2.0.1' }]] },
      },
      'podcidr: range set 0 has no address for a pod: its gateway and excluded addresses are all that it holds',
    ],
    [
      { podcidr: 'fd00::/64', tuning: { sysctl: { 'net.ipv6.conf.IFNAME.disable_ipv6': '1' } } },
      'tuning.sysctl: net.ipv6.conf.eth0.disable_ipv6 is 1, and podcidr gives the pod an IPv6 address',
    ],
    [{ args: { cni: { mac: 4 } } }, 'args.cni.mac: 4 is not a string without control characters'],
    [{ tuning: {}, args: { cni: { mtu: '1400' } } }, 'args.cni.mtu: "1400" is not an MTU'],
  ])('%j', (changes, message) => {
    const error = errorOf(() => read(changes))
    expect(lineOf(error)).toBe(`(7) ${message}`)
    expect(error.details).toMatch(/use |put |leave /)
    expect(message.split(': ')[0]).toBe(keyPathText(error.path ?? []))
  })

  it.each<[Json, KeyPath, string]>([
    [
      { ipam: { type: 'trestle', ranges: [[{ subnet: '10.0.0.0/31' }]] } },
      ['ipam', 'ranges', 0, 0, 'subnet'],
      'range-subnet',
    ],
    [{ ipam: { type: 'trestle', subnet: '10.0.0.0/24', gateway: 'x' } }, ['ipam', 'gateway'], 'range-gateway'],
    [
      { ipam: { type: 'static', addresses: [{ address: 'x' }] } },
      ['ipam', 'addresses', 0, 'address'],
      'static-address-invalid',
    ],
    [{ podcidr: ['10.0.0.0/24', 'fd00::1/64'] }, ['podcidr', 1], 'range-subnet'],
    [{ tuning: { sysctl: { 'net.ipv4.x': 1 } } }, ['tuning', 'sysctl'], 'wrong-type'],
    [{ name: 'a b' }, ['name'], 'network-name-invalid'],
    [{ cniVersion: '9.9.9' }, ['cniVersion'], 'version-unsupported'],
    [{ prevResult: { ips: [{ address: 'x' }] } }, ['prevResult', 'ips', 0, 'address'], 'prev-result-invalid'],
    [{ portmap: { backend: 'ipvs' } }, ['portmap', 'backend'], 'unsupported-value'],
  ])('%j: the key is in the error, and the id', (changes, path, id) => {
    expect(errorOf(() => read(changes))).toMatchObject({ path, id })
  })

  it('what is wrong with CNI_ARGS is about no key', () => {
    const error = errorOf(() => read({}, { CNI_ARGS: 'MAC=x' }))
    expect([error.id, error.path]).toEqual(['cni-args-invalid', undefined])
  })

  it('CHECK needs prevResult', () => {
    expect(lineOf(errorOf(() => read({}, {}, 'CHECK')))).toBe('(7) prevResult: Required prevResult missing')
  })

  it.each<[Json, string]>([
    [{ ipMasqBackend: 'ebtables' }, 'ipMasqBackend: "ebtables"'],
    [{ portmap: { backend: 'ipvs' } }, 'portmap.backend: "ipvs"'],
    [{ portmap: { externalSetMarkChain: 'MY-MARK' } }, 'portmap.externalSetMarkChain: "MY-MARK"'],
    [{ portmap: { markMasqBit: 13 } }, 'portmap.markMasqBit: 13'],
    [{ portmap: { conditionsV4: ['!', '-s', '10.0.0.0/8'] } }, 'portmap.conditionsV4: ["!","-s","10.0.0.0/8"]'],
    [{ portmap: { conditionsV6: ['-d', 'fd00::1'] } }, 'portmap.conditionsV6: ["-d","fd00::1"]'],
    [{ firewall: { iptablesAdminChainName: 'MINE' } }, 'firewall.iptablesAdminChainName: "MINE"'],
    [{ firewall: { firewalldZone: 'pods' } }, 'firewall.firewalldZone: "pods"'],
    [{ mode: 'macvlan', linkInContainer: true }, 'linkInContainer: true'],
    [
      { mode: 'macvlan', macvlanMode: 'passthru', runtimeConfig: { mac: '02:00:00:00:00:01' } },
      'mac: "02:00:00:00:00:01"',
    ],
  ])('code 2 for %j', (changes, named) => {
    expect(lineOf(errorOf(() => read(changes)))).toBe(`(2) unsupported value of ${named}`)
  })

  it.each<Json>([
    { ipMasqBackend: 'nftables' },
    { ipMasqBackend: '' },
    { portmap: { backend: 'iptables', conditionsV4: [], externalSetMarkChain: '' } },
    { firewall: { backend: 'firewalld', iptablesAdminChainName: 'CNI-ADMIN', firewalldZone: 'trusted' } },
    { firewall: { backend: 'typo' } },
  ])('accepts what changes nothing: %j', (changes) => {
    expect(read(changes).mode).toBe('bridge')
  })
})
