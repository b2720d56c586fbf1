// SPDX-License-Identifier: Apache-2.0
// The table of features. At one moment their operations come in its order; no feature depends on another one.

import type { AttachmentSpec } from '../model/attachment.ts'
import type { Element, Op } from '../model/op.ts'
import { bandwidth } from './bandwidth.ts'
import { macCheck } from './bridge-port.ts'
import type { Feature } from './feature.ts'
import { isolation } from './firewall.ts'
import { hostPorts } from './host-ports.ts'
import { masquerade } from './masquerade.ts'
import { sbr } from './sbr.ts'
import { tuning } from './tuning.ts'

const features: readonly Feature[] = [macCheck, hostPorts, masquerade, bandwidth, isolation, sbr, tuning]

type OpMoment = Exclude<keyof Feature, 'elements' | 'commonElements' | 'links'>

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

export function featureLinks(spec: AttachmentSpec): readonly string[] {
  return features.flatMap(({ links }) => links?.(spec) ?? [])
}
