// SPDX-License-Identifier: Apache-2.0
// From a configuration and a lease to what is to be made: every name, MAC, gateway and route is
// decided here, so that the operations (attach.ts, network.ts) only spell it out.

import { formatAddress, formatCidr, networkOf, parseCidr } from '../cni/address.ts'
import type { NetConf, Range, Route } from '../cni/net-conf.ts'
import type { AttachmentKey, AttachmentSpec, BridgeSpec, NetworkSpec, PodAddress } from './attachment.ts'
import { hostPortSpec } from './host-ports.ts'
import type { Lease } from './lease.ts'
import { bridgeMac, hostLinkMac, hostLinkName, podLinkMac } from './names.ts'

/** What the machine tells before anything is decided. `mtu` in bytes, already chosen for "auto". */
export interface Surroundings {
  readonly mtu: number
  readonly machineId: string
}

/** Everything of the attachment, from its configuration and lease. */
export function attachmentSpec(input: {
  readonly key: AttachmentKey
  readonly conf: NetConf
  readonly lease: Lease
  readonly mtu: number
}): AttachmentSpec {
  const { key, conf, mtu } = input
  const ips = input.lease.ips.map((ip) => withGateway(ip, conf.bridge.isGateway))
  const followsAddress = conf.ipam.kind === 'pool' || conf.ipam.kind === 'static'
  const mac = conf.mac ?? podLinkMac(key, followsAddress ? ips[0]?.address : undefined)
  const dns = conf.dns ?? input.lease.dns
  const hostPorts = hostPortSpec(conf, ips, conf.bridge.name)
  return {
    key,
    mode: conf.mode,
    mtu,
    host: { name: hostLinkName(key), mac: hostLinkMac(key) },
    pod: { name: key.ifName, mac },
    port: { bridge: conf.bridge.name, hairpin: conf.bridge.hairpinMode, isolated: conf.bridge.portIsolation },
    ips,
    ...routesOf(input.lease.routes, ips, conf.bridge.isDefaultGateway),
    podLinkDown: conf.bridge.disableContainerInterface,
    dad: conf.bridge.enabledad,
    ...(dns === undefined ? {} : { dns }),
    ...(hostPorts === undefined ? {} : { hostPorts }),
    isPool: conf.ipam.kind === 'pool',
    cooldownS: conf.ipam.kind === 'pool' ? conf.ipam.cooldownS : 0,
  }
}

/** What the network's attachments share. `ips`: this attachment's, for IPAM that names no subnets. */
export function networkSpec(conf: NetConf, ips: readonly PodAddress[], around: Surroundings): NetworkSpec {
  const gateways = conf.bridge.isGateway ? gatewaysOf(conf, ips) : []
  const subnets = subnetsOf(conf, ips)
  return {
    name: conf.name,
    bridge: bridgeSpec(conf, gateways, around),
    forwarding: familiesOf(gateways),
    ...(conf.ipMasq && subnets.length > 0
      ? { masquerade: { subnets, keep: unique([...subnets, ...conf.nonMasqueradeCidrs]) } }
      : {}),
    ...(wantsHairpin(conf) && subnets.length > 0 ? { hairpin: subnets } : {}),
    removeWhenEmpty: conf.removeWhenEmpty,
  }
}

/**
 * `old` and `now` as one. A network whose IPAM names no subnets learns them pod by pod, and the first
 * pod with host ports brings hairpin for all.
 */
export function mergeNetworks(old: NetworkSpec | undefined, now: NetworkSpec, namesSubnets: boolean): NetworkSpec {
  if (old === undefined) return now
  const hairpin = now.hairpin ?? old.hairpin
  if (namesSubnets) return { ...now, ...(hairpin && { hairpin }) }
  const addresses = unique([...(old.bridge?.addresses ?? []), ...(now.bridge?.addresses ?? [])])
  const masquerade = now.masquerade && {
    subnets: unique([...(old.masquerade?.subnets ?? []), ...now.masquerade.subnets]),
    keep: unique([...(old.masquerade?.keep ?? []), ...now.masquerade.keep]),
  }
  return {
    ...now,
    ...(now.bridge && { bridge: { ...now.bridge, addresses } }),
    forwarding: [...new Set([...old.forwarding, ...now.forwarding])].sort(),
    ...(masquerade && { masquerade }),
    ...(hairpin && { hairpin: unique([...(old.hairpin ?? []), ...hairpin]) }),
  }
}

/** Wherever packets to the pods may be translated: services where the network masquerades, and host ports. */
function wantsHairpin(conf: NetConf): boolean {
  return (conf.ipMasq || conf.portMappings.length > 0) && conf.portmap?.snat !== false
}

function bridgeSpec(conf: NetConf, addresses: readonly string[], around: Surroundings): BridgeSpec {
  return {
    name: conf.bridge.name,
    mac: bridgeMac(conf.bridge.name, around.machineId),
    mtu: around.mtu,
    addresses,
    forceAddress: conf.bridge.forceAddress,
    promisc: conf.bridge.promiscMode,
  }
}

/** Gateway CIDRs for the bridge: of all ranges where the configuration names them, else of the lease. */
function gatewaysOf(conf: NetConf, ips: readonly PodAddress[]): readonly string[] {
  if (conf.ipam.kind === 'pool') return unique(conf.ipam.rangeSets.flat().map(gatewayCidr))
  return unique(ips.flatMap((ip) => (ip.gateway === undefined ? [] : [`${ip.gateway}/${prefixOf(ip.address)}`])))
}

function gatewayCidr(range: Range): string {
  return `${range.gateway}/${prefixOf(range.subnet)}`
}

function subnetsOf(conf: NetConf, ips: readonly PodAddress[]): readonly string[] {
  if (conf.ipam.kind === 'pool') return unique(conf.ipam.rangeSets.flat().map((range) => range.subnet))
  return unique(ips.map((ip) => subnetOf(ip.address)))
}

function withGateway(ip: PodAddress, isGateway: boolean): PodAddress {
  if (ip.gateway !== undefined || !isGateway) return ip
  const cidr = parseCidr(ip.address)
  return cidr === undefined ? ip : { ...ip, gateway: formatAddress({ ...cidr, value: networkOf(cidr).value + 1n }) }
}

/** Routes as they will be installed: a route without gateway takes the first one of its family. */
function routesOf(
  routes: readonly Route[],
  ips: readonly PodAddress[],
  isDefaultGateway: boolean,
): { routes: readonly Route[]; defaultRoutes: readonly Route[] } {
  const complete = routes.map((route) => throughGateway(route, ips))
  const wanted = isDefaultGateway ? ips.flatMap(defaultThrough) : []
  const families = new Set(complete.filter(isPlainDefault).map((route) => route.dst))
  const missing = wanted.filter((route) => !families.has(route.dst))
  return {
    routes: distinct(complete.filter((route) => !isPlainDefault(route))),
    defaultRoutes: firstOfEach([...complete.filter(isPlainDefault), ...missing]),
  }
}

function throughGateway(route: Route, ips: readonly PodAddress[]): Route {
  if (route.gw !== undefined) return route
  const gateway = ips.find((ip) => ip.gateway !== undefined && sameFamily(ip.gateway, route.dst))?.gateway
  return gateway === undefined ? route : { ...route, gw: gateway }
}

function defaultThrough(ip: PodAddress): readonly Route[] {
  if (ip.gateway === undefined) return []
  return [{ dst: ip.gateway.includes(':') ? '::/0' : '0.0.0.0/0', gw: ip.gateway }]
}

/** A default route in the main table with the default metric; another table or metric is asked for on purpose. */
function isPlainDefault(route: Route): boolean {
  const isDefault = route.dst === '0.0.0.0/0' || route.dst === '::/0'
  return isDefault && route.table === undefined && route.priority === undefined
}

function firstOfEach(routes: readonly Route[]): readonly Route[] {
  return routes.filter((route, at) => routes.findIndex((other) => other.dst === route.dst) === at)
}

function distinct(routes: readonly Route[]): readonly Route[] {
  const seen = new Set<string>()
  return routes.filter((route) => {
    const text = JSON.stringify([route.dst, route.gw, route.priority, route.table])
    return !seen.has(text) && seen.add(text)
  })
}

function familiesOf(cidrs: readonly string[]): readonly (4 | 6)[] {
  return [...new Set(cidrs.map((cidr) => (cidr.includes(':') ? 6 : 4)))].sort()
}

function subnetOf(address: string): string {
  const cidr = parseCidr(address)
  return cidr === undefined ? address : formatCidr(networkOf(cidr))
}

function prefixOf(cidr: string): string {
  return cidr.slice(cidr.indexOf('/') + 1)
}

function sameFamily(a: string, b: string): boolean {
  return a.includes(':') === b.includes(':')
}

function unique(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)].sort()
}
