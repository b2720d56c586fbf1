// SPDX-License-Identifier: Apache-2.0
// The operations that make one attachment, in order: of its driver, and of the features in every mode. ADD runs them
// without a look; CHECK and repair compare them with the kernel (difference.ts).

import { commonElements, featureLinks, featureOps, ownElements } from '../features/features.ts'
import { localnetOps } from '../features/host-ports.ts'
import type { AttachmentSpec } from '../model/attachment.ts'
import { elementOps, type Op } from '../model/op.ts'
import type { Around, Homecoming } from './driver.ts'
import { driverOf } from './drivers.ts'
import { ignoreRouters } from './interface.ts'

export function hostOps(spec: AttachmentSpec): readonly Op[] {
  return [...(driverOf(spec).hostOps?.(spec) ?? []), ...featureOps('hostOps', spec)]
}

/** The part of hostOps that needs addresses: for an interface that was made before them (delegated IPAM). */
export function leasedHostOps(spec: AttachmentSpec): readonly Op[] {
  return driverOf(spec).leasedHostOps?.(spec) ?? []
}

/** Operations that run beside the pod's side once the links are there. */
export function queueingOps(spec: AttachmentSpec): readonly Op[] {
  return featureOps('queueingOps', spec)
}

export function nameOps(spec: AttachmentSpec): readonly Op[] {
  return driverOf(spec).nameOps?.(spec) ?? []
}

export function podOps(spec: AttachmentSpec): readonly Op[] {
  return driverOf(spec).podOps(spec)
}

/** Sysctls of the pod, after the links that sysctls may name. */
export function podSysctlOps(spec: AttachmentSpec): readonly Op[] {
  return featureOps('podSysctlOps', spec)
}

/** The pod's own elements of our rules, and the elements that its link shares with other pods. */
export function attachmentRuleOps(spec: AttachmentSpec): readonly Op[] {
  const isOwn = isLinkOwn(spec)
  const elements = [...(isOwn ? [] : commonElements(spec)), ...ownElements(spec, isOwn)]
  return [...featureOps('chainOps', spec), ...elementOps(elements)]
}

/** Kernel settings of the host's links. Some may only follow the rules that guard them. */
export function afterRuleOps(spec: AttachmentSpec): readonly Op[] {
  const { host } = spec
  return [...(host ? [ignoreRouters(host.name)] : []), ...featureOps('afterRuleOps', spec)]
}

/** Removes the attachment. The pod's side goes with the host end. `group` must be the caller's alone. */
export function teardownOps(spec: AttachmentSpec, group: number): readonly Op[] {
  const { host } = spec
  return [
    ...featureOps('hostTeardownOps', spec),
    ...linkRemovals([...(host ? [host.name] : []), ...featureLinks(spec)], group),
    ...elementOps(ownElements(spec, isLinkOwn(spec)), 'nft.del'),
  ]
}

/** Removes from a pod that lives on what does not go with a link of the host. */
export function podTeardownOps(spec: AttachmentSpec): readonly Op[] {
  return [...featureOps('podTeardownOps', spec), ...(driverOf(spec).podTeardownOps?.(spec) ?? [])]
}

/** How a link of the host that the pod has gets home, by a look at both; nothing where it has none. */
export function homecomingOf(spec: AttachmentSpec, around: Around): Homecoming {
  return driverOf(spec).homecoming?.(spec, around) ?? { ops: [] }
}

/** The link of others, too, that lets 127.0.0.1 through for the attachment's host ports. */
export function openedLink(spec: AttachmentSpec): string | undefined {
  const { hostPorts } = spec
  const isOpened = hostPorts !== undefined && !isLinkOwn(spec) && localnetOps(hostPorts).length > 0
  return isOpened ? hostPorts.link : undefined
}

/** Whether packets to the pod leave by a link of the pod alone. */
function isLinkOwn(spec: AttachmentSpec): boolean {
  const { hostPorts, chained } = spec
  return driverOf(spec).isRouted || (hostPorts !== undefined && hostPorts.link === chained?.hostLink)
}

/** Two links go as one group, since the kernel then waits once, not twice. `group` must be the caller's alone. */
export function linkRemovals(devs: readonly string[], group: number): readonly Op[] {
  const [first] = devs
  if (first === undefined) return []
  if (devs.length === 1) return [{ in: 'host', kind: 'link.del', dev: first, why: `remove ${first}` }]
  return [
    ...devs.map((dev): Op => ({ in: 'host', kind: 'link.group', dev, group, why: `collect ${dev} for removal` })),
    { in: 'host', kind: 'group.del', group, why: `remove ${devs.join(' and ')}` },
  ]
}
