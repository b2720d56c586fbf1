// SPDX-License-Identifier: Apache-2.0
// ingressPolicy: which bridges may not send to each other, as elements (docs/design.md, "Upstream firewall").

import type { FeatureConf } from '../../config/net-conf.ts'
import type { AttachmentSpec, NetworkSpec } from '../../model/attachment.ts'
import type { Element } from '../../model/elements.ts'
import type { Op } from '../../model/op.ts'
import type { Feature } from '../feature.ts'

/** The policy of the configuration, where it is not open. */
export function ingressPolicyOf({ firewall }: Pick<FeatureConf, 'firewall'>): NetworkSpec['ingressPolicy'] {
  return firewall === undefined || firewall.ingressPolicy === 'open' ? undefined : firewall.ingressPolicy
}

/**
 * `same-bridge`: pods of this bridge and of other isolated bridges do not reach each other.
 * `isolated`: nor do pods of this bridge among themselves.
 */
export function isolationElements({
  bridge,
  ingressPolicy: policy,
  ingressPolicyLink,
}: NetworkSpec): readonly Element[] {
  const link = bridge?.name ?? ingressPolicyLink
  return link === undefined || policy === undefined ? [] : isolateLink(link, policy)
}

/** The elements for one link: a bridge, or a pod's own. */
function isolateLink(link: string, policy: NonNullable<NetworkSpec['ingressPolicy']>): readonly Element[] {
  const isolated: Element = { set: 'fenced', key: [link] }
  return policy === 'isolated' ? [isolated] : [isolated, { set: 'fencedpair', key: [link, link] }]
}

/** Of a link that is the pod's alone, and of its port on the bridge of another plugin. */
export const isolation: Feature = {
  hostOps: (spec) => portIsolation(spec, true),
  hostTeardownOps: (spec) => portIsolation(spec, false),
  elements: ({ host, chained, ingressPolicy }) => {
    const link = chained === undefined ? host?.name : chained.hostLink
    const policy = chained?.ingressPolicy ?? ingressPolicy
    return link === undefined || policy === undefined ? [] : isolateLink(link, policy)
  },
}

function portIsolation({ chained }: AttachmentSpec, isolated: boolean): readonly Op[] {
  const dev = chained?.isolated ? chained.hostLink : undefined
  if (dev === undefined) return []
  return [{ in: 'host', kind: 'port.isolation', dev, isolated, why: `set the isolation of ${dev}` }]
}
