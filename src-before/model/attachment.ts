// SPDX-License-Identifier: Apache-2.0
// What trestle makes for one attachment and for one network, decided completely: nothing in here has to be looked up
// again to build it, to check it, to restore it or to take it down (docs/design.md, "Attachments"). Each type is read
// off its shape on disk.

import type { Dns, Route } from '../cni/result.ts'
import {
  believed,
  encodeFile,
  type FieldsOf,
  flag,
  format,
  isSameAsKnown,
  isTrue,
  listOf,
  number,
  type Of,
  object,
  only,
  optional,
  optionalFlag,
  optionalNumber,
  optionalText,
  optionalTexts,
  parsedFile,
  text,
  textMap,
  texts,
  withUnknown,
  wordOf,
} from './kinds.ts'

/** What this call's attachment is. `ipam`: another plugin delegated to us (docs/design.md, "Attachments"). */
export type Role = 'main' | 'chained' | 'ipam'

/** How the pod is connected (docs/design.md, "Attachments"). */
export type Mode = 'bridge' | 'ptp' | 'macvlan' | 'host-device' | 'loopback' | 'chained'

/** Who an attachment is: the key of everything we own (docs/design.md, "Attachments"). */
export type AttachmentKey = Of<typeof attachmentKey>
export const attachmentKey = object({ network: text, containerId: text, ifName: text, role: wordOf<Role>() })

const family = only<4 | 6>((value) => value === 4 || value === 6)
const policy = optional(wordOf<'same-bridge' | 'isolated'>())

/** One address of the pod. `address` is a CIDR with the host part kept. */
export type PodAddress = Of<typeof podAddress>
const podAddress = object({ address: text, gateway: optionalText })

/** One end of the veth pair. `mac` in lower case with colons. `mtu` where it is not the attachment's. */
export type LinkEnd = Of<typeof linkEnd>
const linkEnd = object({ name: text, mac: text, mtu: optionalNumber })

/** VLANs of a port: `access` untagged, `trunk` tagged; the bridge's default VLAN 1 goes unless kept. */
export type PortVlans = Of<typeof portVlans>
const portVlans = object({ access: number, trunk: listOf(number), keepDefault: flag })

/** The veth's end on a bridge. `onlyMac`: the only MAC that may come in by this port (macspoofchk). */
export type BridgePort = Of<typeof bridgePort>
const bridgePort = object({
  bridge: text,
  hairpin: flag,
  isolated: flag,
  vlans: optional(portVlans),
  onlyMac: optionalText,
})

/** A host port of the pod. `hostIp` absent: every address of the node of that family. */
export type HostPort = Of<typeof hostPort>
const hostPort = object({
  family,
  protocol: wordOf<'tcp' | 'udp' | 'sctp'>(),
  hostIp: optionalText,
  hostPort: number,
  podIp: text,
  containerPort: number,
})

/**
 * The pod's host ports. `link`: what packets to the pod leave the host by; `snat`, `masqAll` as the upstream portmap;
 * `conditions`: matches that a packet must pass to be translated (port-conditions.ts).
 */
export type HostPortSpec = Of<typeof hostPorts>
const hostPorts = object({
  link: text,
  snat: flag,
  masqAll: flag,
  conditionsV4: optionalTexts,
  conditionsV6: optionalTexts,
  ports: listOf(hostPort),
})

const bucket = { rateBits: number, burstBytes: number }

export type Shaper = Of<typeof shaper>
const shaper = object(bucket)

/** Limits of the pod's traffic, seen from the pod. `link`: the host end; without `ifbAlias` the ifb was made without. */
export type BandwidthSpec = Of<typeof bandwidth>
const bandwidth = object({
  link: text,
  mtu: number,
  ingress: optional(shaper),
  egress: optional(object({ ...bucket, ifb: text, ifbMac: text, ifbAlias: optionalText })),
})

/** Settings of a link as the upstream tuning plugin knows them. */
export type LinkSettings = Of<typeof linkSettings>
const linkSettings = object({
  mac: optionalText,
  mtu: optionalNumber,
  promisc: optionalFlag,
  allmulti: optionalFlag,
  txQLen: optionalNumber,
})

/** Settings of the pod's interface and namespace. Sysctl keys are paths below /proc/sys. */
export type TuningSpec = Of<typeof tuning>
const tuning = object({
  sysctl: textMap,
  promisc: flag,
  txQLen: optionalNumber,
  allmulti: optionalFlag,
  // Of an interface that is not ours; ours is made with them.
  mac: optionalText,
  mtu: optionalNumber,
  // What the settings above were before, of an interface that is not ours: DEL puts it back.
  before: optional(linkSettings),
})

const routeFields = {
  dst: text,
  gw: optionalText,
  mtu: optionalNumber,
  advmss: optionalNumber,
  priority: optionalNumber,
  table: optionalNumber,
  scope: optionalNumber,
} satisfies FieldsOf<Route>

/** A route of the pod; `src`, `onlink` and `protocol` as in ip-route(8). `protocol` absent: boot. */
export type PodRoute = Of<typeof podRoute>
const podRoute = object({ ...routeFields, src: optionalText, onlink: optional(isTrue), protocol: optionalText })

/** Source-based routing, a rule and a table for each address. `from`: a host CIDR. */
export type SbrSpec = Of<typeof sbr>
const sbr = object({
  sources: listOf(object({ from: text, table: number, routes: listOf(podRoute) })),
  // Routes that were taken out of the main table (chained).
  moved: listOf(podRoute),
})

/**
 * What a chained attachment acts on. `dev`: in the pod; `hostLink`: the other end, where it is a veth. `hostIndex`: its
 * ifindex, since plugins that name it after the pod give its name to the pod's next sandbox.
 */
export type ChainedSpec = Of<typeof chained>
const chained = object({
  dev: text,
  hostLink: optionalText,
  hostIndex: optionalNumber,
  // The bridge port was isolated by us.
  isolated: optional(isTrue),
  // Of a link that is on no bridge.
  ingressPolicy: policy,
})

export type MacvlanSpec = Of<typeof macvlan>
const macvlan = object({ master: text, mode: wordOf<'bridge' | 'private' | 'vepa' | 'passthru'>() })

/**
 * A link of the host that is the pod's interface, as it was before. `asked`: the value by which the configuration named
 * it. `driver`: of a device for a program in the pod, which is no link.
 */
export type DeviceSpec = Of<typeof device>
const device = object({
  name: text,
  asked: text,
  mac: text,
  mtu: number,
  up: flag,
  kind: optionalText,
  alias: optionalText,
  driver: optionalText,
})

const dns = object({
  nameservers: optionalTexts,
  domain: optionalText,
  search: optionalTexts,
  options: optionalTexts,
} satisfies FieldsOf<Dns>)

/** Everything of one attachment. `mtu` in bytes. */
export type AttachmentSpec = Of<typeof attachment>
export const attachment = object({
  key: attachmentKey,
  mode: wordOf<Mode>(),
  mtu: number,
  host: optional(linkEnd),
  pod: optional(linkEnd),
  port: optional(bridgePort),
  ips: listOf(podAddress),
  routes: listOf(podRoute),
  // Default routes that are added only where the pod has none of that family yet.
  defaultRoutes: listOf(podRoute),
  // Leave the pod's end down and without addresses (disableContainerInterface).
  podLinkDown: flag,
  // IPv6 duplicate address detection stays on (enabledad).
  dad: flag,
  dns: believed(dns),
  // Masquerade what the pod sends to itself through a translation.
  selfHairpin: flag,
  // ingressPolicy of a routed pod's own link; that of a bridge is the network's.
  ingressPolicy: policy,
  hostPorts: optional(hostPorts),
  // Addresses without a subnet that are masqueraded (chained), and destinations that never are.
  masquerade: optional(object({ addresses: texts, noMasquerade: texts })),
  bandwidth: optional(bandwidth),
  tuning: optional(tuning),
  sbr: optional(sbr),
  chained: optional(chained),
  macvlan: optional(macvlan),
  device: optional(device),
  // The addresses are reserved in our own pool.
  isPool: flag,
  // Seconds before an address of this attachment may be given out again.
  cooldownS: number,
})

/** A veth of the host with its other end in the bridge on one VLAN, as upstream makes it. */
export type VlanGateway = Of<typeof vlanGateway>
const vlanGateway = object({ name: text, mac: text, peer: text, vlan: number })

/** The bridge of a network. `addresses`: gateway CIDRs on it. */
export type BridgeSpec = Of<typeof bridge>
const bridge = object({
  name: text,
  mac: text,
  mtu: number,
  addresses: texts,
  forceAddress: flag,
  promisc: flag,
  vlanFiltering: flag,
  // The link that has the gateway addresses, where it is not the bridge: the gateway is on a VLAN.
  gateway: optional(vlanGateway),
})

/** `bridge`: the bridge's name, or that of its link in a VLAN. */
export type FormerGateway = Of<typeof formerGateway>
const formerGateway = object({ bridge: text, address: text })

const newConnections = object({ to: texts, from: texts })

/** What the attachments of one network share. Canonical, so that equal specs are equal as JSON text. */
export type NetworkSpec = Of<typeof network>
export const network = object({
  name: text,
  bridge: optional(bridge),
  // Families to forward.
  forwarding: listOf(family),
  // Source subnets that are masqueraded, and destinations that never are.
  masquerade: optional(object({ subnets: texts, noMasquerade: texts })),
  // Subnets of one bridge: what is translated and routed back to it, from one of them to another, is masqueraded.
  hairpin: optionalTexts,
  // ingressPolicy of the bridge, where it is not open, and the bridge, where that is not ours.
  ingressPolicy: policy,
  ingressPolicyLink: optionalText,
  // The link by which the host routes to pods of a bridge that is not ours, where their gateway is on a VLAN.
  gatewayLink: optionalText,
  // The bridge whose packets other firewalls are to let pass, or the subnets of routed pods, which have no bridge.
  hostAccept: optionalText,
  acceptSubnets: optionalTexts,
  // The gateways of routed pods, with their ranges' prefix length. Those of a bridge are its addresses.
  ranges: optionalTexts,
  // Addresses in the ranges that others have (range-overlap.ts), as the setup found them: no pod gets one.
  excluded: optionalTexts,
  // Gateways of earlier ranges that trestle put on bridges, and that are still there.
  formerGateways: optional(listOf(formerGateway)),
  // New connections to the pods' subnets `to`, from those and from `from`.
  acceptNew: optional(
    only<Of<typeof newConnections> | 'none'>((value) => value === 'none' || newConnections.accepts(value)),
  ),
  // The bit of the packet mark, where the configuration names one.
  acceptMarkBit: optional(
    only<number>((value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 31),
  ),
  // firewalld's zone for bridge or subnets, where it is not `trusted`.
  firewalldZone: optionalText,
  removeWhenEmpty: flag,
})

/** The text of network.json or chained.json. `before`: the text that it takes the place of. */
export function encodeNetwork(spec: NetworkSpec, before = ''): string {
  const { found, parts } = parsedFile(before)
  return encodeFile(found === format ? withUnknown(network, parts, spec) : spec)
}

/** Whether two networks are the same, but for what only another release knows of them. */
export function isSameNetwork(a: NetworkSpec | undefined, b: NetworkSpec | undefined): boolean {
  return isSameAsKnown(network, a, b)
}

// What IPAM answers, whoever did it: the abbreviated result of CNI spec 1.1.0, section 5.

/** Addresses for one attachment. `address` is a CIDR, host part kept. */
export interface Lease {
  readonly ips: readonly PodAddress[]
  readonly routes: readonly Route[]
  readonly dns?: Dns
}

/** The lease of a network without IPAM: layer 2 only. */
export const noLease: Lease = { ips: [], routes: [] }
