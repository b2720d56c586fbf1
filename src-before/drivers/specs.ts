// SPDX-License-Identifier: Apache-2.0
// From a configuration and a lease to the specs of attachment and network: every name, MAC, gateway and route is
// decided here and in the driver, so that the operations only spell it out.

import { bareAddress, canonicalNetwork, familyOf, includes, parseAddress, parseCidr } from '../cni/address.ts'
import { CniError } from '../cni/error.ts'
import { defined } from '../cni/json.ts'
import type { Route } from '../cni/result.ts'
import type { InterfaceNetConf, IpamConf } from '../config/net-conf.ts'
import { bandwidthSpec } from '../features/bandwidth.ts'
import { mergedAccepts } from '../features/firewall.ts'
import { hostPortSpec } from '../features/host-ports.ts'
import { isDefault, routedBySource } from '../features/sbr.ts'
import { tuningSpec } from '../features/tuning.ts'
import type { AttachmentKey, AttachmentSpec, Lease, NetworkSpec, PodAddress } from '../model/attachment.ts'
import { podLinkMac } from '../model/names.ts'
import { linkScope } from '../model/op.ts'
import type { Device, Routes, Surroundings } from './driver.ts'
import { interfaceDriverOf } from './drivers.ts'
import { unique, withFirstGateway } from './subnets.ts'

interface AttachmentInput {
  readonly key: AttachmentKey
  readonly conf: InterfaceNetConf
  readonly lease: Lease
  readonly mtu: number
  /** Routing tables of the pod that are in use; for sbr only. */
  readonly usedTables?: ReadonlySet<number>
  /** For modes that need a link of the host. */
  readonly device?: Device | undefined
}

/** Everything of the attachment, from its configuration and lease. Throws CniError 7 as the mode says. */
export function buildSpec(input: AttachmentInput): AttachmentSpec {
  const { key, conf, lease, device, usedTables = new Set() } = input
  const ips = 'isGateway' in conf && conf.isGateway ? lease.ips.map(withFirstGateway) : lease.ips
  requireOtherGateway(ips, conf.ipam)
  const mac = conf.tuning?.mac ?? conf.mac ?? podLinkMac(key, addressOfMac(conf.ipam, ips))
  const given = podRoutes(lease.routes, ips, conf.isDefaultGateway)
  const driver = interfaceDriverOf(conf)
  if (!driver.isRouted && !conf.disableContainerInterface) requireNearGateways(given, ips)
  const own = driver.partsOf(conf, { key, mac, ips, given, device })
  const mtu = own.mtu ?? input.mtu
  const hostPorts = own.hostLink === undefined ? undefined : hostPortSpec(conf, ips, own.hostLink)
  return {
    key,
    mode: conf.mode,
    mtu,
    ...defined({ host: own.host }),
    pod: { name: key.ifName, mac: own.mac ?? mac, ...defined({ mtu: conf.tuning?.mtu }) },
    ...defined({ port: own.port }),
    ips,
    ...routedBySource(conf.sbr, own.routes, { ips, links: own.subnetRoutes, usedTables }),
    podLinkDown: conf.disableContainerInterface,
    dad: conf.enabledad,
    selfHairpin: own.selfHairpin ?? hostPorts?.snat ?? false,
    ...defined({
      dns: conf.dns ?? lease.dns,
      hostPorts,
      bandwidth: bandwidthSpec(conf.bandwidth, { key, link: own.host?.name ?? '', mtu }),
      tuning: tuningSpec(conf),
      ingressPolicy: own.ingressPolicy,
    }),
    ...own.only,
    isPool: conf.ipam.kind === 'pool',
    cooldownS: conf.ipam.kind === 'pool' ? conf.ipam.cooldownS : 0,
  }
}

/** A requested address comes again with another one of the other family beside it: its MAC comes again, too. */
function addressOfMac(ipam: IpamConf, ips: readonly PodAddress[]): string | undefined {
  if (ipam.kind !== 'pool' && ipam.kind !== 'static') return undefined
  const requested = ipam.kind === 'pool' ? ipam.requested : []
  const isRequested = ({ address }: PodAddress) => requested.includes(bareAddress(address))
  return (ips.find(isRequested) ?? ips[0])?.address
}

/** A pool gives no pod its gateway; an address that is its own gateway would be the host's. */
function requireOtherGateway(ips: readonly PodAddress[], ipam: IpamConf): void {
  const own = ips.find(({ address, gateway }) => gateway === bareAddress(address))
  if (own === undefined) return
  if (ipam.kind === 'delegated')
    throw new CniError('requested-gateway', `${own.address} of the IPAM plugin ${ipam.type} is its own gateway`, {
      details: 'its range has to leave out the gateway, the first address of the subnet if it names none',
    })
  throw new CniError('static-gateway-invalid', `ipam.addresses: ${own.address} is its own gateway`, {
    details: 'use another address for the pod, or another gateway',
  })
}

/**
 * The kernel refuses a route whose gateway is on no link (net/ipv4/fib_semantics.c, fib_check_nh); its address would be
 * on the bridge by then. IPv6 link-local addresses are on every link.
 */
function requireNearGateways({ routes, defaultRoutes }: Routes, ips: readonly PodAddress[]): void {
  const onLink = [
    ...ips.map(({ address }) => address),
    ...routes.flatMap(({ gw, dst }) => (gw === undefined ? dst : [])),
  ]
  const near = [...onLink, 'fe80::/64'].flatMap((text) => parseCidr(text) ?? [])
  const far = [...routes, ...defaultRoutes].find(({ gw }) => {
    const at = gw === undefined ? undefined : parseAddress(gw)
    return at !== undefined && !near.some((cidr) => includes(cidr, at))
  })
  if (far === undefined) return
  const addresses = ips.map(({ address }) => address).join(', ')
  throw new CniError('gateway-unreachable', `ipam: gateway ${far.gw} is in no subnet of the pod (${addresses})`, {
    details: `the route to ${far.dst} goes through it; give the addresses a gateway of their subnet, or use mode ptp`,
  })
}

/** The shared part of the network's attachments. `ips`: of this attachment, for IPAM that names no subnets. */
export function buildNetworkSpec(
  conf: InterfaceNetConf,
  ips: readonly PodAddress[],
  surroundings: Surroundings,
): NetworkSpec {
  return interfaceDriverOf(conf).networkOf(conf, ips, surroundings)
}

/** Where a network's subnets come from: the configuration, the leases of its pods, or nowhere (layer 2). */
export type SubnetSource = 'configured' | 'leases' | 'none'

/** The source of the subnets of a network on an interface of ours. */
export function subnetSourceOf({ ipam }: Pick<InterfaceNetConf, 'ipam'>): SubnetSource {
  if (ipam.kind === 'pool') return 'configured'
  return ipam.kind === 'none' ? 'none' : 'leases'
}

/**
 * `old` and `now` as one: subnets and hairpin that the configuration does not name are learnt pod by pod. Layer 2 does
 * not read ipMasq: the masquerade of pods that had addresses before stays.
 */
export function mergeNetworks(old: NetworkSpec | undefined, now: NetworkSpec, source: SubnetSource): NetworkSpec {
  const former = old?.formerGateways && { formerGateways: old.formerGateways }
  // Pods in another place are in the records (order/earlier-networks.ts): this network has none of their gateways.
  if (old === undefined || old.bridge?.name !== now.bridge?.name) return { ...now, ...former }
  const { ranges } = now
  const hairpin = now.hairpin ?? old.hairpin
  if (source === 'configured') return { ...now, ...former, ...(hairpin && { hairpin }) }
  const addresses = unique([...(old.bridge?.addresses ?? []), ...(now.bridge?.addresses ?? [])])
  const masquerade = source === 'none' ? old.masquerade : mergedMasquerade(old, now)
  return {
    ...now,
    ...former,
    ...(now.bridge && { bridge: { ...now.bridge, addresses } }),
    forwarding: [...new Set([...old.forwarding, ...now.forwarding])].sort(),
    ...(masquerade && { masquerade }),
    ...(hairpin && { hairpin: unique([...(old.hairpin ?? []), ...hairpin]) }),
    ...(ranges && { ranges: unique([...(old.ranges ?? []), ...ranges]) }),
    ...mergedAccepts(old, now),
  }
}

function mergedMasquerade(old: NetworkSpec, now: NetworkSpec): NetworkSpec['masquerade'] {
  if (now.masquerade === undefined) return undefined
  const subnets = unique([...(old.masquerade?.subnets ?? []), ...now.masquerade.subnets])
  return { subnets, noMasquerade: unique([...subnets, ...now.masquerade.noMasquerade]) }
}

// The routes of a pod, from what IPAM gave: which have a gateway, and which is the default one.

/** A route without gateway takes the first one of its family, but not in IPv4 one of scope link or narrower. */
function podRoutes(
  leased: readonly Route[],
  ips: readonly PodAddress[],
  isDefaultGateway: boolean,
): { routes: readonly Route[]; defaultRoutes: readonly Route[] } {
  const routes = leased.map((route) => ({ ...route, dst: canonicalNetwork(route.dst) }))
  const complete = routes.map((route) => throughGateway(withoutZeros(route), ips))
  const wanted = isDefaultGateway ? ips.flatMap(defaultThrough) : []
  // As in the upstream bridge: one with a gateway of its own, in whatever table and metric, is the one meant.
  const named = routes.filter((route) => isDefault(route) && route.gw !== undefined)
  const families = new Set([...complete.filter(isPlainDefault), ...named].map((route) => route.dst))
  const missing = wanted.filter((route) => !families.has(route.dst))
  return {
    routes: distinct(complete.filter((route) => !isPlainDefault(route))),
    // Several of the configuration stay side by side, as in upstream; of the addresses' own gateways the first is
    // taken.
    defaultRoutes: [...distinct(complete.filter(isPlainDefault)), ...firstOfEach(missing)],
  }
}

/** 0 is "not set", as in upstream: the kernel takes table 0 for the main one, and shows none of the others. */
function withoutZeros({ priority, mtu, advmss, table, ...route }: Route): Route {
  return {
    ...route,
    ...(priority ? { priority } : {}),
    ...(mtu ? { mtu } : {}),
    ...(advmss ? { advmss } : {}),
    ...(table ? { table } : {}),
  }
}

function throughGateway(route: Route, ips: readonly PodAddress[]): Route {
  // On the link, the kernel takes no gateway (net/ipv4/fib_semantics.c, fib_check_nh). IPv6 routes have no scope.
  const isOnLink = route.scope !== undefined && route.scope >= linkScope && familyOf(route.dst) === 4
  if (route.gw !== undefined || isOnLink) return route
  const gateway = ips.find((ip) => ip.gateway !== undefined && sameFamily(ip.gateway, route.dst))?.gateway
  return gateway === undefined ? route : { ...route, gw: gateway }
}

function defaultThrough(ip: PodAddress): readonly Route[] {
  if (ip.gateway === undefined) return []
  return [{ dst: familyOf(ip.gateway) === 6 ? '::/0' : '0.0.0.0/0', gw: ip.gateway }]
}

/** A default route in the main table with the default metric; another table or metric is asked for on purpose. */
function isPlainDefault(route: Route): boolean {
  return isDefault(route) && route.table === undefined && route.priority === undefined
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

function sameFamily(a: string, b: string): boolean {
  return familyOf(a) === familyOf(b)
}
