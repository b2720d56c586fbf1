// SPDX-License-Identifier: Apache-2.0
// ingressPolicy: which bridges may not send to each other, as elements (docs/design.md, "Upstream firewall").

import type { NetworkSpec } from '../model/attachment.ts'
import type { Element } from '../model/elements.ts'

/**
 * `same-bridge`: pods of this bridge and of other fenced bridges do not reach each other.
 * `isolated`: nor do pods of this bridge among themselves.
 */
export function fenceElements({ bridge, fence, fenceOn }: NetworkSpec): readonly Element[] {
  const link = bridge?.name ?? fenceOn
  return link === undefined || fence === undefined ? [] : fenceLink(link, fence)
}

/** The elements for one link: a bridge, or a pod's own. */
export function fenceLink(link: string, fence: NonNullable<NetworkSpec['fence']>): readonly Element[] {
  const name = `"${link}"`
  const fenced: Element = { set: 'fenced', element: name }
  return fence === 'isolated' ? [fenced] : [fenced, { set: 'fencedpair', element: `${name} . ${name}` }]
}
