// SPDX-License-Identifier: Apache-2.0
// All features, in the order in which their operations run: ADD, CHECK, restore, plan, DEL and recovery read this table.

import type { Spec } from '../drivers/spec.ts'
import type { Op } from '../kernel/operation.ts'
import { bandwidth } from './bandwidth.ts'
import type { BareElement, Feature } from './feature.ts'
import { isolation } from './firewall.ts'
import { hostPorts } from './host-ports.ts'
import { masquerade } from './masquerade.ts'
import { sbr } from './sbr.ts'
import { tuning } from './tuning.ts'
import { macCheck } from './vlan.ts'

const features: readonly Feature[] = [masquerade, hostPorts, isolation, macCheck, bandwidth, tuning, sbr]

export function featureOps(part: 'ops' | 'podLinkOps' | 'podRouteOps' | 'undo', spec: Spec): readonly Op[] {
  return features.flatMap((feature) => feature[part]?.(spec) ?? [])
}

export function featureElements(spec: Spec): readonly BareElement[] {
  return features.flatMap((feature) => feature.elements?.(spec) ?? [])
}

/** Links of the host that features have made for the attachment. */
export function featureLinks(spec: Spec): readonly string[] {
  return features.flatMap((feature) => feature.links?.(spec) ?? [])
}
