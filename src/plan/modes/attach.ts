// SPDX-License-Identifier: Apache-2.0
// The operations that make one attachment, in order. ADD runs them without looking; CHECK and
// repair compare them with the kernel (difference.ts).

import { bareAddress, familyOf } from '../../cni/model/address.ts'
import type { Route } from '../../cni/model/route.ts'
import { ifbOps, queueOps } from '../link/bandwidth.ts'
import { sbrOps, sbrTeardownOps } from '../link/sbr.ts'
import { tunedLinkOps, tunedSysctlOps, untunedLinkOps } from '../link/tuning.ts'
import { portVlanOps } from '../link/vlan.ts'
import type { AttachmentSpec, BridgePort, LinkEnd, PodRoute } from '../model/attachment.ts'
import { type Element, elementOps } from '../model/elements.ts'
import { aliasOf } from '../model/names.ts'
import type { Op } from '../model/op.ts'
import { hairpinLink, selfHairpinElements } from '../rules/hairpin.ts'
import { commonPortElements, localnetOps, ownPortElements } from '../rules/host-ports.ts'
import { isolateLink } from '../rules/isolation.ts'
import { conditionOps } from '../rules/port-conditions.ts'
import { chainedHostOps, chainedHostTeardownOps, chainedPodOps } from './chained-ops.ts'
import { ignoreRouters } from './network.ts'
import { routedHostOps } from './routed-pod.ts'

/** The host's side: the veth pair and its bridge port. */
export function hostOps(spec: AttachmentSpec): readonly Op[] {
  if (spec.chained) return chainedHostOps(spec, spec.chained)
  const { host, pod } = spec
  if (host === undefined || pod === undefined) return []
  return [
    {
      in: 'host',
      kind: 'veth.add',
      name: host.name,
      mac: host.mac,
      mtu: spec.mtu,
      peer: pod.name,
      peerMac: pod.mac,
      peerMtu: pod.mtu ?? spec.mtu,
      ...(spec.port ? { master: spec.port.bridge } : {}),
      why: `create ${pod.name} in the pod with ${host.name} on the host`,
    },
    markOp(spec, host),
    ...(spec.port
      ? [portFlags(host, spec.port), ...(spec.port.vlans ? portVlanOps(host.name, spec.port.vlans) : [])]
      : []),
    ...(spec.mode === 'ptp' ? routedHostOps(spec, host) : []),
    ...(spec.bandwidth ? ifbOps(spec.bandwidth) : []),
  ]
}

/** What of hostOps the addresses tell: for an interface that was made before them (delegated IPAM). */
export function leasedHostOps(spec: AttachmentSpec): readonly Op[] {
  const { host } = spec
  return host === undefined || spec.mode !== 'ptp' ? [] : [markOp(spec, host), ...routedHostOps(spec, host)]
}

/** What runs beside the pod's side once the links are there. */
export function queueingOps(spec: AttachmentSpec): readonly Op[] {
  return spec.bandwidth ? queueOps(spec.bandwidth) : []
}

/** A port that lost its bridge, put back. */
export function portOps(spec: AttachmentSpec): readonly Op[] {
  if (spec.host === undefined || spec.port === undefined) return []
  const { bridge } = spec.port
  return [
    {
      in: 'host',
      kind: 'port.master',
      dev: spec.host.name,
      master: bridge,
      why: `plug ${spec.host.name} into ${bridge}`,
    },
    portFlags(spec.host, spec.port),
    ...(spec.port.vlans ? portVlanOps(spec.host.name, spec.port.vlans) : []),
  ]
}

/**
 * The pod's side. Default routes come last, each alone: where the pod has one already, the rest is
 * in place. The look at what default routes there were comes first, before ours can be among them.
 */
export function podOps(spec: AttachmentSpec): readonly Op[] {
  if (spec.chained) return chainedPodOps(spec, spec.chained)
  const { pod } = spec
  if (pod === undefined || spec.podLinkDown) return []
  const dev = pod.name
  return [
    { in: 'pod', kind: 'link.up', dev: 'lo', why: 'set lo up in the pod' },
    ...spec.defaultRoutes.filter(isFirst).map((route): Op => showDefault(route)),
    ...spec.ips.map((ip): Op => podAddress(ip.address, spec, dev)),
    ...(spec.tuning ? tunedLinkOps(spec.tuning, dev) : []),
    { in: 'pod', kind: 'link.up', dev, why: `set ${dev} up in the pod` },
    ...spec.routes.map((route): Op => routeOp(route, dev)),
    ...spec.ips.flatMap((ip): readonly Op[] => announce(ip.address, dev)),
    ...spec.defaultRoutes.map((route, at, all): Op => defaultRouteOp(route, dev, isFirst(route, at, all))),
    ...(spec.sbr ? sbrOps(spec.sbr, dev) : []),
  ]
}

/** Sysctls of the pod: after its links, which they may name. */
export function podSysctlOps(spec: AttachmentSpec): readonly Op[] {
  return spec.tuning ? tunedSysctlOps(spec.tuning) : []
}

/** The pod's own elements of our rules, and those its link shares with other pods. */
export function attachmentRuleOps(spec: AttachmentSpec): readonly Op[] {
  const chains = spec.hostPorts === undefined ? [] : conditionOps(spec.hostPorts)
  return [...chains, ...elementOps([...(isLinkOwn(spec) ? [] : commonLinkElements(spec)), ...ownElements(spec)])]
}

/** Kernel settings of the host's links: some may only follow the rules which guard them. */
export function afterRuleOps(spec: AttachmentSpec): readonly Op[] {
  const { host, hostPorts } = spec
  return [...(host ? [ignoreRouters(host.name)] : []), ...(hostPorts ? localnetOps(hostPorts) : [])]
}

/**
 * The operations that leave nothing of the attachment: what is in the pod goes with the host end.
 * Two links go as one group, since the kernel then waits once, not twice. `group` must be the caller's alone.
 */
export function teardownOps(spec: AttachmentSpec, group: number): readonly Op[] {
  const { host, bandwidth } = spec
  const devs = [host?.name, bandwidth?.egress?.ifb].filter((dev) => dev !== undefined)
  const unchained = spec.chained ? chainedHostTeardownOps(spec, spec.chained) : []
  return [...unchained, ...removeLinks(devs, group), ...elementOps(ownElements(spec), 'nft.del')]
}

/** What is in the pod and does not go with an interface of ours: for a namespace that is still there. */
export function podTeardownOps(spec: AttachmentSpec): readonly Op[] {
  const dev = spec.chained?.dev ?? spec.pod?.name
  if (dev === undefined) return []
  return [
    ...(spec.sbr ? sbrTeardownOps(spec.sbr, dev, spec.chained === undefined) : []),
    ...(spec.tuning ? untunedLinkOps(spec.tuning, dev) : []),
  ]
}

/** Takes this attachment's own elements out of our rules. */
export function ownRuleRemovals(spec: AttachmentSpec): readonly Op[] {
  return elementOps(ownElements(spec), 'nft.del')
}

/** The elements of this attachment alone. A routed pod's link is its own, a bridge is not. */
function ownElements(spec: AttachmentSpec): readonly Element[] {
  const { host, port } = spec
  const macCheck: readonly Element[] =
    host === undefined || port?.onlyMac === undefined
      ? []
      : [
          { set: 'macCheckLinks', key: [host.name] },
          { set: 'macCheckPairs', key: [host.name, port.onlyMac] },
        ]
  const ports = spec.hostPorts === undefined ? [] : ownPortElements(spec.hostPorts)
  const ownLink = spec.chained === undefined ? host?.name : spec.chained.hostLink
  const policy = spec.chained?.ingressPolicy ?? spec.ingressPolicy
  const isolation = ownLink === undefined || policy === undefined ? [] : isolateLink(ownLink, policy)
  return [
    ...macCheck,
    ...ports,
    ...selfHairpinElements(spec),
    ...(isLinkOwn(spec) ? guardElements(spec) : []),
    ...isolation,
  ]
}

/** Whether what packets to the pod leave by is the pod's alone. */
function isLinkOwn({ mode, hostPorts, chained }: AttachmentSpec): boolean {
  return mode === 'ptp' || (hostPorts !== undefined && hostPorts.link === chained?.hostLink)
}

function guardElements({ hostPorts }: AttachmentSpec): readonly Element[] {
  return hostPorts === undefined ? [] : commonPortElements(hostPorts)
}

/** A chained attachment's network has no bridge of its own: the way to the pods is what they share. */
function commonLinkElements(spec: AttachmentSpec): readonly Element[] {
  const { hostPorts } = spec
  return [...guardElements(spec), ...(hostPorts?.snat ? [hairpinLink(hostPorts.link)] : [])]
}

function removeLinks(devs: readonly string[], group: number): readonly Op[] {
  const [first] = devs
  if (first === undefined) return []
  if (devs.length === 1) return [{ in: 'host', kind: 'link.del', dev: first, why: `remove ${first}` }]
  return [
    ...devs.map((dev): Op => ({ in: 'host', kind: 'link.group', dev, group, why: `collect ${dev} for removal` })),
    { in: 'host', kind: 'group.del', group, why: `remove ${devs.join(' and ')}` },
  ]
}

function markOp(spec: AttachmentSpec, { name }: LinkEnd): Op {
  const noLinkLocal = hasIpv6(spec)
  return {
    in: 'host',
    kind: 'link.alias',
    dev: name,
    alias: aliasOf(spec.key),
    noLinkLocal,
    why: `mark ${name} as ours`,
  }
}

function hasIpv6(spec: AttachmentSpec): boolean {
  return spec.ips.some(({ address }) => familyOf(address) === 6)
}

function podAddress(cidr: string, spec: AttachmentSpec, dev: string): Op {
  const hasOwnTable = spec.sbr?.sources.some((source) => source.routes.length > 0)
  const routed = spec.mode === 'ptp' || hasOwnTable ? ({ noPrefixRoute: true } as const) : {}
  return { in: 'pod', kind: 'addr.replace', dev, cidr, dad: spec.dad, ...routed, why: `add ${cidr} to ${dev}` }
}

function portFlags(host: LinkEnd, port: BridgePort): Op {
  const { hairpin, isolated } = port
  return {
    in: 'host',
    kind: 'port.flags',
    dev: host.name,
    hairpin,
    isolated,
    why: `set hairpin and isolation of ${host.name}`,
  }
}

function showDefault(route: Route): Op {
  const family = familyOf(route.dst)
  return { in: 'pod', kind: 'route.show-default', family, why: `see the pod's IPv${family} default routes` }
}

function routeOp(route: PodRoute, dev: string): Extract<Op, { kind: 'route.add' }> {
  const via = route.gw === undefined ? '' : ` via ${route.gw}`
  return { in: 'pod', kind: 'route.add', dev, route, onlyIfNone: false, why: `add the route to ${route.dst}${via}` }
}

function defaultRouteOp(route: PodRoute, dev: string, isFirstOfFamily: boolean): Op {
  return { ...routeOp(route, dev), onlyIfNone: true, ...(isFirstOfFamily ? {} : { beside: true }) }
}

function isFirst(route: PodRoute, at: number, all: readonly PodRoute[]): boolean {
  return all.findIndex(({ dst }) => dst === route.dst) === at
}

function announce(cidr: string, dev: string): readonly Op[] {
  // IPv6 neighbours: the gateway learns from the pod's first solicitation, and the MAC follows the address.
  if (familyOf(cidr) === 6) return []
  const address = bareAddress(cidr)
  return [{ in: 'pod', kind: 'neigh.announce', dev, address, why: `announce ${address}` }]
}
