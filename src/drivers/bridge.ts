// SPDX-License-Identifier: Apache-2.0
// mode `bridge`: a veth pair whose host end is a port of the network's bridge, which has the pods' gateway addresses.

import { familyOf } from '../cni/addresses.ts'
import { defined } from '../cni/json.ts'
import type { BridgeConf } from '../config/network-conf.ts'
import { acceptOf } from '../features/firewall.ts'
import { isTranslated, masqueradeOf } from '../features/masquerade.ts'
import { portVlanOps, portVlansOf, vlanGatewayOf } from '../features/vlan.ts'
import { addHostAddress, forwardingKey, type Op, setLink, setSysctl } from '../kernel/operation.ts'
import type { Decided, Driver, NodeFacts, Parts } from './driver.ts'
import { ignoreRouters, vethOps } from './interface.ts'
import { bridgeMac, hostLinkMac, hostLinkName, linkLocalPrefix, ownBridgeAlias } from './names.ts'
import type { BridgePort, BridgeSpec, NetworkSpec, PodAddress, Spec } from './spec.ts'
import { familiesOf, gatewaysOf, rangesOf } from './subnets.ts'

/** BR_MAX_PORTS: 10 bits of port number, 0 is not used (net/bridge/br_private.h). */
export const mostBridgePorts = 1023

function partsOf(conf: BridgeConf, { id, mac, mtu, routes, defaultRoutes }: Decided): Parts {
  return {
    host: { name: hostLinkName(id), mac: hostLinkMac(id), mtu },
    port: portOf(conf, mac),
    routes,
    defaultRoutes,
    wayToPod: { link: vlanGatewayOf(conf)?.name ?? conf.bridge.name, isOwnLink: false },
  }
}

function portOf({ bridge, firewall }: BridgeConf, mac: string): BridgePort {
  return {
    bridge: bridge.name,
    hairpin: bridge.hairpinMode,
    // Frames between ports of one bridge never reach our table: the kernel forwards none between isolated ones.
    isolated: bridge.portIsolation || firewall?.ingressPolicy === 'isolated',
    ...defined({ vlans: portVlansOf(bridge), onlyMac: bridge.macspoofchk ? mac : undefined }),
  }
}

function networkOf(conf: BridgeConf, addresses: readonly PodAddress[], node: NodeFacts): NetworkSpec {
  const ranges = rangesOf(conf, addresses)
  const gateways = gatewaysOf(conf, addresses)
  const onBridge = conf.isGateway ? gateways : []
  const { name, vlan, vlanTrunk, forceAddress, promiscMode: promisc } = conf.bridge
  const vlanGateway = vlanGatewayOf(conf)
  const bridge: BridgeSpec = {
    name,
    mac: bridgeMac(name, node.machineId),
    mtu: conf.mtu === 'auto' ? node.mtu : conf.mtu,
    addresses: onBridge,
    forceAddress,
    promisc,
    vlanFiltering: vlan !== 0 || vlanTrunk !== undefined,
    isForeign: false,
    ...defined({ vlanGateway }),
  }
  // On a VLAN pods come in by the gateway's link, too.
  const links = vlanGateway === undefined ? [name] : [name, vlanGateway.name]
  const policy = conf.firewall?.ingressPolicy
  return {
    name: conf.name,
    role: 'main',
    mode: 'bridge',
    ranges,
    isLearned: conf.ipam.kind !== 'pool',
    gateways: onBridge,
    vlan,
    bridge,
    forwarding: familiesOf(onBridge),
    allowOverlap: conf.allowOverlap,
    hairpin: isTranslated(conf) ? ranges : [],
    ...defined({
      masquerade: masqueradeOf(conf, ranges),
      ingressPolicy: policy && { policy, links },
      accept: acceptOf(conf, links, ranges),
    }),
    removeWhenEmpty: conf.removeWhenEmpty,
  }
}

function hostOps(spec: Spec): readonly Op[] {
  const { host, port } = spec
  return host === undefined || port === undefined ? [] : [...vethOps(spec), ...portSettings(host.name, port)]
}

function portSettings(dev: string, { hairpin, isolated, vlans }: BridgePort): readonly Op[] {
  return [
    setLink('host', dev, { hairpin, isolated }, `set hairpin and isolation of ${dev}`),
    ...(vlans ? portVlanOps(dev, vlans) : []),
  ]
}

/** Puts the port of a pod that is there back on its bridge. A port loses its settings with the bridge (br_if.c, del_nbp). */
export function plugOps({ host, port }: Spec): readonly Op[] {
  if (host === undefined || port === undefined) return []
  const { name: dev } = host
  return [
    setLink('host', dev, { master: port.bridge, up: true }, `plug ${dev} into ${port.bridge}`, 'absent'),
    ...portSettings(dev, port).map((op): Op => ({ ...op, tolerate: 'absent' })),
  ]
}

/** Makes the bridge where it is missing. */
export function makeBridgeOps(bridge: BridgeSpec): readonly Op[] {
  const { name, mac, mtu, vlanFiltering } = bridge
  return [
    { place: 'host', kind: 'bridge.add', name, mac, mtu, vlanFiltering, why: `create the bridge ${name}` },
    markBridge(name),
  ]
}

export function markBridge(name: string): Op {
  return setLink('host', name, { alias: ownBridgeAlias }, `mark ${name} as ours`)
}

/** What holds on the host wherever a network is set up: forwarding, and the settings of a bridge that is there. */
export function keepNetworkOps({ forwarding, bridge }: NetworkSpec): readonly Op[] {
  const ops = forwarding.map((family) => {
    return setSysctl('host', forwardingKey(family), '1', 'first', `forward IPv${family} packets`)
  })
  return bridge === undefined ? ops : [...ops, ...keepBridgeOps(bridge)]
}

function keepBridgeOps(bridge: BridgeSpec): readonly Op[] {
  const { name, mac, promisc, vlanGateway, addresses, isForeign } = bridge
  const gateway = vlanGateway ?? { name, mac }
  const set = { up: true, ...(promisc ? { promisc } : {}), ...(isForeign ? {} : { mac }) }
  const ops: Op[] = [
    ignoreRouters(name),
    ...(vlanGateway === undefined ? [] : [ignoreRouters(vlanGateway.name)]),
    setLink('host', name, set, `set the bridge ${name} up`),
  ]
  if (addresses.some((cidr) => familyOf(cidr) === 6)) {
    // The kernel would use its own link-local address only after DAD: the first packets to a pod would be lost.
    const set = { withoutLinkLocal: true } as const
    ops.push(setLink('host', gateway.name, set, `give ${gateway.name} its link-local address at once`))
    ops.push(addHostAddress(gateway.name, linkLocalPrefix(gateway.mac)))
  }
  return [...ops, ...addresses.map((cidr) => addHostAddress(gateway.name, cidr))]
}

export const bridge: Driver<BridgeConf> = { partsOf, networkOf, hostOps }
