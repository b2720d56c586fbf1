// SPDX-License-Identifier: Apache-2.0
// mode `chained`: each feature whose key or runtimeConfig is there acts on the interface of prevResult. Everything is
// decided before anything is changed; where a feature cannot act on this interface, the call is refused.

import { bareAddress, familyOf, isSubnet, networkText } from '../cni/addresses.ts'
import { CniError, Code } from '../cni/errors.ts'
import { defined } from '../cni/json.ts'
import type { Result } from '../cni/results.ts'
import type { ChainedConf } from '../config/network-conf.ts'
import { bandwidthOf } from '../features/bandwidth.ts'
import { acceptOf } from '../features/firewall.ts'
import { hostPortsOf } from '../features/host-ports.ts'
import { masqueradeOf, singleAddresses } from '../features/masquerade.ts'
import { sbrOf } from '../features/sbr.ts'
import { refuseDisabledIpv6, tuningOfOther } from '../features/tuning.ts'
import type { ObservedLink, Place } from '../kernel/observed.ts'
import { mainTable } from '../kernel/operation.ts'
import { type AttachmentId, emptyNetwork, emptySpec, type NetworkSpec, type PodAddress, type Spec } from './spec.ts'

/** What was seen around the interface. `ways`: the link by which the host reaches an address. */
export interface ChainedSurroundings {
  readonly pod: Place
  readonly host: Place
  readonly ways: ReadonlyMap<string, string>
}

/** Whether there is anything to do but to pass prevResult on. */
export function asksForAnything({ portMappings, bandwidth, tuning, mac, sbr, ipMasq, firewall }: ChainedConf): boolean {
  const hasFeature = [bandwidth, tuning, mac, sbr, firewall?.ingressPolicy].some((feature) => feature !== undefined)
  return hasFeature || portMappings.length > 0 || ipMasq || firewall?.hostAccept === true
}

/**
 * Addresses of prevResult that belong to no other interface: an index beyond `interfaces`, or none, counts; an
 * interface without a sandbox is skipped where one of the same name has one (reference portmap and sbr).
 */
export function chainedAddresses({ interfaces, ips }: Result, dev: string): readonly PodAddress[] {
  const named = interfaces.filter(({ name }) => name === dev)
  const own = named.some(({ sandbox }) => sandbox) ? named.filter(({ sandbox }) => sandbox) : named
  const isElsewhere = (at: number | undefined) => {
    const entry = at === undefined ? undefined : interfaces[at]
    return entry !== undefined && !own.includes(entry)
  }
  return ips
    .filter((ip) => !isElsewhere(ip.interface))
    .map(({ address, gateway }) => ({ address, ...defined({ gateway }) }))
}

/** All decisions about a chained attachment. Throws CniError 4 without the interface, 7 where a feature cannot act. */
export function describeChained(id: AttachmentId, conf: ChainedConf, seen: ChainedSurroundings): Spec {
  const dev = id.ifName
  const link = seen.pod.links.get(dev)
  const prevResult = conf.prevResult ?? { interfaces: [], ips: [], routes: [] }
  if (link === undefined)
    throw new CniError(Code.invalidEnvironment, 'interface-missing', `CNI_IFNAME ${dev} is not in the sandbox`, {
      details: 'a chained plugin acts on the interface that an earlier plugin of the list made',
    })
  const addresses = chainedAddresses(prevResult, dev)
  if (conf.sbr !== undefined && prevResult.ips.length === 0) {
    const hint = 'prevResult has none: give the plugin that makes the interface an "ipam", or leave "sbr" out'
    throw refused('sbr-without-address', `sbr: no IP addresses supplied on interface ${dev}`, hint)
  }
  const hostEnd = hostEndOf(link, seen.host)
  const bridge = hostEnd?.masterKind === 'bridge' ? hostEnd.master : undefined
  const policy = conf.firewall?.ingressPolicy
  if (policy !== undefined) requirePolicyLink(dev, policy, hostEnd, bridge)
  const bandwidth = bandwidthOf(conf.bandwidth, { id, link: hostEnd?.name ?? '', mtu: hostEnd?.mtu ?? link.mtu })
  if (bandwidth !== undefined && hostEnd === undefined) {
    const hint = `${dev} is of kind ${link.kind ?? 'none'}; limits are set on the host's end of a veth, so use them after ptp or bridge, or leave "bandwidth" out`
    throw refused('bandwidth-without-veth', `bandwidth: ${dev} has no veth peer on the host`, hint)
  }
  const way = wayTo(addresses, seen.ways)
  const hostPorts = hostPortsOf(conf, addresses, { link: way ?? '', isOwnLink: way === hostEnd?.name })
  if (hostPorts?.link === '') {
    const list = addresses.map(({ address }) => address).join(', ')
    const message = `runtimeConfig.portMappings: the host has no route to ${list}`
    throw refused(
      'ports-without-route',
      message,
      'host ports are routed on the host: `ip route get ADDRESS` shows the way',
    )
  }
  const isShared = hostPorts?.snat === true && !hostPorts.isOwnLink
  const mac = conf.tuning?.mac ?? conf.mac
  if (conf.tuning !== undefined && addresses.some(({ address }) => familyOf(address) === 6))
    refuseDisabledIpv6(conf.tuning, dev, 'prevResult')
  return {
    ...emptySpec(id, 'chained'),
    network: networkOf(conf, addresses, { bridge, hostEnd, way, isShared }),
    addresses,
    reachesItself: hostPorts?.snat ?? false,
    chained: {
      ...defined({ hostLink: hostEnd?.name, hostIndex: hostEnd?.index }),
      ...(policy === 'isolated' && bridge !== undefined ? { isolatesPort: true } : {}),
    },
    ...defined({
      hostPorts,
      bandwidth,
      masquerade: singleAddresses(conf, addresses),
      // A MAC that the runtime asks for may have been given by the plugin before.
      tuning: tuningOfOther(conf, mac === link.mac ? undefined : mac, link),
      sbr: conf.sbr && sbrOf(conf.sbr, routingOf(addresses, dev, seen.pod)),
      fencedLink: policy !== undefined && bridge === undefined ? hostEnd?.name : undefined,
    }),
  }
}

/** `way`: the link by which the host reaches the pod. `isShared`: host ports come by it, and other pods are on it. */
interface ChainedLinks {
  readonly bridge: string | undefined
  readonly hostEnd: ObservedLink | undefined
  readonly way: string | undefined
  readonly isShared: boolean
}

/** What the chained attachments of a list share, beside what its main ones do. */
function networkOf(
  conf: ChainedConf,
  addresses: readonly PodAddress[],
  { bridge, hostEnd, way, isShared }: ChainedLinks,
): NetworkSpec {
  const ranges = addresses.map(({ address }) => networkText(address)).filter(isSubnet)
  // The gateway of a VLAN, by the name that the reference bridge gives it.
  const isVlanGateway = way?.startsWith(`${bridge}.`) && /^\d+$/.test(way.slice(`${bridge}.`.length))
  const links = bridge === undefined ? [] : isVlanGateway && way !== undefined ? [bridge, way] : [bridge]
  const policy = conf.firewall?.ingressPolicy
  return {
    ...emptyNetwork,
    name: conf.name,
    role: 'chained',
    mode: 'chained',
    ranges,
    allowOverlap: true,
    // On a link that pods share the answer to a neighbour goes straight to it.
    hairpin: isShared ? ranges : [],
    ...(isShared && way !== undefined ? { hairpinLink: way } : {}),
    ...defined({
      masquerade: masqueradeOf(conf, ranges),
      ingressPolicy: policy && links.length > 0 ? { policy, links } : undefined,
      accept: bridge !== undefined || hostEnd !== undefined ? acceptOf(conf, links, ranges) : undefined,
    }),
    removeWhenEmpty: conf.removeWhenEmpty,
  }
}

/** prevResult with the changes: MAC and MTU of the interface, and the ifb. */
export function chainedResult(prevResult: Result, { id, tuning, bandwidth }: Spec): Result {
  const { mac, mtu } = tuning?.settings ?? {}
  const interfaces = prevResult.interfaces.map((entry) =>
    entry.name === id.ifName && entry.sandbox ? { ...entry, ...defined({ mac, mtu }) } : entry,
  )
  const egress = bandwidth?.egress
  const added = egress ? [{ name: egress.ifb, mac: egress.ifbMac, mtu: bandwidth.mtu }] : []
  return { ...prevResult, interfaces: [...interfaces, ...added] }
}

/** The host's end of a veth: each end has the index of the other. */
function hostEndOf(link: ObservedLink, host: Place): ObservedLink | undefined {
  if (link.kind !== 'veth') return undefined
  return [...host.links.values()].find(
    (other) => other.kind === 'veth' && other.index === link.peerIndex && other.peerIndex === link.index,
  )
}

/** 127.0.0.1 needs the link of the IPv4 address. */
function wayTo(addresses: readonly PodAddress[], ways: ReadonlyMap<string, string>): string | undefined {
  const first = addresses.find(({ address }) => familyOf(address) === 4) ?? addresses[0]
  return first && ways.get(bareAddress(first.address))
}

function routingOf(ips: readonly PodAddress[], dev: string, pod: Place) {
  const own = pod.routes.filter((route) => route.table === mainTable && route.dev === dev)
  // Link-local addresses are the interface's own: they are no way to anywhere else.
  const movable = own.filter(({ dst }) => !dst.startsWith('fe80:'))
  const routes = movable.map(({ dev: _, table: _t, ...route }) => route)
  const usedTables = new Set([...pod.routes.map(({ table }) => table), ...(pod.rules ?? []).map(({ table }) => table)])
  return { ips, routes, usedTables }
}

/** By a port of Open vSwitch, or a link in a VRF, packets come in by another link than the master. */
function requirePolicyLink(dev: string, policy: string, hostEnd: ObservedLink | undefined, bridge: string | undefined) {
  const what = `firewall.ingressPolicy: "${policy}"`
  const cure = 'use it after ptp or bridge, or set "ingressPolicy": "open"'
  if (hostEnd === undefined) throw refused('policy-without-veth', `${what} needs a veth, and ${dev} is none`, cure)
  if (bridge !== undefined || hostEnd.master === undefined) return
  const hint = `packets of the pod come in by another link than its master (ip -d link show dev ${hostEnd.name}); use policies of the plugin that made it`
  throw refused('policy-without-veth', `${what}: ${hostEnd.name} is on no Linux bridge`, hint)
}

function refused(id: string, message: string, details: string): CniError {
  return new CniError(Code.invalidConfig, id, message, { details })
}
