// SPDX-License-Identifier: Apache-2.0
// The operations for what a network's attachments share: forwarding, the bridge, its addresses.

import { familyOf } from '../../cni/model/address.ts'
import { vlanGatewayOps } from '../link/vlan.ts'
import type { BridgeSpec, NetworkSpec } from '../model/attachment.ts'
import { bridgeMac, linkLocalCidr } from '../model/names.ts'
import type { Op } from '../model/op.ts'

/** BR_MAX_PORTS (net/bridge/br_private.h): 10 bits of port number, 0 is not used. */
export const mostBridgePorts = 1023

/** Forwarding for the network's families. */
export function forwardingOps(network: NetworkSpec): readonly Op[] {
  return network.forwarding.map((family) => ({
    in: 'host',
    kind: 'forwarding.on',
    family,
    why: `forward IPv${family} packets`,
  }))
}

/** The sysctl that switches forwarding on for a family, `net/…`. */
export function forwardingKey(family: 4 | 6): string {
  return family === 4 ? 'net/ipv4/ip_forward' : 'net/ipv6/conf/all/forwarding'
}

/** A bridge made from nothing. */
export function newBridgeOps(bridge: BridgeSpec): readonly Op[] {
  const { name, mac, mtu, vlanFiltering, gateway } = bridge
  return [
    { in: 'host', kind: 'bridge.add', name, mac, mtu, vlanFiltering, why: `create the bridge ${name}` },
    ...(gateway ? vlanGatewayOps(bridge, gateway) : []),
    ...keepBridgeOps(bridge),
  ]
}

/** What every ADD says again about a bridge that is there: all of it holds as a rule, and costs microseconds. */
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

/** As on a routed pod's link (attach.ts): forwarded packets do not wait for the bridge's DAD. */
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

/** A pod must not change the host's routes by advertising itself as a router on the link `name` (CVE-2020-10749). */
export function ignoreRouters(name: string): Op {
  return {
    in: 'host',
    kind: 'sysctl.write',
    key: `net/ipv6/conf/${name}/accept_ra`,
    value: '0',
    why: `ignore router advertisements on ${name}`,
  }
}

/**
 * The MAC of a bridge of our making: pods keep it as their gateway's, whoever sets another one (a network manager).
 * That of somebody else's bridge may follow its ports. `machineId`: see bridgeMac.
 */
export function ownMacOps({ name, mac }: BridgeSpec, machineId: string): readonly Op[] {
  if (mac !== bridgeMac(name, machineId)) return []
  return [{ in: 'host', kind: 'link.mac', dev: name, mac, why: `set the MAC of ${name}` }]
}
