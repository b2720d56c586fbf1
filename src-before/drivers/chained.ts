// SPDX-License-Identifier: Apache-2.0
// mode `chained`: what the configuration asks for, on the interface of prevResult (docs/design.md, "Attachments").
// Decided before anything is changed; where a feature cannot act on this interface, the call is refused.

import { bareAddress, familyOf, isSubnet } from '../cni/address.ts'
import { CniError } from '../cni/error.ts'
import { defined } from '../cni/json.ts'
import type { Result, ResultInterface } from '../cni/result.ts'
import type { ChainedNetConf } from '../config/net-conf.ts'
import { bandwidthSpec } from '../features/bandwidth.ts'
import { featureOps } from '../features/features.ts'
import { acceptChained, acceptedOf, ingressPolicyOf, wantsAccept } from '../features/firewall.ts'
import { hostPortSpec } from '../features/host-ports.ts'
import { chainedMasquerade, hostMasquerade } from '../features/masquerade.ts'
import { sbrSpec, tablesInUse } from '../features/sbr.ts'
import { chainedTuningSpec } from '../features/tuning.ts'
import type {
  AttachmentKey,
  AttachmentSpec,
  BandwidthSpec,
  ChainedSpec,
  HostPortSpec,
  NetworkSpec,
  PodAddress,
  PodRoute,
} from '../model/attachment.ts'
import type { ObservedLink, ObservedNamespace } from '../model/observed.ts'
import { mainTable, type Op } from '../model/op.ts'
import type { Driver } from './driver.ts'
import { announce } from './interface.ts'
import { subnetsOf } from './subnets.ts'

/** The kernel's links around the interface. `hostLinks`: the link by which the host reaches an address. */
export interface ChainedSurroundings {
  readonly pod: ObservedNamespace
  readonly host: ObservedNamespace
  readonly hostLinks: ReadonlyMap<string, string>
}

/**
 * Whether there is anything to do but to pass prevResult on. `known`: the network from state; the next ADD takes away a
 * policy or masquerade that the configuration no longer has.
 */
export function asksForAnything(conf: ChainedNetConf, known: NetworkSpec | undefined): boolean {
  const { portMappings, bandwidth, tuning, mac, sbr, ipMasq } = conf
  const features = [bandwidth, tuning, mac, sbr].some((feature) => feature !== undefined)
  const isOver = known !== undefined && (known.ingressPolicy ?? known.masquerade ?? acceptedOf(known)[0]) !== undefined
  return (
    portMappings.length > 0 || features || ipMasq || ingressPolicyOf(conf) !== undefined || wantsAccept(conf) || isOver
  )
}

/** Of an entry that asks for nothing, so that its DEL knows that there is nothing to look for. */
export function emptySpec(key: AttachmentKey): AttachmentSpec {
  return { ...bare, key, mtu: 0, ips: [], selfHairpin: false, chained: { dev: key.ifName } }
}

const bare = {
  mode: 'chained',
  routes: [],
  defaultRoutes: [],
  podLinkDown: true,
  dad: false,
  isPool: false,
  cooldownS: 0,
} as const

/**
 * Addresses of prevResult that belong to no other interface (docs/design.md, "Upstream portmap"). A link of the host
 * may have the name of the pod's, which a plugin may name without its sandbox (upstream sbr asks for the name alone).
 */
export function addressesOf({ interfaces, ips }: Result, dev: string): readonly PodAddress[] {
  const named = interfaces.filter((entry) => entry.name === dev)
  const own = named.some((entry) => entry.sandbox) ? named.filter((entry) => entry.sandbox) : named
  const isElsewhere = (at: number | undefined) => {
    const entry = at === undefined ? undefined : interfaces[at]
    return entry !== undefined && !own.includes(entry)
  }
  return ips
    .filter((ip) => !isElsewhere(ip.interface))
    .map(({ address, gateway }) => (gateway === undefined ? { address } : { address, gateway }))
}

/** Names of the host's interfaces in prevResult, or undefined where it names none. */
export function hostLinksOf(prevResult: Result): readonly string[] | undefined {
  const names = prevResult.interfaces.filter((entry) => !entry.sandbox).map((entry) => entry.name)
  return names.length === 0 ? undefined : names
}

/**
 * Everything of the attachment. Throws CniError 4 when the interface is not in the sandbox, 7 when a feature cannot
 * act on it: `bandwidth` without a veth, an ingressPolicy without a link on the host, host ports without a route, `sbr`
 * where nobody has an address.
 */
export function chainedSpec(input: {
  readonly key: AttachmentKey
  readonly conf: ChainedNetConf
  readonly prevResult: Result
  readonly seen: ChainedSurroundings
}): AttachmentSpec {
  const { key, conf, prevResult, seen } = input
  const dev = key.ifName
  const link = seen.pod.links.get(dev)
  if (link === undefined) throw noInterface(dev)
  const ips = addressesOf(prevResult, dev)
  if (conf.sbr !== undefined && prevResult.ips.length === 0) throw noAddresses(dev)
  const host = hostEndOf(link, seen.host)
  const hostPorts = hostPortsOf(conf, ips, seen.hostLinks)
  const bandwidth = limitsOf(conf, { key, link, host })
  const masquerade = hostMasquerade(conf, ips)
  return {
    ...bare,
    key,
    mtu: link.mtu,
    ips,
    selfHairpin: hostPorts?.snat ?? false,
    ...defined({ hostPorts, masquerade, bandwidth, tuning: chainedTuningSpec(conf, macOf(conf, link), link) }),
    ...(conf.sbr === undefined ? {} : { sbr: sbrOf(conf.sbr, ips, { dev, pod: seen.pod }) }),
    chained: actsOn(dev, host, ingressPolicyOf(conf)),
  }
}

function limitsOf(
  conf: ChainedNetConf,
  on: { key: AttachmentKey; link: ObservedLink; host: ObservedLink | undefined },
): BandwidthSpec | undefined {
  const { key, link, host } = on
  const limits = bandwidthSpec(conf.bandwidth, { key, link: host?.name ?? '', mtu: host?.mtu ?? link.mtu })
  if (limits !== undefined && host === undefined) throw noVeth(key.ifName, link)
  return limits
}

function hostPortsOf(
  conf: ChainedNetConf,
  ips: readonly PodAddress[],
  hostLinks: ReadonlyMap<string, string>,
): HostPortSpec | undefined {
  const hostPorts = hostPortSpec(conf, ips, hostLinkTo(ips, hostLinks) ?? '')
  if (hostPorts?.link === '') throw noRoute(ips)
  return hostPorts
}

function actsOn(dev: string, host: ObservedLink | undefined, policy: NetworkSpec['ingressPolicy']): ChainedSpec {
  if (policy !== undefined && host === undefined) throw policyWithoutVeth(dev, policy)
  const isBridged = bridgeOf(host) !== undefined
  if (policy !== undefined && !isBridged && host?.master !== undefined) throw policyOnPort(host.name, policy)
  return {
    dev,
    ...(host === undefined ? {} : { hostLink: host.name, hostIndex: host.index }),
    ...(policy === 'isolated' && isBridged ? { isolated: true } : {}),
    ...(policy === undefined || isBridged ? {} : { ingressPolicy: policy }),
  }
}

/**
 * The shared part of a network's chained attachments. Its name is no network's own, so that it lives beside the shared
 * part of main attachments of the same list.
 */
export function chainedNetwork(
  conf: ChainedNetConf,
  spec: AttachmentSpec,
  { host, hostLinks }: ChainedSurroundings,
): NetworkSpec {
  const hostLink = spec.chained?.hostLink
  const bridge = bridgeOf(host.links.get(hostLink ?? ''))
  const subnets = subnetsOf(conf, spec.ips)
  const masquerade = chainedMasquerade(conf, subnets)
  // On a link that pods share the answer to a neighbour goes straight to it, whatever the link is.
  const isShared = spec.hostPorts?.snat && spec.hostPorts.link !== hostLink
  const hairpin = isShared ? subnets.filter(isSubnet) : []
  const way = hostLinkTo(spec.ips, hostLinks)
  const gatewayLink = conf.firewall && bridge !== undefined && isVlanOf(bridge, way) ? way : undefined
  const policy = ingressPolicyOf(conf)
  const ingressPolicy =
    bridge === undefined || policy === undefined ? {} : { ingressPolicy: policy, ingressPolicyLink: bridge }
  return {
    name: `${conf.name}/chained`,
    forwarding: [],
    ...defined({ masquerade, gatewayLink }),
    ...(hairpin.length > 0 ? { hairpin } : {}),
    ...acceptChained(conf, { bridge, hostLink }, subnets),
    ...ingressPolicy,
    removeWhenEmpty: conf.removeWhenEmpty,
  }
}

/** Of a port of Open vSwitch, or a link in a VRF, packets of the pod come in by another link than the master. */
function bridgeOf(link: ObservedLink | undefined): string | undefined {
  return link?.masterKind === 'bridge' ? link.master : undefined
}

/** Whether the link has the gateway of a VLAN of the bridge, by the name that the upstream bridge gives it. */
function isVlanOf(bridge: string, link = ''): boolean {
  return link.startsWith(`${bridge}.`) && /^\d+$/.test(link.slice(bridge.length + 1))
}

/** prevResult with the changes: MAC and MTU of the interface, and the ifb. */
export function chainedResult(prevResult: Result, { chained, tuning, bandwidth }: AttachmentSpec): Result {
  const { mac, mtu } = tuning ?? {}
  const changes = defined({ mac, mtu })
  const isTuned = (entry: ResultInterface) => entry.name === chained?.dev && entry.sandbox
  const interfaces = prevResult.interfaces.map((entry) => (isTuned(entry) ? { ...entry, ...changes } : entry))
  const egress = bandwidth?.egress
  const added = egress ? [{ name: egress.ifb, mac: egress.ifbMac, mtu: bandwidth.mtu }] : []
  return { ...prevResult, interfaces: [...interfaces, ...added] }
}

/** The host's end of a veth: each end names the index of the other end. */
function hostEndOf(link: ObservedLink, host: ObservedNamespace): ObservedLink | undefined {
  if (link.kind !== 'veth') return undefined
  return [...host.links.values()].find(
    (other) => other.kind === 'veth' && other.index === link.peerIndex && other.peerIndex === link.index,
  )
}

/** 127.0.0.1 needs the link of the IPv4 address; IPv6 has no such translation. */
function hostLinkTo(ips: readonly PodAddress[], hostLinks: ReadonlyMap<string, string>): string | undefined {
  const first = ips.find(({ address }) => familyOf(address) === 4) ?? ips[0]
  return first && hostLinks.get(bareAddress(first.address))
}

/** A MAC that the runtime asks for may have been given by the plugin before. */
function macOf(conf: ChainedNetConf, link: ObservedLink): string | undefined {
  const mac = conf.tuning?.mac ?? conf.mac
  return mac === link.mac ? undefined : mac
}

function sbrOf(
  conf: NonNullable<ChainedNetConf['sbr']>,
  ips: readonly PodAddress[],
  on: { dev: string; pod: ObservedNamespace },
) {
  const routes = (on.pod.routes.get(mainTable) ?? []).filter((route) => route.dev === on.dev).map(withoutDev)
  // Link-local addresses are the interface's own: they are no way to anywhere else.
  const movable = routes.filter((route) => !route.dst.startsWith('fe80:'))
  return sbrSpec({ conf, ips, routes: movable, usedTables: tablesInUse(on.pod) })
}

function withoutDev({ dev: _dev, ...route }: PodRoute & { readonly dev?: string }): PodRoute {
  return route
}

function noInterface(dev: string): CniError {
  return new CniError('interface-missing', `CNI_IFNAME ${dev} is not in the sandbox`, {
    details: 'a chained plugin acts on the interface that an earlier plugin of the list made',
  })
}

function noAddresses(dev: string): CniError {
  return new CniError('sbr-without-address', `sbr: no IP addresses supplied on interface ${dev}`, {
    details: 'prevResult has none: give the plugin that makes the interface an "ipam", or leave "sbr" out',
  })
}

function noVeth(dev: string, link: ObservedLink): CniError {
  return new CniError('bandwidth-without-veth', `bandwidth: ${dev} has no veth peer on the host`, {
    details:
      `${dev} is of kind ${link.kind ?? 'none'}; limits are set on the host's end of a veth, so use them after ptp ` +
      'or bridge, or leave "bandwidth" out',
  })
}

function policyWithoutVeth(dev: string, policy: string): CniError {
  return new CniError('policy-without-veth', `firewall.ingressPolicy: "${policy}" needs a veth, and ${dev} is none`, {
    details: 'use it after ptp or bridge, or set "ingressPolicy": "open"',
  })
}

function policyOnPort(link: string, policy: string): CniError {
  return new CniError('policy-without-veth', `firewall.ingressPolicy: "${policy}": ${link} is on no Linux bridge`, {
    details:
      `packets of the pod come in by another link than its master (ip -d link show dev ${link}); use policies of the ` +
      'plugin that made it, or "ingressPolicy": "open"',
  })
}

function noRoute(ips: readonly PodAddress[]): CniError {
  const addresses = ips.map(({ address }) => address).join(', ')
  return new CniError('ports-without-route', `runtimeConfig.portMappings: the host has no route to ${addresses}`, {
    details:
      'host ports are translated on the host and routed from there to the pod: `ip route get ADDRESS` shows the way',
  })
}

function podOps(spec: AttachmentSpec): readonly Op[] {
  const { tuning, chained: on } = spec
  if (on === undefined) return []
  return [
    ...featureOps('podLinkOps', spec),
    ...(tuning?.mac === undefined ? [] : spec.ips.flatMap(({ address }) => announce(address, on.dev))),
    ...featureOps('podRouteOps', spec),
  ]
}

export const chained: Driver = { isRouted: false, podOps }
