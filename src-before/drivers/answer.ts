// SPDX-License-Identifier: Apache-2.0
// The result of ADD, from the spec: nothing is read back from the kernel.

import { canonicalNetwork } from '../cni/address.ts'
import { atLeast, type Result, type ResultInterface, type Route } from '../cni/result.ts'
import type { FeatureConf } from '../config/net-conf.ts'
import { isDefault } from '../features/sbr.ts'
import type { AttachmentSpec, Lease, NetworkSpec } from '../model/attachment.ts'

/**
 * The result of an attachment of ours: bridge, host end, pod end (CNI spec 1.1.0, section 5), then the other links of
 * the host. Upstream's bridge has the gateway's link of a VLAN in this place, too.
 */
export function resultOf(input: {
  readonly spec: AttachmentSpec
  readonly network: NetworkSpec
  readonly lease: Lease
  readonly netns: string
  readonly isDefaultGateway: boolean
}): Result {
  const { spec, network, netns } = input
  const { mtu } = spec
  const { bridge } = network
  const interfaces: ResultInterface[] = [
    ...(bridge ? [{ name: bridge.name, mac: bridge.mac, mtu: bridge.mtu }] : []),
    ...(spec.host ? [{ mtu, ...spec.host }] : []),
    ...(spec.pod ? [{ mtu, ...spec.pod, sandbox: netns }] : []),
  ]
  const ofPod = interfaces.length - 1
  if (bridge?.gateway) interfaces.push({ name: bridge.gateway.name, mac: bridge.gateway.mac, mtu: bridge.mtu })
  const egress = spec.bandwidth?.egress
  if (egress) interfaces.push({ name: egress.ifb, mac: egress.ifbMac, mtu })
  const ips = spec.ips.map((ip) => ({ ...ip, interface: ofPod }))
  const result = { interfaces, ips, routes: routesOf(input) }
  return spec.dns === undefined ? result : { ...result, dns: spec.dns }
}

/**
 * `own` after what earlier plugins of the list made: a plugin that gets a prevResult passes it on (CNI spec 1.1.0,
 * section 3, ADD). Below 0.3.0 there are no lists of plugins, and a result holds one address of a family: ours.
 */
export function afterPrevious(
  own: Result,
  { prevResult, cniVersion }: Pick<FeatureConf, 'prevResult' | 'cniVersion'>,
): Result {
  if (prevResult === undefined || !atLeast(cniVersion, '0.3.0')) return own
  const before = prevResult.interfaces.length
  const shifted = (at: number | undefined) => (at === undefined ? {} : { interface: at + before })
  return {
    ...prevResult,
    ...own,
    interfaces: [...prevResult.interfaces, ...own.interfaces],
    ips: [...prevResult.ips, ...own.ips.map((ip) => ({ ...ip, ...shifted(ip.interface) }))],
    routes: [...prevResult.routes, ...own.routes],
  }
}

/** The abbreviated result of a delegated plugin: no interfaces (section 5 "Delegated plugins"). */
export function delegatedResult(lease: Lease): Result {
  const result = { interfaces: [], ips: lease.ips, routes: lease.routes }
  return lease.dns === undefined ? result : { ...result, dns: lease.dns }
}

/** Routes as IPAM gave them, and the default routes we added; a route that the pod did not get is left out. */
function routesOf({ spec, lease, isDefaultGateway }: Parameters<typeof resultOf>[0]): Result['routes'] {
  // sbr has put these into a table of its own.
  const bySource = spec.sbr?.sources.flatMap(({ routes }) => routes.map(({ table: _, ...route }) => route)) ?? []
  const got = new Set([...spec.routes, ...spec.defaultRoutes, ...bySource].map(placeOf))
  const given = lease.routes.filter((route) => got.has(placeOf(route)))
  const named = new Set(given.map(placeOf))
  // Without isDefaultGateway a default of sbr is in its table alone, as upstream's list has it.
  const added = [...spec.defaultRoutes, ...(isDefaultGateway ? bySource.filter(isDefault) : [])]
  return [...given, ...added.filter((route) => !named.has(placeOf(route)))]
}

/** By which the kernel tells routes apart: 0 is "not set". */
function placeOf({ dst, table, priority }: Route): string {
  return `${canonicalNetwork(dst)} table ${table || 0} metric ${priority || 0}`
}
