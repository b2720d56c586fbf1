// SPDX-License-Identifier: Apache-2.0
// A spec as operations: what makes the attachment, and what removes it. CHECK asks which of the first do not hold.

import { featureElements, featureLinks, featureOps } from '../features/features.ts'
import { loopbackGuard } from '../features/host-ports.ts'
import { type Cluster, clusterElements, networkElements } from '../features/network-elements.ts'
import { type Element, elementKey } from '../kernel/nft-table.ts'
import { elementOps, type Op, removeLink, setLink } from '../kernel/operation.ts'
import { driverOfSpec } from './drivers.ts'
import { announceOps, detectionOps, ignoreRouters, podOps } from './interface.ts'
import { elementComment, networkDigest } from './names.ts'
import type { NetworkSpec, Spec } from './spec.ts'

/** Everything that makes the attachment. process/order.ts puts it into an order. */
export function opsOf(spec: Spec): readonly Op[] {
  const driver = driverOfSpec(spec)
  return [
    ...(driver?.hostOps(spec) ?? []),
    ...(driver?.nameOps?.(spec) ?? []),
    ...detectionOps(spec),
    ...(driver === undefined ? chainedPodOps(spec) : podOps(spec, driver.isRouted ?? false)),
    ...featureOps('ops', spec),
    ...(spec.host === undefined ? [] : [ignoreRouters(spec.host.name)]),
    ...elementOps([...sharedElements(spec), ...ownElements(spec)]),
  ]
}

/** On an interface that another plugin made. */
function chainedPodOps(spec: Spec): readonly Op[] {
  const announced = spec.tuning?.settings.mac === undefined ? [] : announceOps(spec, spec.id.ifName)
  return [...featureOps('podLinkOps', spec), ...announced, ...featureOps('podRouteOps', spec)]
}

/** Elements that go with the attachment. */
export function ownElements(spec: Spec): readonly Element[] {
  if (spec.givenElements !== undefined) return spec.givenElements
  const guard = spec.hostPorts?.isOwnLink ? loopbackGuard(spec.hostPorts) : []
  const elements = [...featureElements(spec), ...guard]
  if (elements.length === 0) return []
  const comment = elementComment(spec.id)
  return elements.map((element) => ({ ...element, comment }))
}

/** The guard of a link that pods share, which stays. */
export function sharedElements({ hostPorts, id }: Spec): readonly Element[] {
  if (hostPorts === undefined || hostPorts.isOwnLink) return []
  const comment = networkDigest(id.network)
  return loopbackGuard(hostPorts).map((element) => ({ ...element, comment }))
}

/** Links of the host that go with the attachment. */
export function ownLinks(spec: Spec): readonly string[] {
  return [...(spec.host === undefined ? [] : [spec.host.name]), ...featureLinks(spec)]
}

/** What a DEL does: in the pod, then links and elements of the host. `links`: those of ownLinks that are there. */
export function undoOf(spec: Spec, links: readonly string[], group: number): readonly Op[] {
  return [
    ...featureOps('undo', spec),
    ...(driverOfSpec(spec)?.undoInPod?.(spec) ?? []),
    ...removeLinks(links, group),
    ...elementOps(ownElements(spec), 'element.delete'),
  ]
}

/** A link group that is this process's alone. */
export function linkGroup(): number {
  return 0x40000000 + process.pid
}

/** Two links go as one group, since the kernel then waits for grace periods once. `group`: unique to this process. */
function removeLinks(devs: readonly string[], group: number): readonly Op[] {
  const [first] = devs
  if (first === undefined) return []
  if (devs.length === 1) return [removeLink(first)]
  const collected = devs.map((dev) => setLink('host', dev, { group }, `collect ${dev} for removal`, 'absent'))
  const why = `remove ${devs.join(' and ')}`
  return [...collected, { place: 'host', kind: 'group.delete', group, devs, tolerate: 'absent', why }]
}

/**
 * Every element of our tables that is needed, each once. Without networks and pods there are none but for an overlay,
 * whose port is closed to strangers from the start.
 */
export function everyElement(
  networks: readonly NetworkSpec[],
  specs: readonly Spec[],
  cluster: Cluster | undefined,
): readonly Element[] {
  const ofPods = specs.flatMap((spec) => [...sharedElements(spec), ...ownElements(spec)])
  const own = [...networkElements(networks), ...ofPods]
  const isNeeded = own.length > 0 || cluster?.overlay !== undefined
  const all = cluster !== undefined && isNeeded ? [...clusterElements(cluster), ...own] : own
  return [...new Map(all.map((element) => [elementKey(element), element])).values()]
}
