// SPDX-License-Identifier: Apache-2.0
// The table of features. At one moment their operations come in its order; no feature depends on another one.

import { bandwidth } from '../link/bandwidth.ts'
import { sbr } from '../link/sbr.ts'
import { tuning } from '../link/tuning.ts'
import type { AttachmentSpec } from '../model/attachment.ts'
import type { Element } from '../model/elements.ts'
import type { Feature } from '../model/feature.ts'
import type { Op } from '../model/op.ts'
import { selfHairpin } from '../rules/hairpin.ts'
import { hostPortGuard, hostPorts } from '../rules/host-ports.ts'
import { isolation } from '../rules/isolation.ts'
import { macCheck } from '../rules/mac-check.ts'

const features: readonly Feature[] = [
  macCheck,
  hostPorts,
  selfHairpin,
  hostPortGuard,
  bandwidth,
  isolation,
  sbr,
  tuning,
]

type OpMoment = Exclude<keyof Feature, 'elements' | 'commonElements' | 'links'>

/** The operations of all features at one moment. */
export function featureOps(moment: OpMoment, spec: AttachmentSpec): readonly Op[] {
  return features.flatMap((feature) => feature[moment]?.(spec) ?? [])
}

/** The elements of all features. `isLinkOwn`: packets to the pod leave by a link of the pod alone. */
export function ownElements(spec: AttachmentSpec, isLinkOwn: boolean): readonly Element[] {
  return features.flatMap(({ elements }) => elements?.(spec, isLinkOwn) ?? [])
}

/** Elements that pods of one link have together. */
export function commonElements(spec: AttachmentSpec): readonly Element[] {
  return features.flatMap(({ commonElements: common }) => common?.(spec) ?? [])
}

/** Links of features. They go with the attachment. */
export function featureLinks(spec: AttachmentSpec): readonly string[] {
  return features.flatMap(({ links }) => links?.(spec) ?? [])
}
