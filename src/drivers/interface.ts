// SPDX-License-Identifier: Apache-2.0
// What the modes that make an interface have in common: the veth pair of bridge and ptp, and the pod's side.

import { bareAddress, familyOf } from '../cni/addresses.ts'
import type { InterfaceConf } from '../config/network-conf.ts'
import { featureOps } from '../features/features.ts'
import { type Op, setLink, setSysctl } from '../kernel/operation.ts'
import type { Driver } from './driver.ts'
import { aliasOf, podLinkMac } from './names.ts'
import { emptyNetwork, type NetworkSpec, type PodRoute, type Spec } from './spec.ts'

/** Makes the pair and marks its host end with the ids and addresses, for DEL, recovery and people. */
export function vethOps(spec: Spec): readonly Op[] {
  const { id, host, pod, port, addresses } = spec
  if (host === undefined || pod === undefined) return []
  const { name, mac, mtu } = host
  const bare = addresses.map(({ address }) => bareAddress(address))
  // No link-local address by the kernel: on a bridge port it is of no use, on a routed link it would wait for DAD.
  const withoutLinkLocal = hasIpv6(spec) ? ({ withoutLinkLocal: true } as const) : {}
  const ends = { name, mac, mtu, ...(port ? { master: port.bridge } : {}), peer: { ...pod, isInPod: true } }
  return [
    { place: 'host', kind: 'veth.add', ...ends, why: `create ${pod.name} in the pod with ${name} on the host` },
    setLink('host', name, { alias: aliasOf(id, bare), ...withoutLinkLocal }, `mark ${name} as ours`),
  ]
}

export function hasIpv6({ addresses }: Pick<Spec, 'addresses'>): boolean {
  return addresses.some(({ address }) => familyOf(address) === 6)
}

/** A pod must not change the host's routes by advertising itself as a router (CVE-2020-10749). */
export function ignoreRouters(link: string): Op {
  const key = `net/ipv6/conf/${link}/accept_ra`
  return setSysctl('host', key, '0', 'last', `ignore router advertisements on ${link}`)
}

/**
 * The pod's side, in order. The look at default routes comes before ours can be among them, and ours come last: where
 * the pod has one already, all the rest is in place.
 */
export function podOps(spec: Spec, isRouted: boolean): readonly Op[] {
  const { pod, addresses, routes, defaultRoutes, hasDad, isLeftDown, sbr } = spec
  if (pod === undefined || isLeftDown) return []
  const dev = pod.name
  const noPrefixRoute = isRouted || sbr?.sources.some((source) => source.routes.length > 0) === true
  const families = [...new Set(defaultRoutes.map(({ dst }) => familyOf(dst)))]
  const ops: Op[] = [setLink('pod', 'lo', { up: true }, 'set lo up in the pod')]
  for (const family of families)
    ops.push({ place: 'pod', kind: 'defaults.show', family, why: `see the pod's IPv${family} default routes` })
  for (const { address: cidr } of addresses)
    ops.push({ place: 'pod', kind: 'address.add', dev, cidr, dad: hasDad, noPrefixRoute, why: `add ${cidr} to ${dev}` })
  ops.push(...featureOps('podLinkOps', spec))
  ops.push(setLink('pod', dev, { up: true }, `set ${dev} up in the pod`))
  for (const route of routes) ops.push(routeOp(route, dev, 'append'))
  ops.push(...announceOps(spec, dev))
  for (const [at, route] of defaultRoutes.entries()) {
    // A second one of a family stands beside the first, as the configuration says.
    const isFirst = defaultRoutes.findIndex(({ dst }) => dst === route.dst) === at
    ops.push(isFirst ? { ...routeOp(route, dev, 'add'), tolerate: 'exists' } : routeOp(route, dev, 'append'))
  }
  return [...ops, ...featureOps('podRouteOps', spec)]
}

function routeOp(route: PodRoute, dev: string, how: 'append' | 'add'): Op {
  const via = route.gw === undefined ? '' : ` via ${route.gw}`
  return { place: 'pod', kind: 'route.add', dev, route, how, why: `add the route to ${route.dst}${via}` }
}

/** Neighbours may know the address by another MAC. */
export function announceOps({ id, addresses, pod, hasAddressMac }: Spec, dev: string): readonly Op[] {
  const ops: Op[] = []
  for (const { address } of addresses) {
    const bare = bareAddress(address)
    if (familyOf(bare) === 4) ops.push({ place: 'pod', kind: 'announce', dev, address: bare, why: `announce ${bare}` })
  }
  // A MAC that follows the address comes back with it. One of a delegated plugin's address does not.
  const needsNone = hasAddressMac || pod?.mac !== podLinkMac(id) || !hasIpv6({ addresses })
  if (pod !== undefined && !needsNone)
    ops.push({ place: 'pod', kind: 'announce6', dev, mac: pod.mac, why: `announce the IPv6 addresses of ${dev}` })
  return ops
}

/** Duplicate address detection: enhanced, since on a hairpin port the pod hears its own question (RFC 7527). */
export function detectionOps(spec: Spec): readonly Op[] {
  if (!spec.hasDad || !hasIpv6(spec) || spec.pod === undefined) return []
  return ['enhanced_dad', 'accept_dad'].map((name) => {
    const key = `net/ipv6/conf/${spec.pod?.name}/${name}`
    return setSysctl('pod', key, '1', 'first', 'switch duplicate address detection on')
  })
}

/** Of modes without anything on the host: the gateway is a router elsewhere. */
export const inPodAlone = {
  isInPodAlone: true,
  networkOf: ({ name, mode, removeWhenEmpty, allowOverlap }: InterfaceConf): NetworkSpec => {
    return { ...emptyNetwork, name, mode, removeWhenEmpty, allowOverlap }
  },
} as const satisfies Partial<Driver>
