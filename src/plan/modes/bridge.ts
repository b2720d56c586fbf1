// SPDX-License-Identifier: Apache-2.0
// mode `bridge`: a veth pair whose host end is a port of the network's bridge, which has the pods' gateway addresses
// (docs/design.md, "Upstream bridge and ptp").

import { defined } from '../../cni/model/defined.ts'
import type { NetConf } from '../../cni/model/net-conf.ts'
import { subnetRoutes } from '../link/sbr.ts'
import { portVlanOps, portVlans, vlanGateway } from '../link/vlan.ts'
import type { AttachmentSpec, BridgePort, BridgeSpec, LinkEnd, NetworkSpec, PodAddress } from '../model/attachment.ts'
import { bridgeMac, hostLinkMac, hostLinkName } from '../model/names.ts'
import type { Op } from '../model/op.ts'
import { wantsHairpin } from '../rules/hairpin.ts'
import { acceptOf } from '../rules/host-accept.ts'
import { ingressPolicyOf } from '../rules/isolation.ts'
import { masqueradeSpec } from '../rules/masquerade.ts'
import type { Decided, ModeRoom, OwnParts, Surroundings } from './mode.ts'
import { interfacePodOps } from './pod-ops.ts'
import { familiesOf, gatewaysOf, subnetsOf } from './subnets.ts'
import { vethOps } from './veth.ts'

/** A host end, and where it belongs. */
export interface Port {
  readonly host?: Pick<LinkEnd, 'name'>
  readonly port?: BridgePort
}

/** A port that lost its bridge, put back. */
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

function partsOf({ key, conf, mac, ips, given }: Decided): OwnParts {
  return {
    host: { name: hostLinkName(key), mac: hostLinkMac(key) },
    port: portOf(conf, mac),
    routes: given,
    subnetRoutes: ips.flatMap(subnetRoutes),
    hostLink: vlanGateway(conf.bridge)?.name ?? conf.bridge.name,
  }
}

function portOf({ bridge, firewall }: NetConf, mac: string): BridgePort {
  // The kernel forwards nothing between isolated ports: "isolated" then holds on layer 2 as well.
  const isolated = bridge.portIsolation || firewall?.ingressPolicy === 'isolated'
  return {
    bridge: bridge.name,
    hairpin: bridge.hairpinMode,
    isolated,
    ...defined({ vlans: portVlans(bridge), onlyMac: bridge.macspoofchk ? mac : undefined }),
  }
}

function gatewaySide(conf: NetConf, ips: readonly PodAddress[]) {
  const { name, bridge } = conf
  const addresses = bridge.isGateway ? gatewaysOf(conf, ips) : []
  return { name, bridge: { name: bridge.name, addresses, ...defined({ gateway: vlanGateway(bridge) }) } }
}

function networkOf(conf: NetConf, ips: readonly PodAddress[], surroundings: Surroundings): NetworkSpec {
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

function bridgeSpec(conf: NetConf, addresses: readonly string[], surroundings: Surroundings): BridgeSpec {
  return {
    name: conf.bridge.name,
    mac: bridgeMac(conf.bridge.name, surroundings.machineId),
    mtu: surroundings.mtu,
    addresses,
    forceAddress: conf.bridge.forceAddress,
    promisc: conf.bridge.promiscMode,
    vlanFiltering: conf.bridge.vlan !== 0 || conf.bridge.vlanTrunk !== undefined,
    ...defined({ gateway: vlanGateway(conf.bridge) }),
  }
}

export const bridge: ModeRoom = {
  order: 'interface',
  unreadKeys: [],
  isRouted: false,
  hostOps,
  nameOps: () => [],
  leasedHostOps: () => [],
  podOps: (spec) => interfacePodOps(spec, false),
  podTeardownOps: () => [],
  makes: {
    hasHostGateway: true,
    bridgeOf: ({ bridge: { name } }) => name,
    masterOf: () => undefined,
    partsOf,
    gatewaySide,
    networkOf,
  },
}
