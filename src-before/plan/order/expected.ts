// SPDX-License-Identifier: Apache-2.0
// What CHECK expects: the record, with what prevResult says about links, addresses and routes in
// its place, since later plugins may have changed those on purpose (CNI spec 1.1.0, section 3, CHECK).

import {
  bareAddress,
  canonicalNetwork,
  formatAddress,
  includes,
  isUnspecified,
  parseAddress,
  parseCidr,
} from '../../cni/address.ts'
import type { Result, ResultInterface, ResultIp, Route } from '../../cni/result.ts'
import { driverOf } from '../../drivers/drivers.ts'
import { fastPathBridgeOps, ruleOps } from '../../drivers/network.ts'
import { featureOps } from '../../features/features.ts'
import { isDefault } from '../../features/sbr.ts'
import type { AttachmentSpec, NetworkSpec } from '../../model/attachment.ts'
import type { ObservedNamespace } from '../../model/observed.ts'
import type { Op } from '../../model/op.ts'
import { ownOps } from './stages.ts'

/** The record's attachment as prevResult has it now, and what is missing from prevResult altogether. */
export function expectedBy(
  prevResult: Result,
  spec: AttachmentSpec,
  netns: string,
): { spec: AttachmentSpec; missing: readonly string[] } {
  if (spec.chained) return { spec: chainedNow(prevResult, spec, spec.chained.dev), missing: [] }
  const at = prevResult.interfaces.findIndex((entry) => entry.name === spec.pod?.name && (entry.sandbox ?? '') !== '')
  const pod = prevResult.interfaces[at]
  const host = prevResult.interfaces.find((entry) => entry.name === spec.host?.name && !entry.sandbox)
  const missing = [
    ...(pod === undefined ? [`prevResult has no interface ${spec.pod?.name} in ${netns}`] : []),
    ...(pod !== undefined && pod.sandbox !== netns
      ? [`prevResult has ${pod.name} in ${pod.sandbox}, not in CNI_NETNS ${netns}`]
      : []),
    ...(spec.host !== undefined && host === undefined ? [`prevResult has no interface ${spec.host.name}`] : []),
  ]
  // Addresses of no interface are ours, unless they came from a plugin before us: then ours say where they are.
  const index = spec.ips.length === 0 || prevResult.ips.some((ip) => ip.interface === at) ? at : undefined
  const ips = prevResult.ips.filter((ip) => ip.interface === index)
  const expected = {
    ...spec,
    ...(spec.host ? { host: withMac(spec.host, host) } : {}),
    ...(spec.pod ? { pod: { ...withMac(spec.pod, pod), ...(pod?.mtu === undefined ? {} : { mtu: pod.mtu }) } } : {}),
    mtu: host?.mtu ?? spec.mtu,
    ips: ips.map(({ address, gateway }) => (gateway === undefined ? { address } : { address, gateway })),
    ...routesStillThere(prevResult, spec),
  }
  return { spec: expected, missing }
}

/**
 * What prevResult says besides, and the pod has nowhere: routes, also of other plugins, and addresses of no interface
 * that are of the subnets of ours. A later plugin may have moved them to another table or link of the pod.
 */
export function absentFromPod(
  { interfaces, ips, routes }: Result,
  spec: AttachmentSpec,
  pod: ObservedNamespace,
): readonly string[] {
  // The plugin that made the interface compares them; without one in use there are none.
  if (spec.chained !== undefined || spec.podLinkDown) return []
  // Of several namespaces a result does not tell which one has a route.
  if (new Set(interfaces.flatMap(({ sandbox }) => sandbox || [])).size > 1) return []
  const bySource = spec.sbr?.sources.flatMap((source) => source.routes) ?? []
  const known = new Set([...spec.routes, ...spec.defaultRoutes, ...bySource].map(({ dst }) => dst))
  const there = [...pod.routes.values()].flat()
  const addresses = new Set([...pod.links.values()].flatMap((link) => link.addresses.map(bareAddress)))
  const isNowhere = (ip: ResultIp) => ip.interface === undefined || interfaces[ip.interface] === undefined
  return [
    ...routes
      .filter((route) => !known.has(canonicalNetwork(route.dst)) && !there.some((other) => isThisRoute(other, route)))
      .map(({ dst, gw }) => `route to ${dst}${gw ? ` via ${gw}` : ''} of prevResult is missing in the pod`),
    ...ips
      .filter((ip) => isNowhere(ip) && isOfSubnet(ip, spec) && !addresses.has(bareAddress(ip.address)))
      .filter((ip) => !spec.ips.some(({ address }) => address === ip.address))
      .map(({ address }) => `${address} of prevResult is missing in the pod`),
  ]
}

/** By destination and gateway; a later plugin may have given a default route another one (upstream sbr, `gateways`). */
function isThisRoute(there: Route, { dst, gw }: Route): boolean {
  const via = parseAddress(gw ?? '')
  const isAny = via === undefined || isUnspecified(via) || isDefault(there)
  return there.dst === canonicalNetwork(dst) && (isAny || there.gw === formatAddress(via))
}

function isOfSubnet({ address }: ResultIp, { ips }: AttachmentSpec): boolean {
  const at = parseAddress(bareAddress(address))
  const subnets = ips.flatMap((ip) => parseCidr(ip.address) ?? [])
  return at !== undefined && subnets.some((subnet) => includes(subnet, at))
}

/**
 * Everything that should hold for the attachment, as operations of its ADD to compare with the kernel. `beside`:
 * networks whose rules hold with those of `network`; `all`: those of the machine.
 */
export function expectedOps(
  spec: AttachmentSpec,
  network: NetworkSpec | undefined,
  { beside = [], all }: { readonly beside?: readonly NetworkSpec[]; readonly all: readonly NetworkSpec[] },
): readonly Op[] {
  const shared = network === undefined ? [] : fastPathBridgeOps(network)
  const { own, settings } = ownOps(spec)
  const ops = own.filter((op) => !('dev' in op && op.dev === 'lo'))
  const rules = ruleOps({
    networks: beside.length > 0 || network === undefined ? beside : [network],
    attachments: [spec],
    all,
  })
  return [
    ...shared,
    ...rules,
    ...settings,
    ...ops.filter((op) => op.in === 'host'),
    ...featureOps('stateOps', spec),
    ...ops.filter((op) => op.in === 'pod'),
  ]
}

/**
 * A route that a later plugin took out of the result is no longer ours to expect. A routed pod's own routes
 * (those with a source) are in no result: they are expected as long as their address is.
 */
function routesStillThere(prevResult: Result, spec: AttachmentSpec): Pick<AttachmentSpec, 'routes' | 'defaultRoutes'> {
  const inResult = new Set(prevResult.routes.map((route) => canonicalNetwork(route.dst)))
  const isThere = (dst: string) => inResult.has(dst)
  const isOwn = (src = '') => driverOf(spec).isRouted && prevResult.ips.some((ip) => ip.address.startsWith(`${src}/`))
  return {
    routes: spec.routes.filter((route) => isThere(route.dst) || isOwn(route.src)),
    defaultRoutes: spec.defaultRoutes.filter((route) => isThere(route.dst)),
  }
}

/** A later plugin may have set the MAC or MTU that we had set. */
function chainedNow(prevResult: Result, spec: AttachmentSpec, dev: string): AttachmentSpec {
  const now = prevResult.interfaces.find((entry) => entry.name === dev && entry.sandbox)
  const { tuning } = spec
  if (tuning === undefined || now === undefined) return spec
  const mac = tuning.mac && (now.mac?.toLowerCase() ?? tuning.mac)
  const mtu = tuning.mtu && (now.mtu ?? tuning.mtu)
  return { ...spec, tuning: { ...tuning, ...(mac ? { mac } : {}), ...(mtu ? { mtu } : {}) } }
}

/** The attachment with the MTU that a later plugin gave the pod's end, where one did without telling. */
export function withLaterMtu(spec: AttachmentSpec, mtu: number | undefined): AttachmentSpec {
  return spec.pod === undefined || mtu === undefined ? spec : { ...spec, pod: { ...spec.pod, mtu } }
}

function withMac<T extends { readonly mac: string }>(end: T, now: ResultInterface | undefined): T {
  return now?.mac === undefined ? end : { ...end, mac: now.mac.toLowerCase() }
}
