// SPDX-License-Identifier: Apache-2.0
// What the kernel shows of a pod and its network makes the same rules again as the specs that were lost.

import { describe, expect, it } from 'vitest'
import { readInvocation } from '../../../../src-before/cni/invocation.ts'
import { readConfig } from '../../../../src-before/config/config.ts'
import type { InterfaceNetConf } from '../../../../src-before/config/net-conf.ts'
import { ruleOps } from '../../../../src-before/drivers/network.ts'
import { buildNetworkSpec, buildSpec } from '../../../../src-before/drivers/specs.ts'
import type { AttachmentSpec, NetworkSpec } from '../../../../src-before/model/attachment.ts'
import { aliasOf } from '../../../../src-before/model/names.ts'
import type { ObservedLink } from '../../../../src-before/model/observed.ts'
import { indexElements } from '../../../../src-before/model/op.ts'
import { seenAttachment, seenNetwork } from '../../../../src-before/plan/recovery/from-kernel.ts'
import { goldenKey as key } from '../../../support/golden.ts'

const call = readInvocation({
  CNI_COMMAND: 'ADD',
  CNI_CONTAINERID: key.containerId,
  CNI_NETNS: '/run/netns/a',
  CNI_IFNAME: key.ifName,
})
const ips = [
  { address: '10.1.0.2/24', gateway: '10.1.0.1' },
  { address: 'fd00:1::2/64', gateway: 'fd00:1::1' },
]
const both = { podcidr: ['10.1.0.0/24', 'fd00:1::/64'] }
const portMappings = [
  { hostPort: 8080, containerPort: 80, protocol: 'tcp' },
  { hostPort: 8081, containerPort: 81, protocol: 'udp', hostIP: '192.0.2.1' },
]

const link = (name: string, more: Partial<ObservedLink>): ObservedLink => ({
  ...{ name, index: 1, mac: '', mtu: 1500, up: true, promisc: false, allmulti: false, addresses: [] },
  ...more,
})

/** The links that an ADD of these specs has made. */
function linksOf({ host, port }: AttachmentSpec, { bridge }: NetworkSpec): readonly ObservedLink[] {
  const isRouted = port === undefined
  const gateways = isRouted ? ['10.1.0.1/32', 'fd00:1::1/128'] : []
  const pod = link(host?.name ?? '', {
    ...{ mac: host?.mac ?? '', alias: aliasOf(key), addresses: gateways, index: 7 },
    ...(port && { master: port.bridge, hairpin: port.hairpin, isolated: port.isolated }),
  })
  if (bridge === undefined) return [pod]
  const { name, mac, addresses, gateway } = bridge
  const shared = { mac, kind: 'bridge', vlanFiltering: bridge.vlanFiltering }
  if (gateway === undefined) return [pod, link(name, { ...shared, addresses })]
  const peer = link(gateway.peer, { index: 9, master: name })
  const holder = link(gateway.name, { kind: 'veth', mac: gateway.mac, peerIndex: 9, addresses })
  return [pod, link(name, shared), peer, holder]
}

const textsOf = (network: NetworkSpec, spec: AttachmentSpec) =>
  ruleOps({ networks: [network], attachments: [spec] })
    .flatMap((op) => (op.kind === 'nft.add' ? `${op.set} ${op.key.join(' ')} ${op.value?.join(' ') ?? ''}` : []))
    .sort()

describe('what the kernel shows', () => {
  it.each<[string, object]>([
    ['a bridge', both],
    ['without masquerade', { ...both, ipMasq: false }],
    ['destinations that keep the address', { ...both, nonMasqueradeCIDRs: ['10.9.0.0/16', 'fd09::/48'] }],
    ['isolated', { ...both, firewall: { ingressPolicy: 'isolated' } }],
    [
      'same-bridge, with accepts from elsewhere',
      { ...both, firewall: { ingressPolicy: 'same-bridge', acceptFrom: ['10.8.0.0/16'] } },
    ],
    ['answers alone', { ...both, firewall: { hostAccept: 'established' } }],
    ['a MAC that is checked', { ...both, macspoofchk: true }],
    ['a VLAN', { ...both, vlan: 100 }],
    ['isolated on a VLAN', { ...both, vlan: 100, firewall: { ingressPolicy: 'isolated' } }],
    ['same-bridge on a VLAN', { ...both, vlan: 100, firewall: { ingressPolicy: 'same-bridge' } }],
    ['host ports', { ...both, runtimeConfig: { portMappings } }],
    ['host ports for every client', { ...both, portmap: { masqAll: true }, runtimeConfig: { portMappings } }],
    ['host ports without loopback', { ...both, portmap: { snat: false }, runtimeConfig: { portMappings } }],
    ['host ports on a VLAN', { ...both, vlan: 100, runtimeConfig: { portMappings } }],
    ['routed', { ...both, mode: 'ptp', runtimeConfig: { portMappings } }],
    ['routed and isolated', { ...both, mode: 'ptp', firewall: { ingressPolicy: 'isolated' } }],
    ['routed, same-bridge', { ...both, mode: 'ptp', firewall: { ingressPolicy: 'same-bridge', hostAccept: 'off' } }],
  ])('makes the same rules: %s', (_, keys) => {
    const conf = readConfig(JSON.stringify({ cniVersion: '1.1.0', name: key.network, type: 'trestle', ...keys }), call)
    const made = conf as InterfaceNetConf
    const spec = buildSpec({ key, conf: made, lease: { ips, routes: [] }, mtu: 1500 })
    const network = buildNetworkSpec(made, spec.ips, { mtu: 1500, machineId: 'machine' })
    const links = new Map(linksOf(spec, network).map((each) => [each.name, each]))
    const elements = ruleOps({ networks: [network], attachments: [spec] }).filter((op) => op.kind === 'nft.add')
    const around = { links, table: { rules: new Map(), elements: indexElements(elements) }, forwarded: [4, 6] as const }
    const host = links.get(spec.host?.name ?? '')
    if (host === undefined) throw new Error('no link')
    const end = link(key.ifName, {
      mac: spec.pod?.mac ?? '',
      addresses: [...ips.map(({ address }) => address), 'fe80::1/64'],
    })

    const seen = seenAttachment({ key, link: host, end }, around)
    const shared = seenNetwork(key.network, [{ key, link: host, end }], around)
    expect(textsOf(shared, seen)).toEqual(textsOf(network, spec))
    expect(shared.bridge).toEqual(network.bridge)
    expect(shared.forwarding).toEqual(network.forwarding)
    expect(seen.ips).toEqual(spec.ips)

    // As with gVisor, without libcni's word and routes: the gateways tell the network.
    const bare = { key, link: host, end: { ...end, addresses: [] } }
    expect({ ...seenNetwork(key.network, [bare], around), ranges: shared.ranges }).toEqual({
      ranges: undefined,
      ...shared,
    })
  })
})
