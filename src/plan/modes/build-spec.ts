// SPDX-License-Identifier: Apache-2.0
// From a configuration and a lease to what is to be made: every name, MAC, gateway and route is
// decided here, so that the operations (attach.ts, network.ts) only spell it out.

import { familyOf, formatAddress, formatCidr, networkOf, parseCidr } from '../../cni/model/address.ts'
import { defined } from '../../cni/model/defined.ts'
import type { NetConf, Range } from '../../cni/model/net-conf.ts'
import type { GatewaySide } from '../ipam/range-overlap.ts'
import { bandwidthSpec } from '../link/bandwidth.ts'
import { podRoutes } from '../link/pod-routes.ts'
import { routedBySource, subnetRoutes } from '../link/sbr.ts'
import { tuningSpec } from '../link/tuning.ts'
import { portVlans, vlanGateway } from '../link/vlan.ts'
import type {
  AttachmentKey,
  AttachmentSpec,
  BridgePort,
  BridgeSpec,
  NetworkSpec,
  PodAddress,
} from '../model/attachment.ts'
import type { Lease } from '../model/lease.ts'
import { bridgeMac, hostLinkMac, hostLinkName, podLinkMac } from '../model/names.ts'
import { acceptOf, mergedAccepts } from '../rules/host-accept.ts'
import { hostPortSpec } from '../rules/host-ports.ts'
import { routedPodRoutes } from './routed-pod.ts'

/** What the machine tells before anything is decided. `mtu` in bytes, already chosen for "auto". */
export interface Surroundings {
  readonly mtu: number
  readonly machineId: string
}

interface AttachmentInput {
  readonly key: AttachmentKey
  readonly conf: NetConf
  readonly lease: Lease
  readonly mtu: number
  /** Routing tables of the pod that are in use; for sbr only. */
  readonly usedTables?: ReadonlySet<number>
}

/** Everything of the attachment, from its configuration and lease. Throws CniError 7 for a routed pod without gateway. */
export function buildSpec(input: AttachmentInput): AttachmentSpec {
  const { key, conf, mtu } = input
  const isRouted = conf.mode === 'ptp'
  const ips = input.lease.ips.map((ip) => withGateway(ip, conf.bridge.isGateway))
  const followsAddress = conf.ipam.kind === 'pool' || conf.ipam.kind === 'static'
  const mac = conf.tuning?.mac ?? conf.mac ?? podLinkMac(key, followsAddress ? ips[0]?.address : undefined)
  const host = { name: hostLinkName(key), mac: hostLinkMac(key) }
  const link = isRouted ? host.name : (vlanGateway(conf.bridge)?.name ?? conf.bridge.name)
  const hostPorts = hostPortSpec(conf, ips, link)
  return {
    key,
    mode: conf.mode,
    mtu,
    host,
    pod: { name: key.ifName, mac, ...(conf.tuning?.mtu === undefined ? {} : { mtu: conf.tuning.mtu }) },
    ...(isRouted ? {} : { port: portOf(conf, mac) }),
    ips,
    ...routesOf(input, ips),
    podLinkDown: conf.bridge.disableContainerInterface,
    dad: conf.bridge.enabledad,
    selfHairpin: isRouted ? wantsHairpin(conf) : (hostPorts?.snat ?? false),
    ...defined({
      dns: conf.dns ?? input.lease.dns,
      hostPorts,
      bandwidth: bandwidthSpec(conf.bandwidth, { key, link: host.name, mtu }),
      tuning: tuningSpec(conf),
      ingressPolicy: isRouted ? ingressPolicyOf(conf) : undefined,
    }),
    isPool: conf.ipam.kind === 'pool',
    cooldownS: conf.ipam.kind === 'pool' ? conf.ipam.cooldownS : 0,
  }
}

/** Where the network's gateways are, by which its ranges are compared with the host's. `ips` as in `buildNetworkSpec`. */
export function gatewaySide(conf: NetConf, ips: readonly PodAddress[]): GatewaySide {
  const { name, mode, bridge } = conf
  if (mode === 'ptp') return { name, ranges: subnetsOf(conf, ips) }
  const addresses = bridge.isGateway ? gatewaysOf(conf, ips) : []
  return { name, bridge: { name: bridge.name, addresses, ...defined({ gateway: vlanGateway(bridge) }) } }
}

/** What the network's attachments share. `ips`: this attachment's, for IPAM that names no subnets. */
export function buildNetworkSpec(conf: NetConf, ips: readonly PodAddress[], surroundings: Surroundings): NetworkSpec {
  const isRouted = conf.mode === 'ptp'
  const gateways = gatewaySide(conf, ips).bridge?.addresses ?? []
  const subnets = subnetsOf(conf, ips)
  return {
    name: conf.name,
    ...(isRouted ? {} : { bridge: bridgeSpec(conf, gateways, surroundings) }),
    forwarding: familiesOf(isRouted ? subnets : gateways),
    ...(conf.ipMasq && subnets.length > 0
      ? { masquerade: { subnets, noMasquerade: unique([...subnets, ...conf.nonMasqueradeCidrs]) } }
      : {}),
    ...(!isRouted && wantsHairpin(conf) && subnets.length > 0 ? { hairpin: subnets } : {}),
    ...(isRouted ? {} : defined({ ingressPolicy: ingressPolicyOf(conf) })),
    ...acceptOf(conf, subnets),
    ...(isRouted && subnets.length > 0 ? { ranges: subnets } : {}),
    removeWhenEmpty: conf.removeWhenEmpty,
  }
}

/**
 * `old` and `now` as one. A network whose IPAM names no subnets learns them pod by pod, and the first
 * pod with host ports brings hairpin for all.
 */
export function mergeNetworks(old: NetworkSpec | undefined, now: NetworkSpec, namesSubnets: boolean): NetworkSpec {
  if (old === undefined) return now
  const { ranges } = now
  const hairpin = now.hairpin ?? old.hairpin
  if (namesSubnets) return { ...now, ...(hairpin && { hairpin }) }
  const addresses = unique([...(old.bridge?.addresses ?? []), ...(now.bridge?.addresses ?? [])])
  const masquerade = now.masquerade && {
    subnets: unique([...(old.masquerade?.subnets ?? []), ...now.masquerade.subnets]),
    noMasquerade: unique([...(old.masquerade?.noMasquerade ?? []), ...now.masquerade.noMasquerade]),
  }
  return {
    ...now,
    ...(now.bridge && { bridge: { ...now.bridge, addresses } }),
    forwarding: [...new Set([...old.forwarding, ...now.forwarding])].sort(),
    ...(masquerade && { masquerade }),
    ...(hairpin && { hairpin: unique([...(old.hairpin ?? []), ...hairpin]) }),
    ...(ranges && { ranges: unique([...(old.ranges ?? []), ...ranges]) }),
    ...mergedAccepts(old, now),
  }
}

function routesOf({ conf, lease, usedTables = new Set() }: AttachmentInput, ips: readonly PodAddress[]) {
  const isRouted = conf.mode === 'ptp'
  const given = podRoutes(lease.routes, ips, conf.bridge.isDefaultGateway)
  const all = isRouted ? routedPodRoutes(ips, given, conf.bridge.enabledad) : given
  const links = isRouted ? [] : ips.flatMap(subnetRoutes)
  return routedBySource(conf.sbr, all, { ips, links, usedTables })
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

function ingressPolicyOf({ firewall }: NetConf): NetworkSpec['ingressPolicy'] {
  return firewall === undefined || firewall.ingressPolicy === 'open' ? undefined : firewall.ingressPolicy
}

/** Wherever packets to the pods may be translated: services where the network masquerades, and host ports. */
function wantsHairpin(conf: NetConf): boolean {
  return (conf.ipMasq || conf.portMappings.length > 0) && conf.portmap?.snat !== false
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

function familiesOf(cidrs: readonly string[]): readonly (4 | 6)[] {
  return [...new Set(cidrs.map(familyOf))].sort()
}

function subnetOf(address: string): string {
  const cidr = parseCidr(address)
  return cidr === undefined ? address : formatCidr(networkOf(cidr))
}

function prefixOf(cidr: string): string {
  return cidr.slice(cidr.indexOf('/') + 1)
}

function unique(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)].sort()
}
