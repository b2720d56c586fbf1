// SPDX-License-Identifier: Apache-2.0
// The operations that make one attachment, in order: its mode's, and those of features in every mode. ADD runs them
// without looking; CHECK and repair compare them with the kernel (difference.ts).

import { queueOps } from '../link/bandwidth.ts'
import { tunedSysctlOps } from '../link/tuning.ts'
import type { AttachmentSpec } from '../model/attachment.ts'
import { type Element, elementOps } from '../model/elements.ts'
import type { Op } from '../model/op.ts'
import { hairpinLink, selfHairpinElements } from '../rules/hairpin.ts'
import { commonPortElements, localnetOps, ownPortElements } from '../rules/host-ports.ts'
import { isolateLink } from '../rules/isolation.ts'
import { conditionOps } from '../rules/port-conditions.ts'
import { modeOf } from './modes.ts'
import { ignoreRouters } from './network.ts'

/** The host's side: the links, and where they belong. */
export function hostOps(spec: AttachmentSpec): readonly Op[] {
  return modeOf(spec).hostOps(spec)
}

/** What of hostOps the addresses tell: for an interface that was made before them (delegated IPAM). */
export function leasedHostOps(spec: AttachmentSpec): readonly Op[] {
  return modeOf(spec).leasedHostOps(spec)
}

/** What runs beside the pod's side once the links are there. */
export function queueingOps(spec: AttachmentSpec): readonly Op[] {
  return spec.bandwidth ? queueOps(spec.bandwidth) : []
}

/** What gives a new interface its name in the pod. */
export function nameOps(spec: AttachmentSpec): readonly Op[] {
  return modeOf(spec).nameOps(spec)
}

/** The pod's side, but for sysctls. */
export function podOps(spec: AttachmentSpec): readonly Op[] {
  return modeOf(spec).podOps(spec)
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
 * `group` must be the caller's alone.
 */
export function teardownOps(spec: AttachmentSpec, group: number): readonly Op[] {
  const { host, bandwidth } = spec
  const devs = [host?.name, bandwidth?.egress?.ifb].filter((dev) => dev !== undefined)
  return [
    ...modeOf(spec).hostTeardownOps(spec),
    ...linkRemovals(devs, group),
    ...elementOps(ownElements(spec), 'nft.del'),
  ]
}

/** What is in the pod and does not go with a link of the host: for a namespace that is still there. */
export function podTeardownOps(spec: AttachmentSpec): readonly Op[] {
  return modeOf(spec).podTeardownOps(spec)
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
function isLinkOwn(spec: AttachmentSpec): boolean {
  const { hostPorts, chained } = spec
  return modeOf(spec).isRouted || (hostPorts !== undefined && hostPorts.link === chained?.hostLink)
}

function guardElements({ hostPorts }: AttachmentSpec): readonly Element[] {
  return hostPorts === undefined ? [] : commonPortElements(hostPorts)
}

/** A chained attachment's network has no bridge of its own: the way to the pods is what they share. */
function commonLinkElements(spec: AttachmentSpec): readonly Element[] {
  const { hostPorts } = spec
  return [...guardElements(spec), ...(hostPorts?.snat ? [hairpinLink(hostPorts.link)] : [])]
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
