// SPDX-License-Identifier: Apache-2.0
// The operations on the pod's interface of our making, whatever it is: addresses, routes, settings.

import { bareAddress, familyOf } from '../../cni/model/address.ts'
import type { Route } from '../../cni/model/route.ts'
import type { AttachmentSpec, PodRoute } from '../model/attachment.ts'
import type { Op } from '../model/op.ts'
import { featureOps } from './features.ts'

/**
 * Default routes come last, each alone: where the pod has one already, the rest is in place. The look at what default
 * routes there were comes first, before ours can be among them. `isRouted`: addresses bring no route of their own.
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

function announce(cidr: string, dev: string): readonly Op[] {
  // IPv6 neighbours: the gateway learns from the pod's first solicitation, and the MAC follows the address.
  if (familyOf(cidr) === 6) return []
  const address = bareAddress(cidr)
  return [{ in: 'pod', kind: 'neigh.announce', dev, address, why: `announce ${address}` }]
}
