// SPDX-License-Identifier: Apache-2.0
// Which rules of the upstream plugins' nftables tables are those of given attachments: told by their comments.

import type { NftChain } from '../model/observed.ts'
import { type NamedPod, networkMark, type UpstreamOwner, upstreamNames } from './owner-names.ts'

/** The tables that ipMasq, portmap and macspoofchk use; the last one may be others' too. */
export const upstreamTables = [
  { family: 'inet', table: 'cni_plugins_masquerade' },
  { family: 'ip', table: 'cni_hostport' },
  { family: 'ip6', table: 'cni_hostport' },
  { family: 'bridge', table: 'nat' },
] as const

/** The rules and chains of a table, as far as they tell whose they are. */
export interface UpstreamNftRules {
  readonly rules: readonly UpstreamRule[]
  readonly chains: readonly NftChain[]
}

/** A rule. `texts`: every text in its expression; `source`: the address that it compares the sender with. */
export interface UpstreamRule extends NftChain {
  readonly handle: number
  readonly comment: string
  readonly texts: ReadonlySet<string>
  readonly source: string | undefined
}

/** Of `listed` what these owners have: rules, and chains with all that is in them. */
export function nftRemovals(listed: UpstreamNftRules, owners: readonly UpstreamOwner[]): UpstreamNftRules {
  const known = owners.map((owner) => ({ owner, names: upstreamNames(owner) }))
  const spoof = new Set(known.flatMap(({ names }) => names.spoofChains))
  return {
    rules: listed.rules.filter((rule) => known.some((each) => isOwn(rule, each))),
    chains: listed.chains.filter(
      ({ family, table, chain }) => family === 'bridge' && table === 'nat' && spoof.has(chain),
    ),
  }
}

/** The pods of `network` that ipMasq's rules name; portmap's have the container id only. */
export function nftPods({ rules }: UpstreamNftRules, network: string): readonly NamedPod[] {
  const mark = `${networkMark(network)}-`
  return rules.flatMap(({ table, comment, source }) => {
    if (table !== 'cni_plugins_masquerade' || !comment.startsWith(mark)) return []
    const [, ifName, containerId] = /, if: ([^,]+), id: (\S+)$/.exec(comment) ?? []
    // The plugin cuts comments at 128 bytes: a cut id names nobody.
    if (containerId === undefined || ifName === undefined || Buffer.byteLength(comment) >= 128) return []
    return [{ network, containerId, ifName, ...(source === undefined ? {} : { address: source }) }]
  })
}

function isOwn(
  rule: UpstreamRule,
  { owner, names }: { owner: UpstreamOwner; names: ReturnType<typeof upstreamNames> },
) {
  const { comment } = rule
  switch (rule.table) {
    case 'cni_plugins_masquerade':
      return comment.startsWith(names.masqueradeMark)
    case 'cni_hostport':
      return comment === owner.containerId && (owner.addresses.length === 0 || isAbout(rule, owner.addresses))
    case 'nat':
      return rule.family === 'bridge' && comment === names.spoofMark
    default:
      return false
  }
}

/** portmap's comment is the container's: the pod's address tells its interfaces apart. */
function isAbout({ texts }: UpstreamRule, addresses: readonly string[]): boolean {
  return addresses.some((address) => texts.has(address))
}
