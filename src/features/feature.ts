// SPDX-License-Identifier: Apache-2.0
// What a feature is: something done for an interface, whoever made it. A feature is one file here with its reader and one
// `Feature`, and a line in features.ts. Whatever it must know elsewhere is a field of `Feature`.

import type { Spec } from '../drivers/spec.ts'
import type { Element } from '../kernel/nft-table.ts'
import type { Op } from '../kernel/operation.ts'

/** An element without its comment: drivers/attachment.ts adds whose it is. */
export type BareElement = Omit<Element, 'comment'>

export interface Feature {
  /** What ADD does, CHECK compares, restore repairs and plan prints, in order. */
  readonly ops?: (spec: Spec) => readonly Op[]
  /** Link settings of the pod's interface: before it is set up. */
  readonly podLinkOps?: (spec: Spec) => readonly Op[]
  /** Routes of the pod: behind all others. */
  readonly podRouteOps?: (spec: Spec) => readonly Op[]
  /** Elements of the attachment's own. */
  readonly elements?: (spec: Spec) => readonly BareElement[]
  /** Links of the host that it makes: DEL removes them with the host end. */
  readonly links?: (spec: Spec) => readonly string[]
  /** What DEL does where removing links and elements is not enough: in the pod first, then on the host. */
  readonly undo?: (spec: Spec) => readonly Op[]
}
