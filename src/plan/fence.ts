// SPDX-License-Identifier: Apache-2.0
// ingressPolicy: which bridges may not send to each other, as elements (reference-plugins.md §2.12).

import type { NetworkSpec } from './attachment.ts'
import type { Element } from './masquerade.ts'

/**
 * `same-bridge`: pods of this bridge and of other fenced bridges do not reach each other.
 * `isolated`: nor do pods of this bridge among themselves.
 */
export function fenceElements({ bridge, fence }: NetworkSpec): readonly Element[] {
  if (bridge === undefined || fence === undefined) return []
  const name = `"${bridge.name}"`
  const fenced: Element = { set: 'fenced', element: name }
  return fence === 'isolated' ? [fenced] : [fenced, { set: 'fencedpair', element: `${name} . ${name}` }]
}
