// SPDX-License-Identifier: Apache-2.0
// What all attachments and networks together need of the machine, from state alone: the left side
// of desired − observed for everything that is shared (contract §4).

import { portOps } from './attach.ts'
import type { AttachmentSpec, NetworkSpec } from './attachment.ts'
import { masqueradeElements, masqueradeOps } from './masquerade.ts'
import { forwardingOps, keepBridgeOps, newBridgeOps } from './network.ts'
import type { Op } from './op.ts'

/** Whether any of the networks needs our nft table. */
export function needsRules(networks: readonly NetworkSpec[]): boolean {
  return networks.some((network) => network.masquerade !== undefined)
}

/** The rules of these networks: base ruleset and elements. Nothing where no network needs any. */
export function ruleOps(networks: readonly NetworkSpec[]): readonly Op[] {
  if (!needsRules(networks)) return []
  const base: Op = { in: 'host', kind: 'nft.base', why: 'set up the nft table inet trestle' }
  return [base, ...masqueradeOps(masqueradeElements(networks))]
}

/**
 * The rules anew after another network's elements stood in the way: interval sets refuse an overlap,
 * so they are emptied and filled in the same transaction.
 */
export function refilledRuleOps(networks: readonly NetworkSpec[]): readonly Op[] {
  const [base, ...elements] = ruleOps(networks)
  if (base === undefined) return []
  const sets = ['masq4', 'masq6', 'keep4', 'keep6'] as const
  const flushes = sets.map((set): Op => ({ in: 'host', kind: 'nft.flush', set, why: `refill the nft set ${set}` }))
  return [base, ...flushes, ...elements]
}

/** The rules on the way of an ADD: shown, so that a flushed table is noticed, and the elements said again. */
export function steadyRuleOps(networks: readonly NetworkSpec[]): readonly Op[] {
  const [base, ...elements] = ruleOps(networks)
  if (base === undefined) return []
  return [...elements, { in: 'host', kind: 'nft.base.show', why: 'see that the rules of table inet trestle are there' }]
}

/** A network's bridge and forwarding, and the ports that belong on the bridge. */
export function bridgeOps(network: NetworkSpec, attachments: readonly AttachmentSpec[]): readonly Op[] {
  const { bridge } = network
  if (bridge === undefined) return forwardingOps(network)
  const ports = attachments.filter((spec) => spec.port?.bridge === bridge.name)
  return [...forwardingOps(network), ...newBridgeOps(bridge), ...ports.flatMap(portOps)]
}

/** What ADD says of the bridge where nothing tells that it has changed. */
export function steadyBridgeOps(network: NetworkSpec): readonly Op[] {
  return [...forwardingOps(network), ...(network.bridge ? keepBridgeOps(network.bridge) : [])]
}
