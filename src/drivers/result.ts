// SPDX-License-Identifier: Apache-2.0
// The result of ADD, from the spec: nothing is read back from the kernel.

import { networkText } from '../cni/addresses.ts'
import { atLeast, type Result, type ResultInterface, type Route } from '../cni/results.ts'
import type { OwnConf } from '../config/network-conf.ts'
import { isDefault } from '../features/sbr.ts'
import type { Lease, PodRoute, Spec } from './spec.ts'

/**
 * Bridge, host end, pod end, then the VLAN gateway's link and the ifb: consumers of the reference bridge rely on that
 * order. `given`: the routes of the lease; those that the pod did not get are left out.
 */
export function resultOf(spec: Spec, given: readonly Route[], sandbox: string, isDefaultGateway: boolean): Result {
  const { host, pod, addresses, bandwidth, dns } = spec
  const bridge = spec.network?.bridge
  const interfaces: ResultInterface[] = []
  if (bridge !== undefined) interfaces.push({ name: bridge.name, mac: bridge.mac, mtu: bridge.mtu })
  if (host !== undefined) interfaces.push(host)
  const ofPod = interfaces.length
  if (pod !== undefined) interfaces.push({ ...pod, sandbox })
  if (bridge?.vlanGateway)
    interfaces.push({ name: bridge.vlanGateway.name, mac: bridge.vlanGateway.mac, mtu: bridge.mtu })
  if (bandwidth?.egress)
    interfaces.push({ name: bandwidth.egress.ifb, mac: bandwidth.egress.ifbMac, mtu: bandwidth.mtu })
  const ips = addresses.map((ip) => ({ ...ip, interface: ofPod }))
  return { interfaces, ips, routes: routesThere(spec, given, isDefaultGateway), ...(dns === undefined ? {} : { dns }) }
}

function routesThere(spec: Spec, given: readonly Route[], isDefaultGateway: boolean): readonly Route[] {
  // sbr has put these into a table of its own.
  const bySource = spec.sbr?.sources.flatMap(({ routes }) => routes.map(({ table: _, ...route }) => route)) ?? []
  const there = new Set([...spec.routes, ...spec.defaultRoutes, ...bySource].map(routeKey))
  const got = given.filter((route) => there.has(routeKey(route)))
  const named = new Set(got.map(routeKey))
  const added: readonly PodRoute[] = [...spec.defaultRoutes, ...(isDefaultGateway ? bySource.filter(isDefault) : [])]
  const left = added.filter((route) => !named.has(routeKey(route)))
  return [...got, ...left.map(({ onlink: _, src: _s, protocol: _p, ...route }) => route)]
}

/** By which the kernel tells routes apart: 0 is "not set". */
function routeKey({ dst, table, priority }: Route): string {
  return `${networkText(dst)} table ${table || 0} metric ${priority || 0}`
}

/** Behind what earlier plugins of the list made. Below 0.3.0 there are no lists, and a result holds one address a family. */
export function afterPrevious(
  own: Result,
  { prevResult, cniVersion }: Pick<OwnConf, 'prevResult' | 'cniVersion'>,
): Result {
  if (prevResult === undefined || !atLeast(cniVersion, '0.3.0')) return own
  const before = prevResult.interfaces.length
  const shifted = own.ips.map((ip) => (ip.interface === undefined ? ip : { ...ip, interface: ip.interface + before }))
  return {
    ...prevResult,
    ...own,
    interfaces: [...prevResult.interfaces, ...own.interfaces],
    ips: [...prevResult.ips, ...shifted],
    routes: [...prevResult.routes, ...own.routes],
  }
}

/** The abbreviated result of a delegated plugin: no interfaces (CNI spec 1.1.0, section 5). */
export function leaseResult({ addresses, routes, dns }: Lease): Result {
  return { interfaces: [], ips: addresses, routes, ...(dns === undefined ? {} : { dns }) }
}
