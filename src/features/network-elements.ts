// SPDX-License-Identifier: Apache-2.0
// The elements that networks share and those of the cluster around the node, of which `trestle agent` writes the file.

import { formatAddress, parseAddress, parseCidr, toCidr } from '../cni/addresses.ts'
import { asObject, parseObject } from '../cni/json.ts'
import { clusterComment, networkDigest } from '../drivers/names.ts'
import type { NetworkSpec } from '../drivers/spec.ts'
import { type Element, elementKey } from '../kernel/nft-table.ts'
import type { BareElement } from './feature.ts'
import { acceptElements, policyElements } from './firewall.ts'
import { masqueradeElements, prefixElements } from './masquerade.ts'

/** Each element once, with the comment of the network that it is of. Overlapping networks are taken apart. */
export function networkElements(networks: readonly NetworkSpec[]): readonly Element[] {
  const owners = new Map<string, string>()
  for (const network of networks) {
    const comment = networkDigest(network.name)
    for (const element of elementsOf([network]))
      if (!owners.has(elementKey(element))) owners.set(elementKey(element), comment)
  }
  const elements = new Map<string, Element>()
  for (const element of elementsOf(networks)) {
    const key = elementKey(element)
    elements.set(key, { ...element, comment: owners.get(key) ?? networkDigest(networks[0]?.name ?? '') })
  }
  // A network without a configuration has what was found of it (state/recover.ts).
  for (const element of networks.flatMap(({ givenElements }) => givenElements ?? []))
    if (!elements.has(elementKey(element))) elements.set(elementKey(element), element)
  return [...elements.values()]
}

function elementsOf(networks: readonly NetworkSpec[]): readonly BareElement[] {
  const links = networks.flatMap(({ bridge, hairpin, hairpinLink }) => {
    const link = hairpinLink ?? bridge?.vlanGateway?.name ?? bridge?.name
    return hairpin.length > 0 && link !== undefined ? [link] : []
  })
  return [
    ...masqueradeElements(networks),
    ...links.map((link): BareElement => ({ set: 'hairpinlink', key: [link, link] })),
    ...policyElements(networks),
    ...acceptElements(networks),
  ]
}

/** Whether the network has rules of its own, beside those of its attachments. */
export function hasNetworkRules(network: NetworkSpec): boolean {
  return elementsOf([network]).length > 0 || (network.givenElements?.length ?? 0) > 0
}

/** `pods`: ranges of this node's pods; `peers`: those of other nodes; `addresses`: of other nodes. */
export interface Cluster {
  readonly pods: readonly string[]
  readonly peers: readonly string[]
  readonly addresses: readonly string[]
  /** The overlay's UDP port and device. */
  readonly overlay?: { readonly port: number; readonly link: string }
}

/** Undefined where the text is something else: nothing in it reaches nft unread. */
export function readCluster(json: string): Cluster | undefined {
  const { pods, peers, addresses, overlay } = parseObject(json) ?? {}
  const isList = (value: unknown, accepts: (text: string) => unknown): value is readonly string[] =>
    Array.isArray(value) && value.every((each) => typeof each === 'string' && accepts(each))
  if (!isList(pods, parseCidr) || !isList(peers, parseCidr) || !isList(addresses, parseAddress)) return undefined
  const { port, link } = asObject(overlay)
  const isOverlay = Number.isInteger(port) && typeof link === 'string'
  return { pods, peers, addresses, ...(isOverlay ? { overlay: { port: Number(port), link } } : {}) }
}

export function clusterElements({ pods, peers, addresses, overlay }: Cluster): readonly Element[] {
  const single = [...new Set(addresses)].map(toCidr).map((address): BareElement => {
    return { set: `peeraddr${address.family}`, key: [formatAddress(address)] }
  })
  const elements = [...prefixElements('podnet', pods), ...prefixElements('peernet', peers), ...single]
  if (overlay !== undefined) {
    elements.push({ set: 'overlayport', key: [`${overlay.port}`] })
    elements.push({ set: 'overlaylink', key: [overlay.link] })
  }
  return elements.map((element) => ({ ...element, comment: clusterComment }))
}
