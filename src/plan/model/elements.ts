// SPDX-License-Identifier: Apache-2.0
// Elements of the sets and maps of our tables, and their operations.

import type { Op, SetName } from './op.ts'

/** An element of one of our sets, in nft's text. */
export interface Element {
  readonly set: SetName
  readonly element: string
}

/** Operations for elements, with what each is for. */
export function elementOps(elements: readonly Element[], kind: 'nft.add' | 'nft.del' = 'nft.add'): readonly Op[] {
  const verb = kind === 'nft.add' ? 'add' : 'remove'
  return elements.map(({ set, element }) => ({
    in: 'host',
    kind,
    set,
    element,
    why: `${verb} ${element} in nft set ${set}`,
  }))
}
