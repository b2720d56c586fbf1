// SPDX-License-Identifier: Apache-2.0
// Host ports behind the operator's conditions (portmap.conditionsV4, conditionsV6). A host port has one
// owner on the node, so one element sends the packets of that port through a chain with the owner's
// conditions; only what passes them is looked up in the maps. The chain's name is the hash of its
// conditions: no network's conditions ever apply to another's ports, and no chain is ever changed under
// a pod that uses it.

import type { HostPort, HostPortSpec } from '../model/attachment.ts'
import type { Element } from '../model/elements.ts'
import type { Op } from '../model/op.ts'
import { sha256 } from '../model/sha256.ts'
import { ruleComment } from '../model/tables.ts'

/** The chains that the pod's ports go through, said anew with each pod: a chain of this name has one content. */
export function conditionOps(spec: HostPortSpec): readonly Op[] {
  return ([4, 6] as const).flatMap((family): readonly Op[] => {
    const chain = chainOf(spec, family)
    if (chain === undefined || !spec.ports.some((port) => port.family === family)) return []
    const conditions = conditionsOf(spec, family)
    const why = `set up the conditions of host ports, IPv${family}`
    return [{ in: 'host', kind: 'nft.chain', chain, conditions, comment: ruleComment(chain), why }]
  })
}

/** The names of the chains that the pod's ports go through. */
export function conditionChains(spec: HostPortSpec | undefined): readonly string[] {
  return spec === undefined ? [] : conditionOps(spec).flatMap((op) => (op.kind === 'nft.chain' ? [op.chain] : []))
}

/** Takes chains away that no element leads to. */
export function chainRemovals(chains: readonly string[]): readonly Op[] {
  return chains.map((chain) => ({
    in: 'host',
    kind: 'nft.chain.del',
    chain,
    why: `remove the conditions of host ports, nft chain ${chain}`,
  }))
}

/** The chains of conditions that these elements lead to. */
export function chainsBehind(elements: readonly Element[]): readonly string[] {
  const chains = elements.flatMap(({ value: [chain = ''] = [] }) =>
    /^cond[46]_[0-9a-f]{16}$/.test(chain) ? chain : [],
  )
  return [...new Set(chains)]
}

/** What sends packets to the pod's ports through their conditions. */
export function conditionalPortElements(spec: HostPortSpec): readonly Element[] {
  return spec.ports.flatMap((port): readonly Element[] => {
    const chain = chainOf(spec, port.family)
    const set = port.hostIp === undefined ? 'anygates' : 'gates'
    return chain === undefined ? [] : [{ set: `${set}${port.family}`, key: portKey(port), value: [chain] }]
  })
}

/** What a packet to the host port has: its address where the port is on one, protocol and port. */
export function portKey({ hostIp, protocol, hostPort }: HostPort): readonly string[] {
  return [...(hostIp === undefined ? [] : [hostIp]), protocol, String(hostPort)]
}

function conditionsOf(spec: HostPortSpec, family: 4 | 6): readonly string[] {
  return (family === 4 ? spec.conditionsV4 : spec.conditionsV6) ?? []
}

/** `cond4_` and 16 hex digits, or undefined where the family has no conditions. */
function chainOf(spec: HostPortSpec, family: 4 | 6): string | undefined {
  const conditions = conditionsOf(spec, family)
  if (conditions.length === 0) return undefined
  return `cond${family}_${sha256(conditions.join(' ')).toString('hex').slice(0, 16)}`
}
