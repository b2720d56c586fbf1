// SPDX-License-Identifier: Apache-2.0
// What trestle asks a feature: something done for an interface, whoever made it. A feature is one constant of this
// type, in the file that also makes its part of the spec; features/features.ts has them all.

import type { AttachmentSpec } from '../model/attachment.ts'
import type { Element, Op } from '../model/op.ts'

type OpsOf = (spec: AttachmentSpec) => readonly Op[]

/**
 * One feature, by the moments of an attachment, each from the spec alone and empty where that has nothing of it. In
 * which order moments come is known to plan/order and the modes.
 */
export interface Feature {
  /** Links on the host, after the interface's own. */
  readonly hostOps?: OpsOf
  /** What runs beside the pod's side once the links are there. */
  readonly queueingOps?: OpsOf
  /** Settings of the pod's interface, before it is set up. */
  readonly podLinkOps?: OpsOf
  /** The last in the pod: its routes and rules. */
  readonly podRouteOps?: OpsOf
  readonly podSysctlOps?: OpsOf
  readonly chainOps?: OpsOf
  /** The pod's own elements of our rules. `isLinkOwn`: what packets to the pod leave by is the pod's alone. */
  readonly elements?: (spec: AttachmentSpec, isLinkOwn: boolean) => readonly Element[]
  /** Those that it has together with other pods of its link. */
  readonly commonElements?: (spec: AttachmentSpec) => readonly Element[]
  /** Settings of the host that may only follow the rules. */
  readonly afterRuleOps?: OpsOf
  /** What holds besides as long as the attachment is there: CHECK and `restore` compare it. */
  readonly stateOps?: OpsOf
  /** Links of ours that go with it. */
  readonly links?: (spec: AttachmentSpec) => readonly string[]
  /** What is on the host and does not go with a link of ours. */
  readonly hostTeardownOps?: OpsOf
  /** What is in the pod and does not go with a link of the host. */
  readonly podTeardownOps?: OpsOf
}

/** The operations of a part of the spec on the pod's interface; none without one of the two. */
export function onPodLink<T>(
  { chained, pod }: AttachmentSpec,
  part: T | undefined,
  ops: (part: T, dev: string) => readonly Op[],
): readonly Op[] {
  const dev = chained?.dev ?? pod?.name
  return part === undefined || dev === undefined ? [] : ops(part, dev)
}
