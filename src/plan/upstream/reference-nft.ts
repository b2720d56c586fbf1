// SPDX-License-Identifier: Apache-2.0
// Which rules of the reference plugins' nftables tables are those of given attachments, and the nft
// input that takes these away and no other. A rule is deleted by its handle, told by its comment.

import { type NamedPod, networkMark, type ReferenceOwner, referenceNames } from './reference-chain.ts'

/** The tables that ipMasq, portmap and macspoofchk use; the last one may be others' too. */
export const referenceTables = [
  { family: 'inet', table: 'cni_plugins_masquerade' },
  { family: 'ip', table: 'cni_hostport' },
  { family: 'ip6', table: 'cni_hostport' },
  { family: 'bridge', table: 'nat' },
] as const

/** A rule as `nft -j -a list table` has it. */
interface NftRule {
  readonly family: string
  readonly table: string
  readonly chain: string
  readonly handle: number
  readonly comment?: string
  readonly expr: unknown
}

interface NftChain {
  readonly family: string
  readonly table: string
  readonly name: string
}

interface Listing {
  readonly rules: readonly NftRule[]
  readonly chains: readonly NftChain[]
}

/** Deletions as input for `nft -f -`; empty where there is nothing to delete. `json`: what `nft -j list table` printed, of one table. */
export function nftRemovals(json: string, owners: readonly ReferenceOwner[]): string {
  const { rules, chains } = readListing(json)
  const known = owners.map((owner) => ({ owner, names: referenceNames(owner) }))
  const own = rules.filter((rule) => known.some((each) => isOwn(rule, each)))
  const spoof = new Set(known.flatMap(({ names }) => names.spoofChains))
  const gone = chains.filter((chain) => chain.family === 'bridge' && chain.table === 'nat' && spoof.has(chain.name))
  return [
    ...own.map(({ family, table, chain, handle }) => `delete rule ${family} ${table} ${chain} handle ${handle}\n`),
    ...gone.map(({ family, table, name }) => `flush chain ${family} ${table} ${name}\n`),
    ...gone.map(({ family, table, name }) => `delete chain ${family} ${table} ${name}\n`),
  ].join('')
}

/** The pods of `network` that ipMasq's rules name; portmap's have the container id only. */
export function nftPods(json: string, network: string): readonly NamedPod[] {
  const mark = `${networkMark(network)}-`
  return readListing(json).rules.flatMap(({ table, comment = '', expr }) => {
    if (table !== 'cni_plugins_masquerade' || !comment.startsWith(mark)) return []
    const [, ifName, containerId] = /, if: ([^,]+), id: (\S+)$/.exec(comment) ?? []
    // The plugin cuts comments at 128 bytes: a cut id names nobody.
    if (containerId === undefined || ifName === undefined || Buffer.byteLength(comment) >= 128) return []
    const address = /"field": ?"saddr"[^}]*\}\}, ?"right": ?"([^"]+)"/.exec(JSON.stringify(expr))?.[1]
    return [{ network, containerId, ifName, ...(address === undefined ? {} : { address }) }]
  })
}

function isOwn(rule: NftRule, { owner, names }: { owner: ReferenceOwner; names: ReturnType<typeof referenceNames> }) {
  const { comment = '' } = rule
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
function isAbout(rule: NftRule, addresses: readonly string[]): boolean {
  const text = JSON.stringify(rule.expr)
  return addresses.some((address) => text.includes(JSON.stringify(address)))
}

function readListing(json: string): Listing {
  const empty = { rules: [], chains: [] }
  if (json.trim() === '') return empty
  const entries = (JSON.parse(json) as { nftables?: readonly { rule?: NftRule; chain?: NftChain }[] }).nftables ?? []
  return {
    rules: entries.flatMap((entry) => entry.rule ?? []),
    chains: entries.flatMap((entry) => entry.chain ?? []),
  }
}
