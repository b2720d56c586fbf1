// SPDX-License-Identifier: Apache-2.0
// From a configuration and a lease to the specs of attachment and network: every name, MAC, gateway and route is
// decided here and in the driver, so that the operations only spell it out.

import { bareAddress, includes, parseAddress, parseCidr } from '../cni/address.ts'
import { defined } from '../cni/defined.ts'
import { CniError } from '../cni/error.ts'
import type { InterfaceNetConf } from '../config/net-conf.ts'
import { bandwidthSpec } from '../features/bandwidth.ts'
import { mergedAccepts } from '../features/firewall/firewall.ts'
import { hostPortSpec } from '../features/host-ports.ts'
import { routedBySource } from '../features/sbr.ts'
import { tuningSpec } from '../features/tuning.ts'
import type { AttachmentKey, AttachmentSpec, NetworkSpec, PodAddress } from '../model/attachment.ts'
import type { Lease } from '../model/lease.ts'
import { podLinkMac } from '../model/names.ts'
import type { GatewaySide } from '../plan/ipam/range-overlap.ts'
import type { Master, Routes, Surroundings } from './driver.ts'
import { interfaceDriverOf } from './drivers.ts'
import { podRoutes } from './pod-routes.ts'
import { unique, withFirstGateway } from './subnets.ts'

interface AttachmentInput {
  readonly key: AttachmentKey
  readonly conf: InterfaceNetConf
  readonly lease: Lease
  readonly mtu: number
  /** Routing tables of the pod that are in use; for sbr only. */
  readonly usedTables?: ReadonlySet<number>
  /** For modes that put interfaces on a link of the host. */
  readonly master?: Master | undefined
}

/** Everything of the attachment, from its configuration and lease. Throws CniError 7 as the mode says. */
export function buildSpec(input: AttachmentInput): AttachmentSpec {
  const { key, conf, lease, master, usedTables = new Set() } = input
  const ips = 'isGateway' in conf && conf.isGateway ? lease.ips.map(withFirstGateway) : lease.ips
  if (conf.ipam.kind === 'static') requireOtherGateway(ips)
  const followsAddress = conf.ipam.kind === 'pool' || conf.ipam.kind === 'static'
  const mac = conf.tuning?.mac ?? conf.mac ?? podLinkMac(key, followsAddress ? ips[0]?.address : undefined)
  const given = podRoutes(lease.routes, ips, conf.isDefaultGateway)
  const driver = interfaceDriverOf(conf)
  if (!driver.isRouted && !conf.disableContainerInterface) requireNearGateways(given, ips)
  const own = driver.partsOf(conf, { key, mac, ips, given, master })
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
      macvlan: own.macvlan,
    }),
    isPool: conf.ipam.kind === 'pool',
    cooldownS: conf.ipam.kind === 'pool' ? conf.ipam.cooldownS : 0,
  }
}

/** A pool gives no pod its gateway; a static address that is its own gateway would be the host's. */
function requireOtherGateway(ips: readonly PodAddress[]): void {
  const own = ips.find(({ address, gateway }) => gateway === bareAddress(address))
  if (own === undefined) return
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

/** The place of the network's gateways, to compare its ranges with the host's. `ips` as in `buildNetworkSpec`. */
export function gatewaySide(conf: InterfaceNetConf, ips: readonly PodAddress[]): GatewaySide {
  return interfaceDriverOf(conf).gatewaySide(conf, ips)
}

/** The shared part of the network's attachments. `ips`: of this attachment, for IPAM that names no subnets. */
export function buildNetworkSpec(
  conf: InterfaceNetConf,
  ips: readonly PodAddress[],
  surroundings: Surroundings,
): NetworkSpec {
  return interfaceDriverOf(conf).networkOf(conf, ips, surroundings)
}

/**
 * `old` and `now` as one. A network whose IPAM names no subnets learns them pod by pod, and the first
 * pod with host ports brings hairpin for all.
 */
export function mergeNetworks(old: NetworkSpec | undefined, now: NetworkSpec, namesSubnets: boolean): NetworkSpec {
  const former = old?.formerGateways && { formerGateways: old.formerGateways }
  // Pods in another place are in the records (recovery/earlier-networks.ts): this network has none of their gateways.
  if (old === undefined || old.bridge?.name !== now.bridge?.name) return { ...now, ...former }
  const { ranges } = now
  const hairpin = now.hairpin ?? old.hairpin
  if (namesSubnets) return { ...now, ...former, ...(hairpin && { hairpin }) }
  const addresses = unique([...(old.bridge?.addresses ?? []), ...(now.bridge?.addresses ?? [])])
  const masquerade = now.masquerade && {
    subnets: unique([...(old.masquerade?.subnets ?? []), ...now.masquerade.subnets]),
    noMasquerade: unique([...(old.masquerade?.noMasquerade ?? []), ...now.masquerade.noMasquerade]),
  }
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
