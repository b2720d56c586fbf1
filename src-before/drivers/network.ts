// SPDX-License-Identifier: Apache-2.0
// The operations for the links that a network's attachments share: forwarding, and its bridge.

import { type Cluster, clusterElements, clusterSets } from '../features/cluster.ts'
import { acceptElements, acceptedOf, acceptMark, isolationElements } from '../features/firewall.ts'
import { loopbackGuard } from '../features/host-ports.ts'
import { hairpinElements, masqueradeElements, masqueradeOps, withoutFormerHosts } from '../features/masquerade.ts'
import type { AttachmentSpec, NetworkSpec } from '../model/attachment.ts'
import { describeElement, elementOps, type Op } from '../model/op.ts'
import { type SetName, setSpec, type TableFamily } from '../model/tables.ts'
import { attachmentRuleOps } from './attach.ts'
import { bridgeSysctlOps, keepBridgeOps, newBridgeOps, type Port, portOps } from './bridge.ts'

function forwardingOps(network: NetworkSpec): readonly Op[] {
  return network.forwarding.map((family) => ({
    in: 'host',
    kind: 'forwarding.on',
    family,
    why: `forward IPv${family} packets`,
  }))
}

/** A network's bridge and forwarding, and the ports that belong on the bridge. */
export function bridgeOps(network: NetworkSpec, attachments: readonly Port[]): readonly Op[] {
  const { bridge } = network
  if (bridge === undefined) return forwardingOps(network)
  const ports = attachments.filter(({ port }) => port?.bridge === bridge.name)
  return [...forwardingOps(network), ...newBridgeOps(bridge), ...ports.flatMap(portOps)]
}

/** Operations about the bridge for an ADD that has no sign of a change. */
export function fastPathBridgeOps(network: NetworkSpec): readonly Op[] {
  const { bridge } = network
  return [...forwardingOps(network), ...(bridge ? [...bridgeSysctlOps(bridge), ...keepBridgeOps(bridge)] : [])]
}

// The rules that all attachments and networks need together, from state alone: the left side of desired − observed
// (docs/design.md, "One difference").

interface RuleSource {
  readonly networks: readonly NetworkSpec[]
  readonly attachments: readonly AttachmentSpec[]
  /** All networks of the table, where `networks` are some of them: they have one mark, and a bridge one policy. */
  readonly all?: readonly NetworkSpec[]
  /** The cluster around the node, where its agent has written it down. */
  readonly cluster?: Cluster | undefined
  /** Links that let 127.0.0.1 through for host ports, also where none is left. */
  readonly opened?: readonly string[]
}

/** Base ruleset and elements. Nothing where no network and no attachment needs any. */
export function ruleOps(source: RuleSource): readonly Op[] {
  const elements = allElementsOf(source)
  return elements.length === 0 ? [] : [...baseOps(source, elements), ...elements]
}

const refilled: readonly SetName[] = [
  ...(['masq4', 'masq6', 'keep4', 'keep6', 'hairpin4', 'hairpin6', 'fenced', 'fencedpair'] as const),
  ...(['acceptlinks', 'acceptnet4', 'acceptnet6', 'acceptnew4', 'acceptnew6', ...clusterSets] as const),
]

/** Whether the attachment has elements of its own in sets that are emptied and filled again. */
export function hasRefilledElements(spec: AttachmentSpec): boolean {
  return attachmentRuleOps(spec).some((op) => op.kind === 'nft.add' && refilled.includes(op.set))
}

/**
 * The rules anew after another network's elements stood in the way: interval sets refuse an overlap,
 * so they are emptied and filled in the same transaction. `evenEmpty`: also where nothing is left to fill.
 */
export function refilledRuleOps(source: RuleSource, evenEmpty = false): readonly Op[] {
  const elements = allElementsOf(source)
  if (elements.length === 0 && !evenEmpty) return []
  const flushes = refilled.map((set): Op => {
    return { in: 'host', kind: 'nft.flush', set, why: `refill the nft set ${set}` }
  })
  return [...baseOps(source, elements), ...flushes, ...elements]
}

/**
 * The rules on the way of an ADD: elements, added again, and the table shown, so that a flush is noticed. Those of the
 * cluster are its agent's, and may be thousands.
 */
export function fastPathRuleOps(source: RuleSource): readonly Op[] {
  const elements = elementsOf(source)
  if (elements.length === 0) return []
  const shows = tablesOf(elements).map(
    (table): Op => ({
      in: 'host',
      kind: 'nft.base.show',
      table,
      why: `see that the rules of table ${table} trestle are there`,
    }),
  )
  return [...elements, ...shows]
}

/** Whether a network has rules of its own, apart from those of its attachments. */
export function sharesRules(network: NetworkSpec): boolean {
  const { masquerade, hairpin, ingressPolicy } = network
  return (masquerade ?? hairpin ?? ingressPolicy) !== undefined || acceptedOf(network).length > 0
}

function baseOps({ networks, all = networks }: RuleSource, elements: readonly Op[]): readonly Op[] {
  const mark = acceptMark(all)
  return tablesOf(elements).map((table) => ({
    in: 'host',
    kind: 'nft.base',
    table,
    ...(mark === undefined || table !== 'inet' ? {} : { acceptMark: mark }),
    why: `set up the nft table ${table} trestle`,
  }))
}

/** The main table always, the other one where it has elements. */
export function tablesOf(ops: readonly Op[]): readonly TableFamily[] {
  return ops.some((op) => op.kind === 'nft.add' && setSpec(op.set).table === 'bridge') ? ['inet', 'bridge'] : ['inet']
}

function allElementsOf(source: RuleSource): readonly Op[] {
  const own = elementsOf(source)
  // Without pods or networks there is no table, and no use for the cluster's elements.
  if (own.length === 0 || source.cluster === undefined) return own
  return [...clusterOps(source.cluster), ...own]
}

/** The operations of each cluster: an agent asks for the same cluster every minute, with thousands of elements. */
const knownOps = new WeakMap<Cluster, readonly Op[]>()

function clusterOps(cluster: Cluster): readonly Op[] {
  const ops = knownOps.get(cluster) ?? elementOps(clusterElements(cluster))
  knownOps.set(cluster, ops)
  return ops
}

function elementsOf({ networks, attachments, all = networks, opened = [] }: RuleSource): readonly Op[] {
  const links = elementOps(
    networks.flatMap((network) => [...hairpinElements(network), ...isolationElements(network, all)]),
  )
  const accepts = elementOps(acceptElements(networks))
  const shared = [...accepts, ...masqueradeOps(masqueradeElements(networks)), ...links]
  const guards = elementOps(opened.map(loopbackGuard))
  const ops = [...shared, ...withoutFormerHosts(attachments).flatMap(attachmentRuleOps), ...guards]
  const seen = new Set<string>()
  return ops.filter((op) => {
    const text = op.kind === 'nft.add' ? `${op.set} ${describeElement(op)}` : op.kind === 'nft.chain' ? op.chain : ''
    return !seen.has(text) && seen.add(text)
  })
}
