// SPDX-License-Identifier: Apache-2.0
// The operations for an interface that trestle makes: the veth pair of bridge and ptp, and the pod's side of all modes.

import { bareAddress, familyOf } from '../cni/address.ts'
import type { Route } from '../cni/result.ts'
import type { InterfaceNetConf } from '../config/net-conf.ts'
import { featureOps } from '../features/features.ts'
import type { AttachmentSpec, LinkEnd, PodRoute } from '../model/attachment.ts'
import { aliasOf, podLinkMac } from '../model/names.ts'
import type { Op } from '../model/op.ts'
import type { InterfaceDriver } from './driver.ts'

/** Makes the pair, and marks its host end. Nothing for a record without links. */
export function vethOps(spec: AttachmentSpec): readonly Op[] {
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
  ]
}

/** Marks the host end with the attachment's ids, for people and `gc`. */
export function markOp(spec: AttachmentSpec, { name }: LinkEnd): Op {
  const noLinkLocal = spec.ips.some(({ address }) => familyOf(address) === 6)
  return {
    in: 'host',
    kind: 'link.alias',
    dev: name,
    alias: aliasOf(spec.key),
    noLinkLocal,
    why: `mark ${name} as ours`,
  }
}

/**
 * Default routes come last, each alone: where the pod has one already, the rest is in place. The look at the pod's
 * default routes comes first, before ours can be among them. `isRouted`: addresses bring no route of their own.
 */
export function interfacePodOps(spec: AttachmentSpec, isRouted: boolean): readonly Op[] {
  const { pod } = spec
  if (pod === undefined || spec.podLinkDown) return []
  const dev = pod.name
  const hasOwnTable = spec.sbr?.sources.some((source) => source.routes.length > 0) === true
  return [
    { in: 'pod', kind: 'link.up', dev: 'lo', why: 'set lo up in the pod' },
    ...spec.defaultRoutes.filter(isFirst).map((route): Op => showDefault(route)),
    ...spec.ips.map((ip): Op => podAddress(ip.address, { dev, dad: spec.dad, isRouted: isRouted || hasOwnTable })),
    ...featureOps('podLinkOps', spec),
    { in: 'pod', kind: 'link.up', dev, why: `set ${dev} up in the pod` },
    ...spec.routes.map((route): Op => routeOp(route, dev)),
    ...spec.ips.flatMap((ip): readonly Op[] => announce(ip.address, dev)),
    ...announce6(spec, pod),
    ...spec.defaultRoutes.map((route, at, all): Op => defaultRouteOp(route, dev, isFirst(route, at, all))),
    ...featureOps('podRouteOps', spec),
  ]
}

function podAddress(cidr: string, on: { readonly dev: string; readonly dad: boolean; readonly isRouted: boolean }): Op {
  const { dev, dad, isRouted } = on
  const routed = isRouted ? ({ noPrefixRoute: true } as const) : {}
  return { in: 'pod', kind: 'addr.replace', dev, cidr, dad, ...routed, why: `add ${cidr} to ${dev}` }
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

/** Neighbours may know the address by another MAC. IPv6 neighbours learn from the pod's first packet. */
export function announce(cidr: string, dev: string): readonly Op[] {
  if (familyOf(cidr) === 6) return []
  const address = bareAddress(cidr)
  return [{ in: 'pod', kind: 'neigh.announce', dev, address, why: `announce ${address}` }]
}

/** With an address of our own pool its MAC comes again (podLinkMac): neighbours that know it know no other. */
function announce6({ key, ips, isPool }: AttachmentSpec, { name, mac }: LinkEnd): readonly Op[] {
  const needsNone = isPool || !ips.some(({ address }) => familyOf(address) === 6) || mac !== podLinkMac(key, undefined)
  return needsNone
    ? []
    : [{ in: 'pod', kind: 'neigh.announce6', dev: name, mac, why: `announce ${name}'s IPv6 addresses` }]
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

/** Of modes without anything on the host. The gateway is a router elsewhere: no address of the host is in its way. */
export const inPodAlone = {
  isRouted: false,
  isInPodAlone: true,
  gatewaySide: ({ name }) => ({ name }),
  networkOf: ({ name, removeWhenEmpty }) => ({ name, forwarding: [], removeWhenEmpty }),
} as const satisfies Partial<InterfaceDriver<InterfaceNetConf>>
