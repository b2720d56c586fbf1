// SPDX-License-Identifier: Apache-2.0
// mode `bridge`: a veth pair whose host end is a port of the network's bridge, which has the pods' gateway addresses
// (docs/design.md, "Upstream bridge and ptp").

import { familyOf } from '../cni/address.ts'
import { defined } from '../cni/json.ts'
import type { BridgeNetConf } from '../config/net-conf.ts'
import { gatewayLink, portVlanOps, portVlans, vlanGateway, vlanGatewayOps } from '../features/bridge-port.ts'
import { acceptOf, ingressPolicyOf } from '../features/firewall.ts'
import { masqueradeSpec, wantsHairpin } from '../features/masquerade.ts'
import { subnetRoutes } from '../features/sbr.ts'
import type { AttachmentSpec, BridgePort, BridgeSpec, LinkEnd, NetworkSpec, PodAddress } from '../model/attachment.ts'
import { bridgeMac, hostLinkMac, hostLinkName, linkLocalCidr } from '../model/names.ts'
import type { Op } from '../model/op.ts'
import type { Decided, InterfaceDriver, OwnParts, Surroundings } from './driver.ts'
import { ignoreRouters, interfacePodOps, vethOps } from './interface.ts'
import { familiesOf, gatewaysOf, subnetsOf } from './subnets.ts'

/** BR_MAX_PORTS (net/bridge/br_private.h): 10 bits of port number, 0 is not used. */
export const mostBridgePorts = 1023

export interface Port {
  readonly host?: Pick<LinkEnd, 'name'>
  readonly port?: BridgePort
}

/** Puts a port that lost its bridge back. */
export function portOps({ host, port }: Port): readonly Op[] {
  if (host === undefined || port === undefined) return []
  const { bridge: master } = port
  const why = `plug ${host.name} into ${master}`
  return [{ in: 'host', kind: 'port.master', dev: host.name, master, why }, ...portSettings(host, port)]
}

function portSettings({ name }: Pick<LinkEnd, 'name'>, { hairpin, isolated, vlans }: BridgePort): readonly Op[] {
  return [
    { in: 'host', kind: 'port.flags', dev: name, hairpin, isolated, why: `set hairpin and isolation of ${name}` },
    ...(vlans ? portVlanOps(name, vlans) : []),
  ]
}

function hostOps(spec: AttachmentSpec): readonly Op[] {
  const { host, port } = spec
  const pair = vethOps(spec)
  if (host === undefined || pair.length === 0) return []
  return [...pair, ...(port ? portSettings(host, port) : [])]
}

function partsOf(conf: BridgeNetConf, { key, mac, ips, given }: Decided): OwnParts {
  return {
    host: { name: hostLinkName(key), mac: hostLinkMac(key) },
    port: portOf(conf, mac),
    routes: given,
    subnetRoutes: ips.flatMap(subnetRoutes),
    hostLink: gatewayLink(gatewaySide(conf, ips).bridge),
    // A service may lead back to the pod, and the rule of ingressPolicy knows by this that it is the same one.
    ...(ingressPolicyOf(conf) === 'isolated' ? { selfHairpin: conf.portmap?.snat !== false } : {}),
  }
}

function portOf({ bridge, firewall }: BridgeNetConf, mac: string): BridgePort {
  // The kernel forwards nothing between isolated ports: "isolated" then holds on layer 2 as well.
  const isolated = bridge.portIsolation || firewall?.ingressPolicy === 'isolated'
  return {
    bridge: bridge.name,
    hairpin: bridge.hairpinMode,
    isolated,
    ...defined({ vlans: portVlans(bridge), onlyMac: bridge.macspoofchk ? mac : undefined }),
  }
}

function gatewaySide(conf: BridgeNetConf, ips: readonly PodAddress[]) {
  const { name, bridge } = conf
  const addresses = conf.isGateway ? gatewaysOf(conf, ips) : []
  return { name, bridge: { name: bridge.name, addresses, ...defined({ gateway: vlanGateway(conf) }) } }
}

function networkOf(conf: BridgeNetConf, ips: readonly PodAddress[], surroundings: Surroundings): NetworkSpec {
  const gateways = gatewaySide(conf, ips).bridge.addresses
  const subnets = subnetsOf(conf, ips)
  return {
    name: conf.name,
    bridge: bridgeSpec(conf, gateways, surroundings),
    forwarding: familiesOf(gateways),
    ...defined({
      masquerade: masqueradeSpec(conf, subnets),
      hairpin: wantsHairpin(conf) && subnets.length > 0 ? subnets : undefined,
      ingressPolicy: ingressPolicyOf(conf),
    }),
    ...acceptOf(conf, { hostAccept: conf.bridge.name }, subnets),
    removeWhenEmpty: conf.removeWhenEmpty,
  }
}

function bridgeSpec(conf: BridgeNetConf, addresses: readonly string[], surroundings: Surroundings): BridgeSpec {
  return {
    name: conf.bridge.name,
    mac: bridgeMac(conf.bridge.name, surroundings.machineId),
    mtu: surroundings.mtu,
    addresses,
    forceAddress: conf.bridge.forceAddress,
    promisc: conf.bridge.promiscMode,
    vlanFiltering: conf.bridge.vlan !== 0 || conf.bridge.vlanTrunk !== undefined,
    ...defined({ gateway: vlanGateway(conf) }),
  }
}

export function newBridgeOps(bridge: BridgeSpec): readonly Op[] {
  const { name, mac, mtu, vlanFiltering, gateway } = bridge
  return [
    { in: 'host', kind: 'bridge.add', name, mac, mtu, vlanFiltering, why: `create the bridge ${name}` },
    ...(gateway ? vlanGatewayOps(bridge, gateway) : []),
    ...keepBridgeOps(bridge),
  ]
}

/** Settings of a bridge that is there. Every ADD repeats them: as a rule they hold, and cost microseconds. */
export function keepBridgeOps(bridge: BridgeSpec): readonly Op[] {
  const { name } = bridge
  const gateway = bridge.gateway ?? { name, mac: bridge.mac }
  return [
    { in: 'host', kind: 'link.up', dev: name, why: `set the bridge ${name} up` },
    ...(bridge.promisc
      ? [{ in: 'host', kind: 'link.promisc', dev: name, why: `set ${name} promiscuous` } as const]
      : []),
    ...(hasIpv6(bridge) ? [noLinkLocal(gateway.name), gatewayOp(linkLocalCidr(gateway.mac), gateway.name)] : []),
    ...bridge.addresses.map((cidr) => gatewayOp(cidr, gateway.name)),
  ]
}

/** As on a routed pod's link (ptp.ts): forwarded packets do not wait for the bridge's DAD. */
function noLinkLocal(dev: string): Op {
  return { in: 'host', kind: 'link.no-local', dev, why: `give ${dev} its link-local address at once` }
}

function gatewayOp(cidr: string, dev: string): Op {
  return { in: 'host', kind: 'addr.replace', dev, cidr, dad: false, why: `add the gateway address ${cidr} to ${dev}` }
}

function hasIpv6(bridge: BridgeSpec): boolean {
  return bridge.addresses.some((cidr) => familyOf(cidr) === 6)
}

/** Kernel settings of a bridge and its gateway link. */
export function bridgeSysctlOps(bridge: BridgeSpec): readonly Op[] {
  return [bridge.name, ...(bridge.gateway ? [bridge.gateway.name] : [])].map(ignoreRouters)
}

/**
 * The MAC of a bridge that trestle made: pods keep it as their gateway's, although a network manager may set another.
 * The MAC of another program's bridge may follow its ports. `machineId`: see bridgeMac.
 */
export function ownMacOps({ name, mac }: BridgeSpec, machineId: string): readonly Op[] {
  if (mac !== bridgeMac(name, machineId)) return []
  return [{ in: 'host', kind: 'link.mac', dev: name, mac, why: `set the MAC of ${name}` }]
}

export const bridge: InterfaceDriver<BridgeNetConf> = {
  isRouted: false,
  hostOps,
  podOps: (spec) => interfacePodOps(spec, false),
  partsOf,
  gatewaySide,
  networkOf,
}
